"""Columns as features: every cell as docs/data.md says, and nothing read from rows unless that is said."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, load
from admmnet.errors import DataError, RequestError
from tests.data.conftest import NUMBER, WARD, Write, every, refusal

SCHEMA: dict[str, Any] = tomllib.loads("""
label = "sick"
labels = ["no", "yes"]
drop = ["id"]
[columns]
age = {kind = "numeric", low = 0, high = 100}
age-bin = {column = "age", kind = "numeric", edges = [20, 40], weight = 2}
cost = {kind = "numeric", low = 0, high = 1e6, scale = "log", missing = "indicator", weight = 3}
heat = {kind = "numeric", low = -5, high = 5, scale = "centred", missing = -3}
dose = {kind = "numeric", edges = [0, 4], missing = "indicator"}
raw = {kind = "numeric", scale = "none"}
ward = {kind = "categorical", categories = ["a", "b"], other = true}
town = {kind = "categorical", categories = ["a", "b"], missing = "indicator"}
site = {kind = "categorical", categories = ["a", "b", "?"], other = true, missing = "indicator", weight = 0.5}
kin = {kind = "categorical", categories = ["a", "b"], missing = "b"}
colour = {kind = "categorical", groups = {warm = ["red", "orange"], cold = ["blue"]}}
""")
CELLS = {
    "age": ["-3", "0", "19.5", "20", "39.9", "40", "1e2", "130"],
    "cost": ["0", "1000", "1e6", "5e6", "-2", "?", ""],
    "heat": ["-5", "2.5", "9", "NA"],
    "dose": ["-1", "0", "3.9", "4", "n/a"],
    "raw": ["-7.25", "0", "12"],
    "ward": ["a", "b", "z", "?"],
    "town": ["a", "b", "?", "nan"],
    "site": ["a", "b", "?", "NA", "c"],
    "kin": ["a", "b", "-"],
    "colour": ["red", "orange", "blue"],
}
GONE = {"?", "", "NA", "n/a", "nan", "-"}


def by_hand(entry: dict[str, Any], text: str) -> list[float]:
    """Features of one cell, without its record's norm."""
    value: Any
    weight, absent = entry.get("weight", 1), entry.get("missing")
    if entry["kind"] == "categorical":
        groups = entry.get("groups") or {value: [value] for value in entry["categories"]}
        known = {value: group for group, values in groups.items() for value in values}
        names = [*groups, *["other"] * entry.get("other", False), *["missing"] * (absent == "indicator")]
        stands = {None: "other", "indicator": "missing"}.get(absent, absent) if text in GONE else "other"
        return [weight * (name == known.get(text, stands)) for name in names]
    gone = text in GONE and absent == "indicator"
    value = math.nan if gone else absent if text in GONE else float(text)
    if edges := entry.get("edges"):
        found = [float(low <= value < high) for low, high in zip(edges, [*edges[1:], math.inf], strict=True)]
    elif entry.get("scale") == "none":
        found = [value]
    else:
        low, high = entry["low"], entry["high"]
        above = min(max(value, low), high) - low
        share = math.log1p(above) / math.log1p(high - low) if entry.get("scale") == "log" else above / (high - low)
        found = [2 * share - 1 if entry.get("scale") == "centred" else share]
    found = [0.0] * len(found) if gone else found
    return [weight * number for number in [*found, *[float(gone)] * (absent == "indicator")]]


def written(rows: list[dict[str, str]], labels: list[str]) -> str:
    head = ["id", *CELLS, "sick"]
    return "\n".join([",".join(head), *(",".join([f"P{k}", *row.values(), labels[k]]) for k, row in enumerate(rows))])


def drawn(n: int, seed: int = 0) -> tuple[list[dict[str, str]], list[str]]:
    stream = np.random.default_rng(seed)
    rows = [{name: str(stream.choice(cells)) for name, cells in CELLS.items()} for _ in range(n)]
    return rows, [["no", "yes"][k] for k in stream.integers(0, 2, n)]


