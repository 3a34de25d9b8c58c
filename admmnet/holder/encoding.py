"""Raw records and the map that makes rows of them, once it was released (docs/proofs.md, Theorem 29)."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from admmnet.types import Figure, Matrix, Real, Vector, Whole

CELLS = 32
"""Equal bins from ``low`` to ``high``: the distribution function of a column is known at their 33 edges."""
HATS = 6
"""Knots at equal shares of the records, between which a number's place is interpolated."""
_TINY, _HUGE = 1e-140, 1e140
_FAR = math.log1p(1e6)


class RawRows(NamedTuple):
    """Records as they come: what rows are made of once their encoding is known.

    Attributes
    ----------
    numbers : ndarray of float64, shape (n, p)
        Any numbers; nan for missing ones.
    codes : ndarray of int64, shape (n, c)
        Places of categories among the features of their column; none where there is no such place.
    width : int
        d of the rows that they become.
    """

    numbers: Matrix
    codes: NDArray[np.int64]
    width: int

    def copy(self) -> RawRows:
        """Return the same, as arrays of our own."""
        return RawRows(np.array(self.numbers, dtype=np.float64), np.array(self.codes, dtype=np.int64), self.width)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the rows that they become."""
        return len(self.numbers), self.width

    @property
    def layout(self) -> tuple[int, int, int]:
        """Columns of numbers and of codes, and d."""
        return self.numbers.shape[1], self.codes.shape[1], self.width


class Number(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="number"):
    """A column of numbers, 8 features: six hats and a line of its place, and whether it is missing."""

    weight: Real
    """weight of its features"""
    low: Real
    high: Real
    """bounds"""
    shares: tuple[Figure, ...] = ()
    """shares of the records below each of 33 edges of equal bins; absent where noise drowned them: a public curve
    then"""

    width: ClassVar[int] = HATS + 2


class Plain(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="plain"):
    """Numbers that are features as they stand."""

    width: Whole
    """features"""


class Words(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="words"):
    """A column of categories, each with a feature."""

    width: Whole
    """features"""
    weight: Real
    """weight of its features"""


Column: TypeAlias = Number | Plain | Words


@dataclass(frozen=True)
class Encoding:
    """A public map from raw records to rows of norm 1, each by itself.

    Attributes
    ----------
    columns : tuple of Number, Plain and Words
        In the order of their features.
    omega : float
        Weight of all columns of numbers against those of categories.
    intercept : bool
        Whether a constant feature follows.
    """

    columns: tuple[Column, ...]
    omega: float = 1.0
    intercept: bool = True

    @property
    def width(self) -> int:
        """D."""
        return sum(column.width for column in self.columns) + self.intercept

    @property
    def layout(self) -> tuple[int, int, int]:
        """Columns of numbers and of codes that raw records have, and d."""
        numbers = [column for column in self.columns if not isinstance(column, Words)]
        each = (column.width if isinstance(column, Plain) else 1 for column in numbers)
        return sum(each), len(self.columns) - len(numbers), self.width

    @property
    def digest(self) -> str:
        """sha256 of all that it says."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def edges_of(low: float, high: float) -> Vector:
    """Edges of the 32 equal bins from low to high, shape (33,)."""
    return np.asarray(low + (high - low) * (np.arange(CELLS + 1) / CELLS))


def encode_rows(raw: RawRows, encoding: Encoding) -> Matrix:
    """Rows of norm 1, shape (n, d); row k depends on record k, k, the encoding and public sizes alone.

    No record makes it fail, whatever its numbers are.
    """
    X, numbers, words, at = np.zeros(raw.shape), 0, 0, 0
    for column in encoding.columns:
        part = X[:, at : at + column.width]
        if isinstance(column, Number):
            _place(part, raw.numbers[:, numbers], column, encoding.omega)
            numbers += 1
        elif isinstance(column, Plain):
            part[:] = raw.numbers[:, numbers : numbers + column.width]
            numbers += column.width
        else:
            code = raw.codes[:, words]
            known = np.flatnonzero((code >= 0) & (code < column.width))
            part[known, code[known]] = column.weight
            words += 1
        at += column.width
    X[:, at:] = 1.0
    return to_sphere(X)


@np.errstate(all="ignore")
def _place(out: Matrix, values: Vector, column: Number, omega: float) -> None:
    """Features of a column of numbers, into ``out``, shape (n, 8)."""
    gone = np.isnan(values)
    v = np.where(gone, 0.0, values)
    if column.shares:
        edges, shares = edges_of(column.low, column.high), np.array(column.shares)
        f = np.interp(v, edges, shares, left=0.0, right=1.0)
        least, most = np.interp((0.01, 0.99), shares + 1e-9 * np.arange(len(shares)), edges).tolist()
        least, most = (least, most) if least < most else (column.low, column.high)
        line = np.clip(2.0 * (v - least) / (most - least) - 1.0, -1.0, 1.0)
    else:
        line = np.sign(v) * np.minimum(1.0, np.log1p(np.abs(v)) / _FAR)
        f = (line + 1.0) / 2.0
    x = (HATS - 1) * np.clip(np.nan_to_num(f), 0.0, 1.0)  # bins may be so narrow that slopes are infinite
    hats = np.maximum(0.0, 1.0 - np.abs(x - np.arange(HATS)[:, None]))
    there = np.where(gone, 0.0, column.weight * omega / math.sqrt(2.0))
    out.T[:HATS], out.T[HATS], out.T[-1] = hats * there, line * there, column.weight * gone


@np.errstate(all="ignore")
def to_sphere(rows: Matrix) -> Matrix:
    """Divide rows (n, d) by their norms, in place, and return them.

    What is zero, or no number, or too large becomes the last unit vector: (S9).
    """
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    fine = (norms > _TINY) & (norms < _HUGE)
    rows /= np.where(fine, norms, 1.0)[:, None]
    rows[~fine] = np.eye(1, rows.shape[1], rows.shape[1] - 1)
    return rows
