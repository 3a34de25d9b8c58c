"""Whether two tables in memory hold the same records, as far as memory tells; copies of some rows are not known."""

from __future__ import annotations

from typing import Any

import numpy as np


def overlap(one: Any, other: Any) -> bool:
    """Whether two tables (arrays, lists, sparse matrices, pandas frames) share a row's memory, or are equal whole.

    Views and slices share it. A copy of some rows does not: no such thing is looked for, because an answer that a
    single record decides would tell of that record.
    """
    if one is other:
        return True
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        rows = {id(row) for row in one if isinstance(row, list)}
        return any(id(row) in rows for row in other)
    mine, others = _blocks(one), _blocks(other)
    return any(np.shares_memory(mine[name], others[name]) for name in mine.keys() & others.keys()) or _equal(one, other)


def _blocks(table: Any) -> dict[Any, np.ndarray[Any, Any]]:
    """Arrays that hold a table's numbers, those of a frame by column."""
    if hasattr(table, "iloc"):
        columns = ((name, table.iloc[:, k]) for k, name in enumerate(table.columns))
        plain = ((name, column) for name, column in columns if isinstance(column.dtype, np.dtype))
        return {name: column.to_numpy() for name, column in plain}
    block = getattr(table, "data", None) if hasattr(table, "tocsr") else table
    return {None: block} if isinstance(block, np.ndarray) else {}


def _equal(one: Any, other: Any) -> bool:
    """Whether two tables of one type and shape are the same numbers."""
    if type(one) is not type(other) or getattr(one, "shape", 0) != getattr(other, "shape", 1):
        return False
    if hasattr(one, "tocsr"):
        return bool((one != other).nnz == 0)
    if hasattr(one, "iloc"):
        return bool(one.equals(other))
    return isinstance(one, np.ndarray) and np.array_equal(one, other)
