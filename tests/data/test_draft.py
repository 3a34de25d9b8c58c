"""`admmnet data draft`: a schema from a public sample; what a simulation drafts, and a private run does not."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admmnet import RunConfig, run
from admmnet.data import DataSettings
from admmnet.data.draft import SchemaDraft, draft, write_draft
from admmnet.data.given import Given
from admmnet.data.schema import Categorical, Numeric, parse_schema, to_table
from admmnet.data.source import source_of
from admmnet.data.table import RawColumn, RawTable, column_of
from admmnet.errors import DataError, RequestError
from tests.command_runs import Admmnet
from tests.data.conftest import Write, every
from tests.people_runs import summary_of

pytestmark = pytest.mark.usefixtures("_here")


def table(**columns: list[str]) -> RawTable:
    found = {name: column_of(values) for name, values in columns.items()}
    rows = len(next(iter(found.values())).codes)
    return RawTable(tuple(found), rows, found.__getitem__, lambda row: f"t, row {row}", "t")


def of_values(values: list[str]) -> SchemaDraft:
    """Draft of a column v beside two others."""
    n = len(values)
    return draft(table(v=values, x=[f"{k % 7}" for k in range(n)], y=[f"{k % 2}" for k in range(n)]), "y")


def test_every_kind_of_column() -> None:
    read = table(
        age=[f"{20 + k % 50}" for k in range(60)],
        ward=["ABC"[k % 3] for k in range(60)],
        seen=[f"2024-03-{1 + k % 28:02}" for k in range(60)],
        smokes=[("yes", "Yes", "no")[k % 3] for k in range(60)],
        income=["high" if k % 4 == 0 else "low" for k in range(60)],
    )
    found = draft(read, "income")
    assert [(doubt.column, doubt.reason) for doubt in found.doubts] == [("seen", "dates")]
    assert (found.schema.drop, found.schema.labels) == (("seen",), ("low", "high"))
    assert found.schema.rules == (
        Numeric("age", "age", scale="centred", low=20.0, high=69.0),
        Categorical("ward", "ward", other=True, categories=("A", "B", "C")),
        Categorical("smokes", "smokes", other=True, groups={"Yes": ("Yes", "yes"), "no": ("no",)}),
    )
    assert found.notes["income"] == "shares in the sample: 'low' 75.0%, 'high' 25.0%; 'high' is +1"
    # it encodes its sample and reads nothing more
    source = source_of(read, parse_schema(to_table(found.schema)), discover=False)
    X = source.take(np.arange(read.rows))
    assert source.dependent == ()
    assert np.abs(X).max() <= 1.0
    assert (X.max(axis=0) > 0.0).sum() >= X.shape[1] - 2  # all but "other", which the sample has not


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["no", "yes"], ("no", "yes")),
        (["1", "-1"], ("-1", "1")),
        (["c", "a", "b"], ("a", "b", "c")),
        (["10", "9", "8"], ("8", "9", "10")),
        ([str(k / 2) for k in range(41)], (0.0, 20.0)),
        (["a"], "column 'y': every record has 'a'"),
        ([f"w{k}" for k in range(30)], "column 'y' has 30 values, 'w0', 'w1', 'w2', 'w3', ..."),
        (["no", "No", "yes"], "column 'y' spells one label in several ways"),
    ],
)
def test_label_values(values: list[str], found: tuple[str, ...] | tuple[float, ...] | str) -> None:
    read = table(v=[f"{k / 8}" for k in range(len(values) * 2)], y=values * 2)
    if isinstance(found, str):
        with pytest.raises(DataError, match=found):
            draft(read, "y")
        return
    schema = draft(read, "y").schema
    assert (schema.labels, schema.targets) == ((None, found) if isinstance(found[0], float) else (found, None))


def test_targets_of_another_spelling() -> None:
    rows = [*(f"{k},25" for k in range(30)), "1.500"]
    assert draft(table(v=rows, y=rows), "y").schema.targets == (0.0, 1100.0)
    typed = RawColumn(tuple(f"{k}.5" for k in range(31)), np.arange(31, dtype=np.int32), typed=True)
    mixed = RawTable(("v", "y"), 31, lambda name: column_of(rows) if name == "v" else typed, lambda row: "", "t")
    assert draft(mixed, "y").schema.targets == (0.0, 31.0)


@pytest.mark.parametrize(
    ("values", "found", "example"),
    [
        ([f"{k}.5 %" for k in range(60)], "numbers with a unit", "such as '0.5 %': write them without"),
        (["1", "2", "3", "inf"], "numbers that are not finite", "'inf': fill them in, or leave these cells empty"),
        ([*(f"{k}.5" for k in range(60)), "<5", "high"], "numbers and words", "2 of 62 values are no numbers, '<5'"),
        ([f"{k:05}" for k in range(60)], "identifiers or free text", "all 60 differ, such as '00000'"),
        ([f"{k % 55:05}" for k in range(120)], "free text or codes", "55 values in 120 records"),
        (["a long remark " * 5, "another"] * 30, "free text or codes", "2 values in 60 records"),
        ([f"{k}" for k in range(100, 160)], "identifiers", "all 60 differ, such as '100'"),
        (["2024-01-01 10:00:00", "01.02.2024"] * 5, "dates", "make an age"),
        (["x"] * 30, "constant", "every record has 'x'"),
        (["", "NA"] * 30, "constant", "every record has 'no value'"),
        ([f"{1000 - 3 * k + k % 2}.25" for k in range(60)], Numeric, ""),  # all differ, but are no whole numbers
        ([str((k * 37) % 101) for k in range(60)], Numeric, ""),  # all differ, in no order, under no telling name
        (["1"] * 30 + [""] * 30, Categorical, ""),
        ([f"{k % 5:03}" for k in range(60)], Categorical, ""),
    ],
)
def test_a_column_is_kept_or_left_out_which_quotes_no_value_in_the_file(
    values: list[str], found: Any, example: str
) -> None:
    drafted = of_values(values)
    if not isinstance(found, str):
        assert not drafted.doubts
        assert isinstance(drafted.schema.rules[0], found)
        return
    (doubt,) = drafted.doubts
    assert (doubt.column, doubt.reason) == ("v", found)
    assert example in doubt.example
    written = write_draft(drafted)
    assert f"# 'v' is left out: {found}\n" in written
    assert parse_schema(tomllib.loads(written)) == drafted.schema


def test_a_few_large_values_do_not_stretch_the_bounds() -> None:
    rule: Any = of_values([*(str(k % 90) for k in range(300)), "1000000"]).schema.rules[0]
    assert (rule.low, rule.high) == (0.0, 89.0)


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        (["1.234,50", "7,00", "12.000.000,25"], (",", ".")),
        (["1,234.50", "7.00", "900.25"], (".", ",")),
        (["0,5", "7,25", "3,125"], (",", "")),
        (["1'234.5", "9'000.0", "7"], (".", "'")),
    ],
)
def test_a_draft_finds_out_how_numbers_are_written(marks: list[str], found: tuple[str, str]) -> None:
    schema = draft(table(v=marks), None).schema
    assert (schema.decimal, schema.thousands) == found
    assert [(rule.column, type(rule)) for rule in schema.rules] == [("v", Numeric)]


def test_every_text_survives_the_file() -> None:
    odd = ['a "quoted" \\ word', "tab\tinside", "\u00e4\u4e16\U0001f600", "x = [1]", "# no comment", "\x7f"]
    found = draft(table(**{"col umn.with [dots]": odd}), None)
    assert parse_schema(tomllib.loads(write_draft(found))) == found.schema


# commands and runs


def people(path: str, rows: int = 120, seed: int = 0) -> str:
    """A csv of numbers of very different sizes, some missing, words, dates and text labels."""
    stream = np.random.default_rng(seed)
    lines = ["id,age,income,ward,seen,sick"]
    for k in range(rows):
        age = stream.integers(20, 90)
        income = "" if k % 9 == 0 else f"{stream.lognormal(10):.2f}"
        lines.append(f"P{k:04},{age},{income},{'ABC'[k % 3]},2024-01-{1 + k % 28:02},{'yes' if age > 60 else 'no'}")
    Path(path).write_text("\n".join(lines) + "\n")
    return path


QUICK: dict[str, Any] = {"agents": 2, "rounds": 2, "topology": "path:2"}
PRIVATE: dict[str, Any] = {"no_test": True, "no_account": True}


def test_a_simulation_drafts_what_nothing_declares(admmnet: Admmnet) -> None:
    how: dict[str, Any] = {"data": people("people.csv"), "label": "sick", **QUICK}
    notes = " ".join(run(RunConfig(**how, seed=1, out="one")).summary["notes"])
    assert "'id' (identifiers or free text), 'seen' (dates)" in notes
    assert "the encoding of 3 columns, the labels 'no', 'yes'" in notes
    # age, income and missing, three wards and others, intercept
    assert summary_of(Path("one"))["data"]["features"] == 8
    admmnet.ok("evaluate", "one", "--data", "people.csv")  # encoding.json says how
    with pytest.raises(RequestError, match="data check"):
        run(RunConfig(**how, **PRIVATE, out="two"))
    accepted = run(RunConfig(**how, **PRIVATE, data_dependent=True, out="three"))
    assert "P0" not in str(accepted.summary["notes"])


def test_a_private_run_takes_numbers_as_they_are(write: Write) -> None:
    data = write("n.csv", "a,b,y\n" + "".join(f"{k},{k * k},{k % 2}\n" for k in range(40)))
    result = run(RunConfig(data=data, label="y", **QUICK, **PRIVATE, out="one"))
    kept = json.loads((result.folder / "encoding.json").read_text())
    assert {name: column["scale"] for name, column in kept["columns"].items()} == {"a": "none", "b": "none"}
    assert any("nothing is declared of the columns" in note for note in result.summary["notes"])
    X = every(data, label="y", no_test=True).shards[0][0]
    np.testing.assert_allclose(X[:, 0] / X[:, 2], np.arange(40.0), rtol=1e-15)


@pytest.mark.parametrize("labels", [["no", None, "yes"], [0.0, math.nan, 1.0], ["0", "1", ""]])
def test_records_without_a_label_are_counted(labels: list[Any]) -> None:
    frame = pd.DataFrame({"a": np.arange(60) ** 2 / 7, "y": labels * 20})
    how: dict[str, Any] = {"label": "y", "no_test": True, "data_dependent": True}
    records = Given("frame", frame).load(DataSettings(data="frame", **how), 1, [0])
    assert "20 of 60 records have no label and are left out" in records.notes
    assert sorted(set(records.shards[0][1])) == [-1.0, 1.0]
    frame.to_csv("f.csv", index=False)
    again = every("f.csv", **how)
    assert again.notes == records.notes
    np.testing.assert_array_equal(again.shards[0][1], records.shards[0][1])
    ids = pd.DataFrame({"id": range(60), "c": 1, "y": [0, 1] * 30})
    with pytest.raises(RequestError, match=r"no column is left .*'id' \(identifiers\), 'c' \(constant\)"):
        Given("frame", ids).load(DataSettings(data="frame", **how), 1, [0])


@pytest.mark.parametrize("kind", ["plain", "semicolons", "no header"])
def test_three_commands_from_a_messy_file_to_a_private_model(kind: str, admmnet: Admmnet) -> None:
    path = Path(people("people.csv"))
    text, label = path.read_text(), "sick"
    if kind == "semicolons":
        path.write_text("\ufeff" + text.replace(",", ";").replace(".", ","), encoding="utf-8")
    if kind == "no header":
        path.write_text(text.partition("\n")[2])
        label = "x6"
    printed = admmnet.ok("data", "draft", path, "--label", label, "-o", "schema.toml")
    told = printed.out + printed.err
    assert "looked at people.csv: 120 records" in told
    words = {"semicolons": "its cells are divided by semicolons", "no header": "its first line is taken for a record"}
    assert {name: text in told for name, text in words.items()} == {name: name == kind for name in words}
    assert ("its numbers are read as 1234,5" in told) is (kind == "semicolons")
    assert "Using this schema on" in Path("schema.toml").read_text()
    admmnet.ok("data", "check", path, "--schema", "schema.toml")
    run_words = ("--no-test", "--no-account", "--agents", 3, "--rounds", 2, "-o", "one")
    assert "read from the rows" not in admmnet.ok("run", "--data", path, "--schema", "schema.toml", *run_words).err
    assert summary_of(Path("one"))["data"]["features"] == 8


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("x-{agent}.csv", "name one file that is a public sample, without {agent}"),
        ("census", "has a public encoding of its own: see `admmnet data check census`"),
        ("t.npz", "has no named columns"),
        ("gone.csv", "gone.csv does not exist"),
        ("t.csv --label z", "t.csv has no column 'z'; it has 'a', 'y'"),
        ("bare.csv --label y", "the columns are named x1 to x3: choose one with --label"),
        ("ids.csv --label y", "no column is left besides the label"),
    ],
)
def test_other_samples_are_refused(words: str, told: str, write: Write, admmnet: Admmnet) -> None:
    texts = {"t": "a,y\n1,0\n", "bare": "39,A,1\n41,B,0\n", "ids": "a,y\nx,0\nx,1\n"}
    for name, text in texts.items():
        write(f"{name}.csv", text)
    printed = admmnet("data", "draft", *words.split())
    assert printed.code == 2
    assert told in " ".join(printed.err.split())
