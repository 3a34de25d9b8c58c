"""What a text says in a column of numbers: a number, nothing, or something that a person takes for one."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.errors import DataError
from admmnet.types import Vector

MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "nat"})
"""Texts of a missing value, in lower case."""
DATE = re.compile(r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([ T]\d.*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([ T]\d.*)?")
"""A date by numbers, with or without a time."""
LIMIT = re.compile(r"^[<>≤≥]=?\s*")
"""Beginning of a number that is known to lie below or above a limit."""
GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")
"""A number of which the mark may stand between thousands."""
_COMMA = re.compile(r"[-+]?[\d.,' ]*\d,\d[\d.,]*")
UNIT = re.compile(r"[$€£¥]\s?[-+]?\d[\d.,' ]*|[-+]?\d[\d.,' ]*\s?([%$€£¥]|[A-Za-zµ]{1,3})")
"""A number with a currency, a percent sign or a short unit."""


class Spelling(NamedTuple):
    """How a file writes numbers."""

    decimal: str = "."
    thousands: str = ""  # between groups of three digits; empty: digits stand together

    def number(self, text: str) -> float:
        """Value of a text; a ValueError if it is no number."""
        if self.thousands:
            mark, point = re.escape(self.thousands), re.escape(self.decimal)
            if re.fullmatch(rf"[-+]?\d{{1,3}}({mark}\d{{3}})+({point}\d*)?", text):
                text = text.replace(self.thousands, "")
        if self.decimal != ".":
            if "." in text:
                raise ValueError(text)
            text = text.replace(self.decimal, ".")
        return float(text)

    def value(self, text: str) -> float:
        """Value of a text; nan if it is no number."""
        try:
            return self.number(text)
        except ValueError:
            return math.nan

    def finite(self, text: str) -> float | None:
        """Value of a text; None if it is no finite number."""
        return value if math.isfinite(value := self.value(text)) else None


PLAIN = Spelling()
"""Digits with a point."""


def is_missing(text: str) -> bool:
    """Whether a text stands for a missing value."""
    return text.strip().casefold() in MISSING


def numbers_of(levels: Sequence[str], spelling: Spelling, *, missing: bool) -> Vector | None:
    """Values of texts, shape (levels,), nan for a missing one where that is allowed; None if one is no number."""
    try:
        values = np.array([spelling.number(text) for text in levels], dtype=np.float64)
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    found = [math.nan if missing and is_missing(text) else spelling.finite(text) for text in levels]
    return None if None in found else np.array(found, dtype=np.float64)


def no_number(text: str, spelling: Spelling) -> str | None:
    """Why a text is no finite number, and what helps; None if it is one."""
    if spelling.finite(text) is not None:
        return None
    if is_missing(text):
        what = "not finite" if text.casefold() in ("nan", "-nan") else "no number but a missing value"
        return f'{text!r} is {what}; fill it in, or declare missing = "indicator" for the column in [data.schema]'
    if DATE.fullmatch(text):
        return f"{text!r} is no number but a date; drop the column, or make an age, a year or a duration of it"
    if GROUPS.fullmatch(text) and spelling == PLAIN:
        return f'{text!r} may be with decimals or thousands: declare decimal = "," or thousands = "," in [data.schema]'
    if _COMMA.fullmatch(text) and spelling.decimal == ".":
        return f'{text!r} is no number; declare decimal = "," in [data.schema], or thousands = ","'
    if LIMIT.match(text) and spelling.finite(LIMIT.sub("", text)) is not None:
        return f"{text!r} is no number but a limit; write the number that stands for it"
    if spelling.finite(re.sub(r"\s", "", text)) is not None:
        return f"{text!r} is no number for its blanks; take them out"
    if math.isinf(spelling.value(text)):
        return f"{text!r} is not finite; remove the row or fill the value in"
    if PLAIN.finite(text) is not None:
        return f"{text!r} is no number where decimal = {spelling.decimal!r}; mend it, or the schema"
    if UNIT.fullmatch(text):
        return f"{text!r} is no number; write it without its unit"
    return (
        f"{text!r} is no number; give a number, or declare the column in [data.schema] as categories, or drop it"
        " (`admmnet data draft` proposes one of these)"
    )


Codes = NDArray[np.int32]
"""Integer codes, shape (n,)."""
Rows = NDArray[np.intp]
"""Row numbers, from 0."""
Where = Callable[[int], str]
"""Words for the place of a row (from 0), such as "train.csv, line 7"."""
Refuse = Callable[[Iterable[str]], None]
"""What is done with faults found on the way; a reader that it returns to leaves the faulty records out."""


class RawColumn(Struct, frozen=True):
    """A column as it was read."""

    levels: tuple[str, ...]  # the distinct texts
    codes: Codes  # for every row the place of its text in `levels`
    typed: bool | None = False  # whether it holds numbers, whose texts are plain ones; None: some cells do

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
    bound: float = math.nan  # their largest absolute value, by public declaration
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


def canonical(label: str) -> str:
    """Spell numbers in one way, so that 1, +1 and 1.0 are the same label."""
    try:
        return f"{float(label):.17g}"
    except ValueError:
        return label.strip()


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


def check_finite(X: Any, names: Sequence[str], where: Where, refuse: Refuse = refuse) -> None:
    """Refuse entries of X (n, d), dense or CSR, that are not finite, in the order of the rows."""
    sparse = hasattr(X, "tocsr")
    if np.isfinite(X.data if sparse else X).all():
        return
    entries = np.argwhere(~np.isfinite(X.toarray() if sparse else X))
    refuse(
        f"{where(row)}, column {names[k]!r}: {X[row, k]:g} is not finite; remove the row or fill it in"
        for row, k in entries.tolist()
    )


def numbering() -> defaultdict[Any, int]:
    """A dictionary that numbers the values it is asked for, from 0."""
    return defaultdict(count().__next__)


def column_of(values: Sequence[str]) -> RawColumn:
    """Make a column of one text a row."""
    index = numbering()
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
