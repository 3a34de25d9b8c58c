"""Raw records: kinds are declared, the width follows from them, and no number makes a record refused."""

from __future__ import annotations

import hashlib
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
from tests.data.conftest import Write

SCHEMA: dict[str, Any] = {
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
    return DataSettings(data=data, **{"schema": SCHEMA, "encode": "private", "no_test": True, **others})


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
    fewer = load(settings(write("two.csv", "\n".join(TEXT.splitlines()[:2]))), 1, [0])
    assert (fewer.feature_names, fewer.raw) == (records.feature_names, records.raw)
    assert fewer.X_test.shape == (0, len(records.feature_names))
    written = write("u.csv", 'x;y\n"1.234,5";0\n2,5;1\n;1\n')
    spelt = {"label": "y", "numeric": ["x"], "separator": ";", "decimal": ",", "thousands": "."}
    np.testing.assert_array_equal(raw(load(settings(written, schema=spelt), 1, [0])).numbers.T, [[1234.5, 2.5, np.nan]])


def test_text_in_a_column_of_numbers_is_a_fault_for_its_owner_alone(write: Write) -> None:
    path = write("t.csv", TEXT.replace("4,1e300", '4,"31,1"').replace("3,NA", '3,"31,1"'))
    (fault,) = check_file(DataSettings(data=path, schema=SCHEMA)).faults
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
        (SCHEMA | {"numeric": []}, "does not declare 'age'"),
        (SCHEMA | {"columns": {"pay": {"kind": "numeric", "scale": "log"}}, "drop": ["*"]}, "as its scale is"),
    ],
)
def test_columns_that_cannot_be_raw(write: Write, schema: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        load(settings(write("t.csv", TEXT), schema=schema), 1, [0])
    with pytest.raises(RequestError, match="needs dense rows"):
        load(settings(write("t.libsvm", "1 1:2\n-1 3:1\n"), schema={}, features=3), 1, [0])


def test_check_says_what_is_measured_and_how_wide_it_is(write: Write) -> None:
    path = write("t.csv", TEXT)
    found = check_file(DataSettings(data=path, schema=SCHEMA)).columns
    assert [column.rpartition(", ")[2] for column in found] == [f"{k} features" for k in (8, 2, 3, 8, 8, 16)]
    assert [column.rpartition(", ")[0] for column in found if "measured" in column or "digest" in column] == [
        "column 'cost': shape between 0 and 100 is measured by a noisy sum",
        "column 'heat': bounds and shape are measured by noisy sums",
        "column 'age': bounds and shape are measured by noisy sums",
        "column 'city': one of 16 by a digest of the category",
    ]
    encoded = check_file(DataSettings(data=path, schema=SCHEMA, encode="declared")).columns
    assert not any("measured" in column for column in encoded)
    closed = SCHEMA["columns"] | {"ward": {"kind": "categorical", "categories": ["A", "B"]}}
    (fault,) = check_file(DataSettings(data=path, schema=SCHEMA | {"columns": closed})).faults
    assert fault.startswith(f"{path}, line 4, column 'ward': undeclared category 'C'")