def test_every_cell_becomes_the_features_that_are_declared(write: Write) -> None:
    rows, labels = drawn(300)
    path = write("t.csv", written(rows, labels))
    records = every(path, schema=SCHEMA, test=path)
    columns = SCHEMA["columns"]
    X = np.array([[v for k, e in columns.items() for v in by_hand(e, row[e.get("column", k)])] + [1.0] for row in rows])
    np.testing.assert_allclose(records.X_test, X / np.linalg.norm(X, axis=1)[:, None], rtol=1e-13, atol=1e-16)
    np.testing.assert_array_equal(records.shards[0][0], records.X_test)
    np.testing.assert_array_equal(records.y_test, [1.0 if label == "yes" else -1.0 for label in labels])
    assert records.preprocessing == "public-bounds"
    assert records.feature_names == (
        "age", "age-bin=[20,40)", "age-bin=[40,inf)", "cost", "cost=missing", "heat", "dose=[0,4)", "dose=[4,inf)",
        "dose=missing", "raw", "ward=a", "ward=b", "ward=other", "town=a", "town=b", "town=missing", "site=a", "site=b",
        "site=?", "site=other", "site=missing", "kin=a", "kin=b", "colour=warm", "colour=cold", "intercept",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,A,A\n2,?,A\n", "line 3, column 'w': missing value '?'; remove"),
        ("NA,A,A\n", "column 'a': 'NA' is no number but a missing value"),
        ("1,A,A\n1,A,?\n", "line 3, column 'c': undeclared category '?'; add it"),
        ("1,C,C\n", "line 2, column 'c': undeclared category 'C'; add it"),
    ],
)
def test_cells_outside_the_schema_are_refused_with_their_line(text: str, words: str, write: Write) -> None:
    rules = {"a": NUMBER | {"missing": "refuse"}, "w": WARD | {"missing": "refuse", "other": True}, "c": WARD}
    lines = "".join(f"{line},{k % 2}\n" for k, line in enumerate(text.splitlines()))
    assert words in refusal(write("t.csv", "a,w,c,y\n" + lines), schema={"label": "y", "columns": rules})


def test_columns_are_declared_or_dropped(write: Write) -> None:
    path = write("t.csv", written(*drawn(4)))
    with pytest.raises(RequestError, match=r"does not declare 'id'; add each to .*data\.schema\.drop"):
        every(path, schema={k: v for k, v in SCHEMA.items() if k != "drop"})
    with pytest.raises(RequestError, match="has no column 'height'"):
        every(path, schema=SCHEMA | {"columns": {"height": NUMBER}, "drop": ["*"]})


def test_what_is_read_from_the_rows_is_said_and_declares_them_from_then_on(write: Write) -> None:
    columns = {
        "ward": {"kind": "categorical", "missing": "indicator"},
        "age": {"kind": "numeric", "scale": "centred", "missing": "indicator"},
    }
    path = write("t.csv", "age,ward,sick\n10,b,no\n?,a,yes\n130,?,no\n50,z,yes\n")
    found = every(path, schema={"label": "sick", "columns": columns}, positive="yes", test=path)
    assert found.feature_names == ("ward=a", "ward=b", "ward=z", "ward=missing", "age", "age=missing", "intercept")
    np.testing.assert_allclose((found.X_test / found.X_test[:, -1:])[:, 4], [-1, 0, 1, -1 / 3], rtol=1e-13)
    assert found.preprocessing == "data-dependent"
    assert any("negative label 'no', categories of 'ward', bounds of 'age'" in note for note in found.notes)
    assert found.encoding is not None
    again = every(path, schema=found.encoding, test=path)
    assert (again.encoding, again.preprocessing) == (found.encoding, "public-bounds")  # declared now
    assert again.feature_names == found.feature_names
    np.testing.assert_array_equal(again.X_test, found.X_test)
    np.testing.assert_array_equal(again.y_test, found.y_test)
    new = write("new.csv", "age,ward,sick\n20,q,no\n")
    with pytest.raises(RequestError, match=r"new\.csv, line 2, column 'ward': undeclared category 'q'"):
        every(path, schema=found.encoding, test=new)
    for text, words in (
        ("?,a,no\nNA,b,yes", "'age' has no value at all"),
        ("3,a,no\n3,b,yes", "'age' is constant (3)"),
    ):
        open_ = {"label": "sick", "columns": columns}
        assert words in refusal(write("u.csv", f"age,ward,sick\n{text}\n"), schema=open_, positive="yes")


