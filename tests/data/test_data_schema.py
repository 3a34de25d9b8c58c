"""The public schema, files of one agent each, and the checks of the settings."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, load, validate
from admmnet.data.schema import parse_schema, to_table
from admmnet.data.sets import KNOWN
from admmnet.data.sets.census import SCHEMA as CENSUS
from admmnet.errors import DataError, RequestError
from tests.data.conftest import Write, every

SCHEMA: dict[str, Any] = tomllib.loads("""
label = "sick"
labels = ["no", "yes"]
drop = ["id"]
[columns.age]
kind = "numeric"
low = 0
high = 100
[columns.age-bin]
column = "age"
kind = "numeric"
edges = [20, 40]
weight = 2
[columns.cost]
kind = "numeric"
low = 0
high = 1e6
scale = "log"
[columns.ward]
kind = "categorical"
categories = ["a", "b"]
other = true
[columns.colour]
kind = "categorical"
groups = {warm = ["red", "orange"], cold = ["blue"]}
""")
HEAD = "id,age,cost,ward,colour,sick\n"
ROWS = ["1,10,0,a,red,no", "2,30,1000,z,blue,yes", "3,130,5e6,b,orange,no", "4,50,7,a,red,yes"]


def table(rows: list[str]) -> str:
    return HEAD + "\n".join(rows) + "\n"


def test_schema_encoding(write: Write) -> None:
    path = write("t.csv", table(ROWS))
    records = every(path, schema=SCHEMA, test=path)
    assert records.preprocessing == "public-bounds"
    assert records.feature_names == (
        "age", "age-bin=[20,40)", "age-bin=[40,inf)", "cost", "ward=a", "ward=b", "ward=other", "colour=warm",
        "colour=cold", "intercept",
    )  # fmt: skip
    raw = records.X_test / records.X_test[:, -1:]
    log = math.log1p(1000) / math.log1p(1e6)
    np.testing.assert_allclose(
        raw[:3],
        [
            [0.1, 0, 0, 0, 1, 0, 0, 1, 0, 1],
            [0.3, 2, 0, log, 0, 0, 1, 0, 1, 1],
            [1.0, 0, 2, 1, 0, 1, 0, 1, 0, 1],  # clipped to the bounds
        ],
        rtol=1e-13,
    )


def test_what_is_read_from_the_rows_is_said(write: Write) -> None:
    schema = {"label": "sick", "labels": ["no", "yes"], "drop": ["*"], "columns": {
        "ward": {"kind": "categorical"}, "age": {"kind": "numeric", "scale": "centred"}}}  # fmt: skip
    path = write("t.csv", table(ROWS))
    records = every(path, schema=schema, test=path)
    assert records.preprocessing == "data-dependent"
    assert any("categories of 'ward', bounds of 'age'" in note for note in records.notes)
    assert records.feature_names == ("ward=a", "ward=b", "ward=z", "age", "intercept")
    raw = records.X_test / records.X_test[:, -1:]
    np.testing.assert_allclose(raw[:, 3], [-1, -2 / 3, 1, -1 / 3], rtol=1e-13)
    new = write("new.csv", table(["9,20,1,q,red,no"]))
    with pytest.raises(RequestError, match=r"new\.csv, line 2, column 'ward': undeclared category 'q'"):
        every(path, schema=schema, test=new)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("5,10,0,a,green,no", r"t\.csv, line 3, column 'colour': undeclared category 'green'.*other = true"),
        ("5,10,0,a,red,maybe", r"t\.csv, line 3, column 'sick': undeclared label 'maybe'"),
        ("5,,0,a,red,no", r"t\.csv, line 3, column 'age': '' is no number"),
        ("5,inf,0,a,red,no", r"t\.csv, line 3, column 'age': 'inf' is not finite"),
    ],
)
def test_rows_outside_the_schema(row: str, words: str, write: Write) -> None:
    path = write("t.csv", table([ROWS[0], row, *ROWS[1:]]))
    with pytest.raises(RequestError, match=words):
        every(path, schema=SCHEMA)


def test_columns_are_declared_or_dropped(write: Write) -> None:
    path = write("t.csv", table(ROWS))
    with pytest.raises(RequestError, match=r"does not declare 'id'; add each to .*data\.schema\.drop"):
        every(path, schema={k: v for k, v in SCHEMA.items() if k != "drop"})
    with pytest.raises(RequestError, match="has no column 'height'"):
        every(path, schema=SCHEMA | {"columns": {"height": {"kind": "numeric", "low": 0, "high": 1}}, "drop": ["*"]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lable": "y"}, r"unknown key data\.schema\.lable; the keys are"),
        ({"label": 3}, r"data\.schema\.label must be a column name, got 3"),
        ({"labels": ["a"]}, r"must be \[negative, positive\], or three classes or more, got \['a'\]"),
        ({"labels": ["a", "a"]}, "holds 'a' twice"),
        ({"labels": {"a": ["b"], "b": ["x"]}}, "'b' stands for another label, too"),
        ({"labels": {"0": ["2"], "1": ["2.0"]}}, "'2.0' stands for another label, too"),
        ({"labels": {"0": ["1.0"], "1": ["x"]}}, "'1.0' stands for another label, too"),
        ({"features": 0}, "features must be a whole number, 1 or more, got 0"),
        ({"drop": "id"}, r"data\.schema\.drop must be a list"),
        ({"labels": ["a", "b"], "threshold": 1}, "gives labels and threshold, which exclude each other"),
        ({"targets": [0, 1], "threshold": 1}, "gives targets and threshold, which exclude each other"),
        ({"targets": [1]}, r"data\.schema\.targets must be \[lowest, highest\], got \[1\]"),
        ({"targets": [1, 1]}, "the lowest must be below the highest, got 1 and 1"),
        ({"threshold": "x"}, r"data\.schema\.threshold must be a finite number, got 'x'"),
        ({"centre": math.inf}, r"data\.schema\.centre must be a finite number"),
        ({"scales": [1, 0]}, r"data\.schema\.scales must be above 0, got 0"),
        ({"scales": "x"}, r"data\.schema\.scales must be a finite number, got 'x'"),
        ({"leave_out": 9}, r"data\.schema\.leave_out must be a list"),
        ({"columns": []}, "must hold one table a column"),
        ({"columns": {"a": 3}}, r"data\.schema\.columns\.a must be a table"),
        ({"columns": {"a": {"kind": "text"}}}, r"a\.kind must be 'categorical' or 'numeric', got 'text'"),
        ({"columns": {"a": {"kind": "numeric", "hi": 3}}}, r"unknown key data\.schema\.columns\.a\.hi"),
        ({"columns": {"a": {"kind": "numeric", "high": 3}}}, "gives one of low and high"),
        ({"columns": {"a": {"kind": "numeric", "low": 3, "high": 3}}}, "low must be below high, got"),
        ({"columns": {"a": {"kind": "numeric", "low": math.nan, "high": 3}}}, r"a\.low must be a finite"),
        ({"columns": {"a": {"kind": "numeric", "scale": "cubic"}}}, "scale must be one of linear"),
        ({"columns": {"a": {"kind": "numeric", "scale": "bins"}}}, "go together"),
        ({"columns": {"a": {"kind": "numeric", "edges": [2, 1]}}}, "edges must increase"),
        ({"columns": {"a": {"kind": "numeric", "edges": []}}}, "edges must be a list of numbers"),
        ({"columns": {"a": {"kind": "numeric", "edges": [1], "low": 0, "high": 2}}}, "takes no low and high"),
        ({"columns": {"a": {"kind": "categorical", "weight": 0}}}, "weight must be above 0, got 0"),
        ({"columns": {"a": {"kind": "categorical", "categories": []}}}, "categories must be a list of"),
        ({"columns": {"a": {"kind": "categorical", "categories": ["x", "x"]}}}, "holds 'x' twice"),
        ({"columns": {"a": {"kind": "categorical", "groups": {"g": ["x"], "h": ["x"]}}}}, "holds 'x' twice"),
        ({"columns": {"a": {"kind": "categorical", "other": 1}}}, "other must be true or false, got 1"),
        ({"columns": {"a": {"kind": "categorical", "column": 1}}}, "column must be a column name, got 1"),
    ],
)
def test_schema_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        parse_schema(change)


@pytest.mark.parametrize(
    "table",
    [
        {},
        SCHEMA,
        dict(KNOWN["adult"].schema),
        CENSUS,
        {"features": 4, "labels": ["no", "yes"]},
        {"features": 4, "labels": {"no": ["no", "No"], "yes": ["yes", "1"]}},
        {"features": 4, "targets": [-1, 0.1], "centre": 0, "scales": [1 / 3, 2]},
        {"label": "y", "threshold": 0, "leave_out": ["9", "99"], "drop": ["*"]},
        {"label": "y", "columns": {"a": {"kind": "categorical"}, "b": {"kind": "numeric"}}, "drop": ["*"]},
        {"columns": {"a": {"kind": "numeric", "low": 0.1, "high": 1 / 3}, "n": {"kind": "numeric", "scale": "none"}}},
    ],
    ids=["empty", "all-kinds", "adult", "census", "width", "spelt", "targets", "threshold", "open", "exact"],
)
def test_a_schema_is_written_and_read_back(table: dict[str, Any]) -> None:
    schema = parse_schema(table)
    assert parse_schema(json.loads(json.dumps(to_table(schema)))) == schema


def test_records_carry_what_was_discovered(write: Write) -> None:
    path = write("t.csv", table(ROWS))
    assert parse_schema(every(path, schema=SCHEMA).encoding) == parse_schema(SCHEMA)
    columns = {"age": {"kind": "numeric"}, "ward": {"kind": "categorical"}}
    found = every(path, schema={"label": "sick", "drop": ["*"], "columns": columns}, positive="yes", test=path)
    assert found.encoding is not None
    assert found.encoding["labels"] == ["no", "yes"]
    again = every(path, schema=found.encoding, test=path)
    assert again.encoding == found.encoding  # declared now
    assert again.preprocessing == "public-bounds"
    assert again.feature_names == found.feature_names
    np.testing.assert_array_equal(again.X_test, found.X_test)
    np.testing.assert_array_equal(again.y_test, found.y_test)


def test_files_of_one_agent_each(write: Write) -> None:
    for agent, rows in enumerate((ROWS[:1], ROWS[1:3], [ROWS[0]] * 3)):
        path = write(f"agent-{agent}.csv", table(rows))
    pattern = path.replace("agent-2", "agent-{agent}")
    test = write("test.csv", table(ROWS))
    request = DataSettings(data=pattern, test=test, schema=SCHEMA)
    records = load(request, 40, [0, 2])  # the files of the 38 others are nobody's business here
    assert records.counts == {0: 1, 2: 3}
    assert set(records.shards[2][1]) == {-1.0}  # one class is legal
    np.testing.assert_array_equal(records.shards[0][0], records.X_test[:1])
    assert records.preprocessing == "public-bounds"
    with pytest.raises(RequestError, match=r"agent-3\.csv does not exist, and the run has 40 agents"):
        load(request, 40, [7])
    named = write("other-0.csv", "b,a,y\n4,3,1\n").replace("other-0", "other-{agent}")
    by_name = every(named, test=write("ab.csv", "a,b,y\n1,0,-1\n"), label="y", no_intercept=True)
    assert by_name.feature_names == ("a", "b")
    np.testing.assert_allclose(by_name.shards[0][0], [[0.6, 0.8]])
    with pytest.raises(RequestError, match="agent 5 does not exist"):
        load(DataSettings(), 5, [5])


def test_own_files_share_the_columns_of_the_schema_alone(write: Write) -> None:
    lines, test = table(ROWS).splitlines(), write("test.csv", table(ROWS))
    pattern = write("own-0.csv", "\n".join(lines)).replace("own-0", "own-{agent}")
    request = DataSettings(data=pattern, test=test, schema=SCHEMA)
    write("own-1.csv", "\n".join(line.partition(",")[2] for line in lines))  # without id, which is dropped
    records = load(request, 2, [0, 1])
    np.testing.assert_array_equal(records.shards[0][0], records.shards[1][0])
    write("own-1.csv", "\n".join(["Alice,41,2,a,red,no", *lines[1:]]))  # a record in place of a header
    with pytest.raises(DataError) as caught:
        load(request, 2, [0, 1])
    assert "Alice" not in caught.value.public


@pytest.mark.parametrize(
    ("name", "text", "others", "words"),
    [
        ("o-0.svm", "1 1:1\n", {}, "the width must be declared, with --features D or data.schema.features"),
        ("o-0.csv", "a,y\nx,1\n", {"label": "y", "schema": {"columns": {"a": {"kind": "categorical"}}}},
         r"data\.schema\.columns\.a\.categories must be declared"),
        ("o-0.csv", "a,y\n1,1\n", {"label": "y", "schema": {"columns": {"a": {"kind": "numeric"}}}},
         r"data\.schema\.columns\.a\.low and \.high must be declared"),
        ("o-0.csv", "a,y\n1,u\n", {"label": "y", "positive": "u"}, r"declare both, labels ="),
        ("o-0.csv", "a,y\n1,u\n", {"label": "y"}, r"labels must be -1/\+1 or 0/1, else name them"),
    ],
)  # fmt: skip
def test_own_files_read_nothing_from_rows(
    name: str, text: str, others: dict[str, Any], words: str, write: Write
) -> None:
    pattern = write(name, text).replace("o-0", "o-{agent}")
    with pytest.raises(RequestError, match=words):
        every(pattern, test=write("test" + name[3:], text), **others)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"data": "iris"}, r"unknown data 'iris': the names are .*adult.*ipums:FILE.*; .*\.npz"),
        ({"data": "x.npz.gz"}, "unknown data"),
        ({"data": "gone.csv"}, r"gone\.csv does not exist"),
        ({"data_seed": -1}, "data_seed = -1 is not allowed"),
        ({"test_fraction": 0.0}, "test_fraction = 0.0 is not allowed"),
        ({"test": "x.csv"}, "--test x.csv does not go with 'census'"),
        ({"data": "adult", "test": "x.csv"}, r"it takes official \(or --test-fraction, or --no-test\)"),
        ({"data": "adult", "test": "official", "test_fraction": 0.2}, "exclude each other"),
        ({"label": "y"}, "--label y goes with a csv"),
        ({"positive": "y"}, "--positive y goes with"),
        ({"features": 3}, "--features goes with a file"),
        ({"split": "even"}, "--split must be one of auto, iid, dirichlet:A, by-column:NAME, sizes:A:B:..., zipf:S,"),
        ({"data": "x.csv", "features": 3}, "--features goes with libsvm and npz"),
        ({"data": "x.npz", "label": "y"}, "--label y goes with a csv file"),
        ({"data": "x.svm", "features": 0}, "features = 0 is not allowed"),
        ({"data": "x.csv", "test": "official"}, "official is the own split of a named set"),
        ({"data": "x.csv", "test": "y.npz"}, r"must have the form of the data, \.csv"),
        ({"data": "x-{agent}.csv"}, "give a public test file with --test PATH"),
        ({"data": "x-{agent}.csv", "test": "t-{agent}.csv"}, "the test set is one public file"),
        ({"data": "x-{agent}.csv", "test": "t.csv", "split": "dirichlet:1"}, "the files are the shards"),
        ({"data": "x.npz", "schema": {"columns": {"a": {"kind": "categorical"}}}}, "goes with csv files"),
        ({"data": "x.csv", "schema": {"labels": ["1", "1.0"]}}, "must be different values"),
    ],
)
def test_settings_refusals(others: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        validate(DataSettings(**others))


def test_the_documented_schema_is_one() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    kinds, example = (block.split("```")[0] for block in text.split("```toml\n")[1:3])
    opened = parse_schema(tomllib.loads(kinds)["data"]["schema"])
    assert {rule.prefix: rule.open is None for rule in opened.rules} == {"age": False, "cost": False, "ward": False}
    schema = parse_schema(tomllib.loads(example)["data"]["schema"])
    assert [rule.prefix for rule in schema.rules] == ["age", "age-group", "cost", "ward", "country"]
    assert schema.labels == ("no", "yes")
