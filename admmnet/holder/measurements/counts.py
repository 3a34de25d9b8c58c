"""How many records lie in each bin of each column: what encodings of raw records are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known, measurement
from admmnet.holder.holder import Secret
from admmnet.holder.measurements.sums import OnGrid
from admmnet.types import Matrix, Vector


@measurement
@dataclass(frozen=True, eq=False)
class ColumnCounts(OnGrid):
    """Counts of raw records by column and bin, on the grid. Proof: docs/proofs.md, Theorem 27.

    Of m edges a column has m + 2 bins: [-inf, edge 1), ..., [edge m, inf], and missing values, one column after the
    other.

    Parameters
    ----------
    edges : ndarray, shape (p m,)
        Of the columns in turn, ascending in each.
    columns : ndarray, shape (p,)
        Places among the columns of numbers, ascending.
    sigma, grid
        As of ``OnGrid``.
    """

    edges: Vector
    columns: Vector
    sigma: float
    grid: float

    def within(self, known: Known) -> Self:
        """Refuse columns that are not there and edges that do not ascend; and as all sums do."""
        at, p, there = self.columns, self.columns.size, known.numbers or 0
        if not (p and at.ndim == 1 and (at == np.floor(at)).all() and at[0] >= 0 and at[-1] < there):
            raise RequestError(f"ColumnCounts: columns must be places among the {there} columns of raw numbers")
        if not (self.edges.size and self.edges.size % p == 0):
            raise RequestError(f"ColumnCounts: {self.edges.size} edges are not as many for each of {p} columns")
        if (np.diff(at) <= 0.0).any() or (np.diff(self.table) < 0.0).any():
            raise RequestError("ColumnCounts: columns must ascend, and edges within each column")
        return super().within(known)

    @property
    def table(self) -> Matrix:
        """Edges, shape (p, m)."""
        return self.edges.reshape(self.columns.size, -1)

    def moved(self, known: Known) -> float:
        """One count less and one more in every column: (S7)."""
        return math.sqrt(2.0 * self.columns.size)

    def sensitivity(self, known: Known) -> float:
        """As (S7): on a fine grid, of a step below 1, whole numbers are not rounded."""
        moved, whole = self.moved(known), super().sensitivity(known)
        return moved * (1.0 + 1e-12) if whole <= 2.0 * moved else whole

    def longest(self, known: Known) -> float:
        """One bin a column."""
        return math.sqrt(self.columns.size)

    def dimension(self, known: Known) -> int:
        """Bins of all columns."""
        return self.edges.size + 2 * self.columns.size

    def total(self, secret: Secret, known: Known) -> Vector:
        """Counts, column after column."""
        numbers, m = secret.records[0].numbers, self.table.shape[1]
        found = []
        for column, edges in zip(self.columns, self.table, strict=True):
            values = numbers[:, int(column)]
            bins = np.where(np.isnan(values), m + 1, np.searchsorted(edges, values, side="right"))
            found.append(np.bincount(bins, minlength=m + 2))
        return np.concatenate(found).astype(np.float64)
