"""Columns as features: every cell as docs/data.md says, at once or raw; what is read from rows is said."""

from __future__ import annotations

import hashlib
import math
import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admmnet.data import DataSettings, Records, load
from admmnet.data.check import check_file
from admmnet.data.encode import bucket
from admmnet.data.given import Given
from admmnet.data.records import arrays_of
from admmnet.errors import DataError, RequestError
from admmnet.holder.encoding import Encoding, Number, Plain, RawRows, Words, encode_rows
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


def test_what_is_read_from_the_rows_is_said_and_declares_them_from_then_on(write: Write) -> None:
    columns = {
        "ward": {"kind": "categorical", "missing": "indicator"},
        "age": {"kind": "numeric", "scale": "centred", "missing": "indicator"},
    }
    path = write("t.csv", "age,ward,sick\n10,b,no\n?,a,yes\n130,?,no\n50,z,yes\n")
    found = every(path, schema={"label": "sick", "columns": columns}, positive="yes", test=path)
    assert found.feature_names == ("ward=a", "ward=b", "ward=z", "ward=missing", "age", "age=missing", "intercept")
    np.testing.assert_allclose((found.X_test / found.X_test[:, -1:])[:, 4], [-1, 0, 1, -1 / 3], rtol=1e-13)
    np.testing.assert_array_equal(found.y_test, [-1, 1, -1, 1])
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


KINDS: dict[str, Any] = {
    "label": "sick",
    "labels": ["no", "yes"],
    "drop": ["id"],
    "columns": {
        "cost": {"kind": "numeric", "low": 0, "high": 100},
        "pay": {"kind": "numeric", "low": 0, "high": 9, "scale": "log", "missing": "indicator"},
        "ward": {"kind": "categorical", "categories": ["A", "B"], "other": True, "weight": 2.0},
        "heat": {"kind": "numeric", "missing": 40},
    },
    "numeric": ["age"],
    "categorical": ["city"],
}
TEXT = """id,age,cost,pay,ward,heat,city,sick
1,31,5,2,A,7,Rome,no
2,?,1e400,,B,,Oslo,yes
3,NA,-7,9,C,?,,yes
4,1e300,nan,0,A,1,Rome,no
"""
EVEN = tuple(k / 32 for k in range(33))


def settings(data: str, **others: Any) -> DataSettings:
    return DataSettings(data=data, **{"schema": KINDS, "encode": "private", "no_test": True, **others})


def raw(records: Records, agent: int = 0) -> RawRows:
    found: Any = records.shards[agent][0]
    assert isinstance(found, RawRows)
    return found


def test_what_is_no_number_is_missing_and_what_is_declared_stays(write: Write) -> None:
    records = load(settings(write("t.csv", TEXT)), 1, [0])
    found = raw(records)
    log = np.log1p([2.0, 0.0, 9.0, 0.0]) / np.log1p(9.0)
    expected = [[5.0, np.inf, -7.0, np.nan], log, [0, 1, 0, 0], [7.0, 40.0, 40.0, 1.0], [31.0, np.nan, np.nan, 1e300]]
    np.testing.assert_array_equal(found.numbers, np.transpose(expected))
    cities = [bucket("city", name) for name in ("Rome", "Oslo", "", "Rome")]
    np.testing.assert_array_equal(found.codes, np.column_stack([[0, 1, 2, 0], cities]))
    unknown = Number(1.0, 0.0, 1.0)
    kinds = (Number(1.0, 0.0, 100.0, EVEN), Plain(2), Words(3, 2.0), unknown, unknown, Words(16, 1.0))
    assert records.raw == Encoding(kinds)
    assert found.width == records.raw.width == len(records.feature_names) == len(set(records.feature_names))
    assert records.feature_names[:8] == (*(f"cost={share}%" for share in range(0, 101, 20)), "cost", "cost=missing")
    assert records.preprocessing == "public-bounds"
    assert encode_rows(found, records.raw).shape == (4, found.width)
    assert records.X_test.shape == (0, found.width)
    written = write("u.csv", 'x;y\n"1.234,5";0\n2,5;1\n;1\n')
    spelt = {"label": "y", "numeric": ["x"], "separator": ";", "decimal": ",", "thousands": "."}
    np.testing.assert_array_equal(raw(load(settings(written, schema=spelt), 1, [0])).numbers.T, [[1234.5, 2.5, np.nan]])


def test_text_in_a_column_of_numbers_is_a_fault_for_its_owner_alone(write: Write) -> None:
    path = write("t.csv", TEXT.replace("4,1e300", '4,"31,1"').replace("3,NA", '3,"31,1"'))
    (fault,) = check_file(DataSettings(data=path, schema=KINDS)).faults
    assert fault.startswith(f"{path}, line 4, column 'age': '31,1' ")
    assert fault.endswith(" (2 rows have it)")
    assert np.isnan(raw(load(settings(path), 1, [0])).numbers[2, -1]), "whether a private run begins shows no record"
    with pytest.raises(DataError) as caught:
        load(settings(path).changed(data_dependent=True), 1, [0])
    assert str(caught.value) == fault
    assert "31,1" not in caught.value.public
    assert "`admmnet data check" in caught.value.public


