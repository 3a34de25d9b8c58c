"""What agents take from several vectors at once: their mean, perhaps without those that stand far from the others.

docs/methods.md, eq. (100); what that survives and costs: docs/hosts.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from admmnet.types import Matrix, Vector

JUDGED = 4
"""Fewest vectors of which one can stand far from the others."""


def mean_of(rows: Matrix, aggregate: str = "mean") -> Vector:
    """Mean of the rows, or of the ``screened`` ones, shape (d,); of equal ones bit for bit what they are."""
    first: Vector = rows[0]
    if (rows == first).all():
        return first.copy()
    if aggregate == "screened":
        rows = rows[~stands_far(rows)]
    return np.asarray(rows.sum(axis=0) / len(rows))


def standing(rows: Matrix) -> Vector:
    """Distance of each row from the middle over what is usual among them, eq. (100), shape (k,).

    Rows of zeros have said nothing: they are not judged, and stand at 0, as all do where less than ``JUDGED`` speak.
    """
    found, speak = np.zeros(len(rows)), rows.any(axis=1)
    if speak.sum() < JUDGED:
        return found
    away = rows[speak] - _median(rows[speak])
    usual = 1.4826 * float(np.linalg.norm(_median(np.abs(away))))
    distance = np.linalg.norm(away, axis=1)
    found[speak] = np.divide(distance, usual, out=np.where(distance > 0.0, np.inf, 0.0), where=usual > 0.0)
    return found


def _median(rows: Matrix) -> Vector:
    """Median of each coordinate; numpy's own would import numpy.ma."""
    out = (len(rows) - 1) // 2
    return np.asarray(np.sort(rows, axis=0)[out : len(rows) - out].mean(axis=0))


def stands_far(rows: Matrix) -> NDArray[np.bool_]:
    """Rows that stand further from the middle than members do who err by noise alone."""
    return standing(rows) > far(rows.shape[1])


def far(width: int) -> float:
    """Standing from which on a vector of so many coordinates is far from the others, eq. (100)."""
    return 1.6 + 42.0 / width
