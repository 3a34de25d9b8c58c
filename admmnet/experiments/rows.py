"""Facts and figures of runs as rows, and what is picked from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

from admmnet.types import Vector

Row = dict[str, Any]
"""Facts and figures of one run; None where undefined."""


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows whose columns have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Values of a column, in the order in which they come, without None."""
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def split(rows: list[Row], *names: str) -> Iterator[tuple[Any, ...]]:
    """Values of columns, and last the rows that have them, where there are any."""
    for values in product(*(distinct(rows, name) for name in names)):
        if own := pick(rows, **dict(zip(names, values, strict=True))):
            yield (*values, own)


def values(rows: Iterable[Row], name: str) -> Vector:
    """What is known of a column."""
    return np.array([row[name] for row in rows if row.get(name) is not None], dtype=float)


def by(rows: list[Row], key: str, name: str) -> dict[Any, Vector]:
    """Values of a column for every value of another one, in increasing order of that."""
    found = {one: values(own, name) for one, own in split(rows, key)}
    return {one: found[one] for one in sorted(found) if len(found[one])}
