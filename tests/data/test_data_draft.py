"""`admmnet data draft`: a schema from a public sample."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from admmnet.data.draft import SchemaDraft, draft, write_draft
from admmnet.data.readers.delimited import read_csv
from admmnet.data.schema import Categorical, Numeric, parse_schema, to_table
from admmnet.data.source import source_of
from admmnet.data.table import RawColumn, RawTable
from admmnet.errors import DataError
from tests.data.conftest import Write

HEAD = "patient_id,age,ward,seen,remark,site,code,smokes,income"
"""Columns of a sample with one of each kind."""


def _sample(records: int = 60) -> str:
    lines = (
        f"{500 - k},{20 + k % 50},{'ABC'[k % 3]},2024-03-{1 + k % 28:02},remark number {k},north,"
        f"{k % 7:03},{('yes', 'Yes', 'no')[k % 3]},{'high' if k % 4 == 0 else 'low'}"
        for k in range(records)
    )
    return "\n".join((HEAD, *lines)) + "\n"


def _drafted(write: Write, text: str, label: str | None) -> SchemaDraft:
    return draft(read_csv(Path(write("sample.csv", text))), label)


def _of_values(write: Write, values: list[str]) -> SchemaDraft:
    """Draft of a column v beside two others."""
    lines = (f"{value},{k % 7},{k % 2}\n" for k, value in enumerate(values))
    return _drafted(write, "v,x,y\n" + "".join(lines), "y")


def _of_labels(write: Write, values: list[str]) -> SchemaDraft:
    lines = (f"{k / 8},{value}\n" for k, value in enumerate(values * 2))
    return _drafted(write, "x,y\n" + "".join(lines), "y")


def test_every_kind_of_column(write: Write) -> None:
    found = _drafted(write, _sample(), "income")
    assert {doubt.column: doubt.reason for doubt in found.doubts} == {
        "patient_id": "identifiers",
        "seen": "dates",
        "remark": "identifiers or free text",
        "site": "constant",
    }
    assert found.schema.drop == ("patient_id", "seen", "remark", "site")
    age, ward, code, smokes = found.schema.rules
    assert age == Numeric("age", "age", scale="centred", low=20.0, high=69.0)
    assert ward == Categorical("ward", "ward", other=True, categories=("A", "B", "C"))
    assert isinstance(code, Categorical)
    assert smokes == Categorical(
        "smokes", "smokes", other=True, categories=("Yes", "no", "yes"), groups=("Yes", "no", "Yes")
    )
    assert found.schema.labels == ("low", "high")
    assert found.notes["income"] == "shares in the sample: 'low' 75.0%, 'high' 25.0%; 'high' is +1"


def test_a_draft_encodes_its_sample_and_reads_nothing_more(write: Write) -> None:
    table = read_csv(Path(write("sample.csv", _sample())))
    schema = parse_schema(to_table(draft(table, "income").schema))
    source = source_of(table, schema, discover=False)
    X = source.features.take(np.arange(table.rows))
    assert source.dependent == ()
    assert np.abs(X).max() <= 1.0
    assert (X.max(axis=0) > 0.0).sum() >= X.shape[1] - 3  # all but "other", which the sample has not


@pytest.mark.parametrize(
    ("values", "labels", "targets"),
    [
        (["no", "yes"], ("no", "yes"), None),
        (["0", "1"], ("0", "1"), None),
        (["1", "-1"], ("-1", "1"), None),
        (["c", "a", "b"], ("a", "b", "c"), None),
        (["10", "9", "8"], ("8", "9", "10"), None),
        ([str(k / 2) for k in range(41)], None, (0.0, 20.0)),
    ],
)
def test_label_values(
    write: Write, values: list[str], labels: tuple[str, ...] | None, targets: tuple[float, float] | None
) -> None:
    schema = _of_labels(write, values).schema
    assert (schema.labels, schema.targets) == (labels, targets)


@pytest.mark.parametrize(
    ("values", "words"),
    [(["a"], "every record has 'a'"), ([f"w{k}" for k in range(30)], "30 values, 'w0', 'w1', 'w2', 'w3', ...")],
)
def test_no_label(write: Write, values: list[str], words: str) -> None:
    with pytest.raises(DataError, match="column 'y'") as caught:
        _of_labels(write, values)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("values", "reason", "example"),
    [
        ([f"{k}.5 %" for k in range(60)], "numbers with a unit", "such as '0.5 %': write them without"),
        (["1", "2", "3", "inf"], "numbers that are not finite", "'inf': fill them in, or leave these cells empty"),
        (
            [f"{k}.5" for k in range(60)] + ["<5", "high"],
            "numbers and words",
            "2 of 62 values are no numbers, '<5', 'high'",
        ),
        ([f"{k:05}" for k in range(60)], "identifiers or free text", "all 60 differ, such as '00000'"),
        ([f"{k % 55:05}" for k in range(120)], "free text or codes", "55 values in 120 records"),
        (["a long remark " * 5, "another"] * 30, "free text or codes", "2 values in 60 records"),
        ([f"{k}" for k in range(100, 160)], "identifiers", "all 60 differ, such as '100'"),
        (["2024-01-01 10:00:00", "01.02.2024"] * 5, "dates", "make an age"),
        (["x"] * 30, "constant", "every record has 'x'"),
        (["", "NA"] * 30, "constant", "every record has 'no value'"),
    ],
)
def test_what_is_left_out_is_said_without_a_value_in_the_file(
    write: Write, values: list[str], reason: str, example: str
) -> None:
    found = _of_values(write, values)
    (doubt,) = found.doubts
    assert (doubt.column, doubt.reason) == ("v", reason)
    assert example in doubt.example
    written = write_draft(found)
    assert f"# 'v' is left out: {reason}\n" in written
    assert parse_schema(tomllib.loads(written)) == found.schema


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([f"{1000 - 3 * k + k % 2}.25" for k in range(60)], Numeric),  # all differ, but are no whole numbers
        ([str((k * 37) % 101) for k in range(60)], Numeric),  # all differ, in no order, under no telling name
        (["1"] * 30 + [""] * 30, Categorical),
        ([f"{k % 5:03}" for k in range(60)], Categorical),
    ],
)
def test_what_is_kept(write: Write, values: list[str], kind: type) -> None:
    found = _of_values(write, values)
    assert not found.doubts
    assert isinstance(found.schema.rules[0], kind)


def test_a_few_large_values_do_not_stretch_the_bounds(write: Write) -> None:
    values = [*(str(k % 90) for k in range(300)), "1000000"]
    rule, _ = _of_values(write, values).schema.rules
    assert isinstance(rule, Numeric)
    assert (rule.low, rule.high) == (0.0, 89.0)


def test_every_text_survives_the_file(write: Write) -> None:
    odd = ['a "quoted" \\ word', "tab\tinside", "\u00e4\u4e16\U0001f600", "x = [1]", "# no comment", "\x7f"]
    column = RawColumn(tuple(odd), np.arange(6, dtype=np.int32))
    table = RawTable(("col umn.with [dots]",), 6, lambda name: column, lambda row: "", "t\nwith a line")
    found = draft(table, None)
    assert parse_schema(tomllib.loads(write_draft(found))) == found.schema