def test_categories_that_nobody_declares_go_by_a_digest_of_name_and_value() -> None:
    assert bucket("city", "Rome") == int(hashlib.sha256(b"city\x1fRome").hexdigest(), 16) % 16
    assert bucket("code", "1") == bucket("code", "+1.0") == bucket("code", " 1 ")
    assert len({bucket(name, "Rome") for name in "abcdefgh"}) > 1


def test_agents_with_files_of_their_own_have_one_encoding(write: Write) -> None:
    lines = TEXT.splitlines()
    for agent in (0, 1):
        path = write(f"site-{agent}.csv", "\n".join([lines[0], *lines[1 + 2 * agent : 3 + 2 * agent]]))
    pattern, test = path.replace("site-1", "site-{agent}"), write("test.csv", "\n".join(lines[:2]))
    pooled = load(settings(write("t.csv", TEXT)), 1, [0])
    for records in (load(settings(pattern, test=test, no_test=False), 2, [0, 1]), load(settings(pattern), 2, [0, 1])):
        assert (records.raw, records.feature_names) == (pooled.raw, pooled.feature_names)
        for k, part in enumerate(arrays_of(raw(pooled))):
            both = np.concatenate([arrays_of(raw(records, agent))[k] for agent in (0, 1)])
            np.testing.assert_array_equal(both, part)


def test_arrays_in_memory_are_columns_of_numbers() -> None:
    X, y = np.array([[1.0, np.nan], [np.inf, 3.0]]), np.array([0, 1])
    records = Given("arrays", (X, y)).load(settings("arrays", schema={}), 1, [0])
    np.testing.assert_array_equal(raw(records).numbers, X)
    assert records.raw == Encoding((Number(1.0, 0.0, 1.0), Number(1.0, 0.0, 1.0)))
    assert len(records.feature_names) == 17
    with pytest.raises(DataError, match="is not finite"):
        Given("arrays", (X, y)).load(settings("arrays", schema={}, encode="declared"), 1, [0])


def test_frames_have_the_kinds_of_their_types_where_their_owner_says_so() -> None:
    frame = pd.DataFrame({"age": [1, 2], "city": ["a", "?"], "old": [True, False], "y": [0, 1], "ward": [1, 1]})
    given = Given("frame", frame)
    kinds = {"numeric": ["age"], "categorical": ["city", "old"]}
    assert given.with_kinds("y", {"drop": ["ward"]}) == {"drop": ["ward"], **kinds}
    own = {"label": "y", "columns": {"b": {"kind": "numeric"}}}
    kinds = {"numeric": ["ward"], "categorical": ["age", "city", "old"]}
    assert given.with_kinds(None, own | {"categorical": ["age"]}) == own | kinds
    sparse = frame.assign(ward=pd.arrays.SparseArray([1, 2]))
    assert given.with_kinds("y", {}) == Given("frame", sparse).with_kinds("y", {})
    with pytest.raises(RequestError, match="columns 'age' are numbers in one frame"):
        Given("frame", own={0: frame, 1: frame.assign(age=["1", "x"])}).with_kinds("y", None)
    with pytest.raises(RequestError, match="goes with data frames"):
        Given("arrays", (frame, frame)).with_kinds("y", None)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"label": "sick", "labels": ["no", "yes"]}, r"needs the kinds of the columns.*numeric = \[...\]"),
        (KINDS | {"numeric": []}, r"does not declare 'age'; add each to .*data\.schema\.drop"),
        (KINDS | {"columns": {"pay": {"kind": "numeric", "scale": "log"}}, "drop": ["*"]}, "as its scale is"),
    ],
)
def test_columns_that_cannot_be_raw(write: Write, schema: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        load(settings(write("t.csv", TEXT), schema=schema), 1, [0])
    with pytest.raises(RequestError, match="needs dense rows"):
        load(settings(write("t.libsvm", "1 1:2\n-1 3:1\n"), schema={}, features=3), 1, [0])


def test_check_says_what_is_measured_and_how_wide_it_is(write: Write) -> None:
    path = write("t.csv", TEXT)
    found = check_file(DataSettings(data=path, schema=KINDS)).columns
    assert [column.rpartition(", ")[2] for column in found] == [f"{k} features" for k in (8, 2, 3, 8, 8, 16)]
    assert [column.rpartition(", ")[0] for column in found if "measured" in column or "digest" in column] == [
        "column 'cost': shape between 0 and 100 is measured by a noisy sum",
        "column 'heat': bounds and shape are measured by noisy sums",
        "column 'age': bounds and shape are measured by noisy sums",
        "column 'city': one of 16 by a digest of the category",
    ]
    encoded = check_file(DataSettings(data=path, schema=KINDS, encode="declared")).columns
    assert not any("measured" in column for column in encoded)
    closed = KINDS["columns"] | {"ward": {"kind": "categorical", "categories": ["A", "B"]}}
    (fault,) = check_file(DataSettings(data=path, schema=KINDS | {"columns": closed})).faults
    assert fault.startswith(f"{path}, line 4, column 'ward': undeclared category 'C'")
