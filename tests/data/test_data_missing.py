"""Missing values: what stands for them, what refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data.readers.delimited import read_csv
from admmnet.data.schema import parse_schema, to_table
from admmnet.data.source import Source, source_of
from admmnet.errors import RequestError
from tests.data.conftest import NUMBER, WARD

pytestmark = pytest.mark.usefixtures("_here")


def encoded(columns: dict[str, Any], *, data: str = "a,w,y\n5,A,1\nNA,?,0\n,B,1\n") -> Source:
    path = Path("t.csv")
    path.write_text(data)
    table = read_csv(path)
    drop = [name for name in table.names if name not in ("y", *(e.get("column", k) for k, e in columns.items()))]
    return source_of(table, parse_schema({"label": "y", "columns": columns, "drop": drop}), discover=False)


@pytest.mark.parametrize(
    ("column", "entry", "names", "rows"),
    [
        ("a", NUMBER | {"missing": "indicator"}, ("a", "a=missing"), [[0.5, 0], [0, 1], [0, 1]]),
        ("a", NUMBER | {"missing": 10}, ("a",), [[0.5], [1], [1]]),
        ("a", NUMBER | {"missing": -3, "scale": "centred"}, ("a",), [[0], [-1], [-1]]),
        ("a", NUMBER | {"missing": "indicator", "weight": 2}, ("a", "a=missing"), [[1, 0], [0, 2], [0, 2]]),
        (
            "a",
            {"kind": "numeric", "edges": [0, 4], "missing": "indicator"},
            ("a=[0,4)", "a=[4,inf)", "a=missing"),
            [[0, 1, 0], [0, 0, 1], [0, 0, 1]],
        ),
        ("w", WARD | {"missing": "indicator"}, ("w=A", "w=B", "w=missing"), [[1, 0, 0], [0, 0, 1], [0, 1, 0]]),
        ("w", WARD | {"missing": "B"}, ("w=A", "w=B"), [[1, 0], [0, 1], [0, 1]]),
        ("w", WARD | {"other": True}, ("w=A", "w=B", "w=other"), [[1, 0, 0], [0, 0, 1], [0, 1, 0]]),
        (
            "w",
            WARD | {"other": True, "missing": "indicator"},
            ("w=A", "w=B", "w=other", "w=missing"),
            [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]],
        ),
        (
            "w",
            {"kind": "categorical", "categories": ["A", "B", "?"], "missing": "indicator"},
            ("w=A", "w=B", "w=?", "w=missing"),
            [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]],  # what is declared is no missing value
        ),
    ],
)
def test_missing_values(column: str, entry: dict[str, Any], names: tuple[str, ...], rows: list[list[float]]) -> None:
    source = encoded({column: entry})
    assert source.features.names == names
    np.testing.assert_array_equal(source.features.take(np.arange(3)), rows)
    assert parse_schema(to_table(source.schema)) == source.schema


@pytest.mark.parametrize(
    ("column", "entry", "words"),
    [
        ("a", NUMBER, "line 3, column 'a': 'NA' is no number but a missing value; fill it in, or declare missing ="),
        ("a", NUMBER | {"missing": "refuse"}, "'NA' is no number but a missing value"),
        ("w", WARD, "undeclared category '?'"),
        ("w", WARD | {"missing": "refuse", "other": True}, "line 3, column 'w': missing value '?'; remove the row"),
        ("a", NUMBER | {"missing": "drop"}, "a.missing must be 'indicator', 'refuse' or a number, got 'drop'"),
        ("a", NUMBER | {"missing": True}, "a.missing must be a finite number, got True"),
        ("w", WARD | {"missing": "C"}, "w.missing must be 'indicator', 'refuse' or one of the categories, got 'C'"),
    ],
)
def test_missing_values_that_are_refused(column: str, entry: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        encoded({column: entry})
    assert words in str(caught.value)


def test_bounds_and_categories_are_read_past_missing_values() -> None:
    columns = {"a": {"kind": "numeric", "missing": "indicator"}, "w": {"kind": "categorical", "missing": "indicator"}}
    Path("t.csv").write_text("a,w,y\n5,A,1\nNA,?,0\n7,B,1\n")
    source = source_of(read_csv(Path("t.csv")), parse_schema({"label": "y", "columns": columns}), discover=True)
    assert source.features.names == ("a", "a=missing", "w=A", "w=B", "w=missing")
    np.testing.assert_array_equal(source.features.take(np.arange(3))[:, 0], [0, 0, 1])
    Path("t.csv").write_text("a,y\n?,1\nNA,0\n")
    schema = parse_schema({"label": "y", "columns": {"a": columns["a"]}})
    with pytest.raises(RequestError, match="column 'a' has no value at all"):
        source_of(read_csv(Path("t.csv")), schema, discover=True)
