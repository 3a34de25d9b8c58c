"""Raw columns of a source: every distinct text once, and a code a row; or numbers that are features already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.values import PLAIN, Spelling, is_missing, no_number, numbers_of
from admmnet.errors import DataError
from admmnet.types import Vector

Codes = NDArray[np.int32]
"""Integer codes, shape (n,)."""
Rows = NDArray[np.intp]
"""Row numbers, from 0."""
Where = Callable[[int], str]
"""Words for the place of a row (from 0), such as "train.csv, line 7"."""


class RawColumn(Struct, frozen=True):
    """A column as it was read."""

    levels: tuple[str, ...]  # the distinct texts
    codes: Codes  # for every row the place of its text in `levels`
    typed: bool | None = False  # whether it holds numbers, whose texts are plain ones; None: some cells do

    def first(self, level: int) -> int:
        """Row (from 0) in which a level occurs first."""
        return int(np.argmax(self.codes == level))

    def mapped(self, change: Callable[[str], str]) -> RawColumn:
        """Copy with other texts."""
        return replace(self, levels=tuple(map(change, self.levels)))

    def taken(self, rows: Rows) -> RawColumn:
        """Column of some rows, with the texts that they have."""
        levels, codes = np.unique(self.codes[rows], return_inverse=True)
        return replace(self, levels=tuple(self.levels[level] for level in levels), codes=codes.astype(np.int32))

    def values(self, spelling: Spelling, *, missing: bool) -> Vector | None:
        """As `numbers_of` the levels; the spelling is that of texts."""
        if self.typed is None and spelling != PLAIN:
            return None
        return numbers_of(self.levels, PLAIN if self.typed else spelling, missing=missing)


class RawTable(Struct, frozen=True):
    """What a reader makes of its files: named raw columns of n records."""

    names: tuple[str, ...]  # of the columns, in order
    rows: int  # number of records n
    read: Callable[[str], RawColumn]  # column of one of `names`
    where: Where
    origin: str  # file name, for messages about the whole table
    label: str | None = None  # name of the label column where the form fixes it
    numbers: Any = None  # (n, d) of all columns but the label, dense or CSR, where they are features already
    unit: float = 1.0  # what these are divided by
    bound: float | None = None  # their largest absolute value, by public declaration
    dependent: tuple[str, ...] = ()  # what was read from the rows to tell the features
    parts: tuple[int, ...] = ()  # records of each file, in order; empty for one file
    spelling: Spelling = PLAIN  # of its numbers
    left_out: int = 0  # records that `leave_out` names, which are not among the rows any more

    def column(self, name: str) -> RawColumn:
        """Return the raw column of that name; a DataError lists the names there are."""
        if name not in self.names:
            has = f"has no column {name!r}"
            raise DataError(f"{self.origin} {has}; it has {listed(self.names)}", reason=has)
        return self.read(name)

    def numbers_of(self, name: str, *, missing: bool = False) -> Vector:
        """Value of every level of a column, shape (levels,); a DataError names rows without a finite number.

        Missing values are refused unless they are allowed: then they are nan.
        """
        column = self.column(name)
        values = column.values(self.spelling, missing=missing)
        if values is None and column.typed is None and self.spelling != PLAIN:
            raise DataError(
                f"{self.origin}, column {name!r} holds numbers and texts of numbers; decimal ="
                f" {self.spelling.decimal!r} is for texts: make all cells numbers, or all texts"
            )
        if values is None:
            spelling = PLAIN if column.typed else self.spelling
            self.refuse(name, lambda text: None if missing and is_missing(text) else no_number(text, spelling))
            raise AssertionError(f"{name}: no level was refused")
        return values

    def refuse(self, name: str, bad: Callable[[str], str | None]) -> None:
        """Refuse the levels of a column that are `bad`, which says why, in the order of the rows that have them."""
        column = self.column(name)
        wrong = [(level, why) for level, text in enumerate(column.levels) if (why := bad(text)) is not None]
        if not wrong:
            return
        present, rows, counts = np.unique(column.codes, return_index=True, return_counts=True)
        first = dict(zip(present.tolist(), zip(rows.tolist(), counts.tolist(), strict=True), strict=True))
        found = sorted((*first.get(level, (0, 1)), why) for level, why in wrong)
        refuse(
            f"{self.where(row)}, column {name!r}: {why}" + (f" ({count} rows have it)" if count > 1 else "")
            for row, count, why in found
        )


def refuse(faults: Iterable[str]) -> None:
    """Raise a DataError if there are faults."""
    found = iter(faults)
    for first in found:
        raise DataError(chain([first], found))


def fault_of_names(names: Sequence[str]) -> str | None:
    """What a message says of columns' names of which one is empty, or stands twice; None where each is its own."""
    for k, name in enumerate(names):
        if not name or name in names[:k]:
            return f"column {name!r} twice" if name else f"no name for column {k + 1}"
    return None


def numbered(d: int) -> tuple[str, ...]:
    """Names of features that have none: x1, ..., xd."""
    return tuple(f"x{k + 1}" for k in range(d))


def table_of_numbers(
    X: Any, names: tuple[str, ...], label: str, labels: Callable[[], RawColumn], where: Where, origin: str
) -> RawTable:
    """Table of features X (n, d), dense or CSR, that are finite numbers already, and of their labels."""

    def read(name: str) -> RawColumn:
        if name == label:
            return labels()
        column = X[:, [names.index(name)]]
        return column_of_numbers((column.toarray() if hasattr(X, "tocsr") else column).ravel())

    return RawTable((label, *names), X.shape[0], read, where, origin, label, X)


def check_finite(X: Any, names: Sequence[str], where: Where) -> None:
    """Refuse entries of X (n, d), dense or CSR, that are not finite, in the order of the rows."""
    sparse = hasattr(X, "tocsr")
    if np.isfinite(X.data if sparse else X).all():
        return
    entries = np.argwhere(~np.isfinite(X.toarray() if sparse else X))
    refuse(
        f"{where(row)}, column {names[k]!r}: {X[row, k]:g} is not finite; remove the row or fill it in"
        for row, k in entries.tolist()
    )


def no_rows(names: tuple[str, ...], origin: str, label: str | None = None) -> RawTable:
    """Table without records; if the form fixes the label column, all names are features besides."""
    numbers = None if label is None else np.zeros((0, len(names)))
    names = names if label is None else (label, *names)
    return RawTable(names, 0, lambda name: column_of(()), lambda row: origin, origin, label, numbers)


K = TypeVar("K")


class Index(dict[K, int]):
    """Numbers the values it meets, from 0."""

    def __missing__(self, value: K) -> int:
        number = self[value] = len(self)
        return number


def column_of(values: Sequence[str]) -> RawColumn:
    """Make a column of one text a row."""
    index = Index[str]()
    codes = np.fromiter(map(index.__getitem__, values), dtype=np.int32, count=len(values))
    return RawColumn(tuple(index), codes)


def column_of_numbers(values: Vector) -> RawColumn:
    """Make a column of one number a row."""
    distinct, codes = np.unique(values, return_inverse=True)
    return RawColumn(tuple(f"{value:.17g}" for value in distinct), codes.astype(np.int32), typed=True)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Write a few names for a message."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f", ... ({len(names)} in all)" if len(names) > most else "")
