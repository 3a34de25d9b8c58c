"""Raw columns: every distinct text once, and a code a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import DataError
from admmnet.types import Vector

Codes = NDArray[np.int32]
"""Integer codes, shape (n,)."""
Rows = NDArray[np.intp]
"""Row numbers, from 0."""


@dataclass(frozen=True)
class Column:
    """A column as it was read.

    Attributes
    ----------
    levels : tuple of str
        The distinct texts.
    codes : ndarray of int32, shape (n,)
        For every row the place of its text in `levels`.
    """

    levels: tuple[str, ...]
    codes: Codes

    def first(self, level: int) -> int:
        """Row (from 0) in which a level occurs first."""
        return int(np.argmax(self.codes == level))

    def refuse(self, bad: Callable[[str], str | None], place: Callable[[int], str]) -> None:
        """Refuse levels, each in the first row that has it.

        Parameters
        ----------
        bad : callable
            What is wrong with a level, None if nothing is.
        place : callable
            Words for the place of a row (from 0), for the start of the message.

        Raises
        ------
        DataError
            With a fault a level, in the order of rows.
        """
        wrong = [(level, why) for level, text in enumerate(self.levels) if (why := bad(text)) is not None]
        if not wrong:
            return
        present, rows, counts = np.unique(self.codes, return_index=True, return_counts=True)
        first = dict(zip(present.tolist(), zip(rows.tolist(), counts.tolist(), strict=True), strict=True))
        found = sorted((*first.get(level, (0, 1)), why) for level, why in wrong)
        raise DataError(
            f"{place(row)}: {why}" + (f" ({count} rows have it)" if count > 1 else "")
            for row, count, why in found
        )


@dataclass(frozen=True)
class Table:
    """Named raw columns.

    Attributes
    ----------
    names : tuple of str
        Column names in order.
    rows : int
        Number of records n.
    read : callable
        Column of a name, which must be one of `names`.
    where : callable
        Words for the place of a row (from 0) in its file, such as "train.csv, line 7".
    origin : str
        File name, for messages about the whole table.
    """

    names: tuple[str, ...]
    rows: int
    read: Callable[[str], Column]
    where: Callable[[int], str]
    origin: str

    def column(self, name: str) -> Column:
        """Return the raw column of that name.

        Raises
        ------
        DataError
            If there is none; the message lists those there are.
        """
        if name not in self.names:
            has = f"has no column {name!r}"
            raise DataError(f"{self.origin} {has}; it has {listed(self.names)}", reason=has)
        return self.read(name)


def no_rows(names: tuple[str, ...], origin: str) -> Table:
    """Table without records."""
    return Table(names, 0, lambda name: column_of(()), lambda row: origin, origin)


def column_of(values: Sequence[str]) -> Column:
    """Make a column of one text a row."""
    index = {value: code for code, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(index.__getitem__, values), dtype=np.int32, count=len(values))
    return Column(tuple(index), codes)


def column_of_numbers(values: Vector) -> Column:
    """Make a column of one number a row."""
    distinct, codes = np.unique(values, return_inverse=True)
    return Column(tuple(f"{value:.17g}" for value in distinct), codes.astype(np.int32))


def numbers_of(column: Column, name: str, where: Callable[[int], str]) -> Vector:
    """Read the levels of a column as finite numbers.

    Parameters
    ----------
    column : Column
        The raw column.
    name : str
        Its name, for the message.
    where : callable
        Words for the place of a row.

    Returns
    -------
    ndarray, shape (levels,)
        The value of every level.

    Raises
    ------
    DataError
        If a level is no number, NaN or infinite, naming its first row.
    """
    try:
        values = np.array([float(text) for text in column.levels])
    except ValueError:
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        column.refuse(_no_number, lambda row: f"{where(row)}, column {name!r}")
    return values


def _no_number(text: str) -> str | None:
    try:
        finite = math.isfinite(float(text))
    except ValueError:
        return f"{text!r} is no number; give a number, or declare the column in [data.schema]"
    return None if finite else f"{text!r} is not finite; remove the row or fill the value in"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Write a few names for a message."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f", ... ({len(names)} in all)" if len(names) > most else "")