# files of one agent each


def test_files_of_one_agent_each(write: Write) -> None:
    rows, labels = drawn(6)
    lines = written(rows, labels).splitlines()
    for agent, part in enumerate((lines[1:2], lines[2:4], lines[4:])):
        path = write(f"agent-{agent}.csv", "\n".join([lines[0], *part]))
    pattern = path.replace("agent-2", "agent-{agent}")
    request = DataSettings(data=pattern, test=write("test.csv", written(rows, labels)), schema=SCHEMA)
    records = load(request, 40, [0, 2])  # the files of the 38 others are nobody's business here
    assert records.counts == {0: 1, 2: 3}
    assert records.preprocessing == "public-bounds"
    for agent, place in ((0, slice(0, 1)), (2, slice(3, 6))):
        np.testing.assert_array_equal(records.shards[agent][0], records.X_test[place])
        np.testing.assert_array_equal(records.shards[agent][1], records.y_test[place])
    with pytest.raises(RequestError, match=r"agent-3\.csv does not exist, and the run has 40 agents"):
        load(request, 40, [7])
    with pytest.raises(RequestError, match="agent 5 does not exist"):
        load(DataSettings(), 5, [5])
    write("agent-1.csv", "\n".join(line.partition(",")[2] for line in lines))  # without id, which is dropped
    np.testing.assert_array_equal(load(request, 2, [1]).shards[1][0], records.X_test)
    write("agent-1.csv", "\n".join(["Alice,41,2,a,red,no", *lines[1:]]))  # a record in place of a header
    with pytest.raises(DataError) as caught:
        load(request, 2, [1])
    assert "Alice" not in caught.value.public
    named = write("other-0.csv", "b,a,y\n4,3,1\n").replace("other-0", "other-{agent}")
    by_name = every(named, test=write("ab.csv", "a,b,y\n1,0,-1\n"), label="y", no_intercept=True)
    assert by_name.feature_names == ("a", "b")
    np.testing.assert_allclose(by_name.shards[0][0], [[0.6, 0.8]])


OPEN = {"a": {"kind": "categorical"}}


@pytest.mark.parametrize(
    ("row", "others", "words"),
    [
        ("x,1", {"schema": {"columns": OPEN}}, r"a\.categories must be declared"),
        ("1,1", {"schema": {"columns": {"a": {"kind": "numeric"}}}}, r"columns\.a\.low and \.high must be declared"),
        ("1,u", {"positive": "u"}, r"declare both, labels ="),
        ("1,u", {"task": "classes"}, r"leaves the labels.*declare labels = \[\.\.\.\]"),
        ("1,7", {"task": "real"}, r"leaves the labels.*declare targets ="),
        ("1,u", {}, r"labels must be -1/\+1 or 0/1, else name them"),
        ("1,1", {"normalise": "columns"}, "columns would be read .* declare scales"),
        ("1,1", {"schema": {"targets": [0, 1]}, "centre": "mean"}, "declare centre"),
        ("1,1", {"no_test": True}, r"declare every column in \[data\.schema"),
        ("1,1", {"no_test": True, "schema": {"columns": OPEN}}, r"a\.categories must be declared"),
    ],
)
def test_files_of_one_agent_each_read_nothing_from_rows(
    row: str, others: dict[str, Any], words: str, write: Write
) -> None:
    pattern = write("o-0.csv", f"a,y\n{row}\n").replace("o-0", "o-{agent}")
    more = others if others.get("no_test") else others | {"test": write("test.csv", f"a,y\n{row}\n")}
    with pytest.raises(RequestError, match=words):
        every(pattern, label="y", **more)


def test_files_of_one_agent_each_declare_their_width(write: Write) -> None:
    pattern = write("o-0.svm", "1 1:1\n").replace("o-0", "o-{agent}")
    words = "the width must be declared, with --features D or data.schema.features"
    assert words in refusal(pattern, test=write("test.svm", "1 1:1\n"))
    assert "give the number of features with --features D" in refusal(pattern, no_test=True)
