"""What agents take from several vectors at once: their mean, or what a few wrong ones among them cannot move far.

docs/algorithms.md, eqs. (95), (96); what each survives and costs: docs/robust.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from admmnet.methods.settings import trimmed_of
from admmnet.types import Matrix, Vector

Rule: TypeAlias = Callable[[Matrix], Vector]
"""What stands for the sum of the rows of a matrix, shape (k, d) to (d,)."""

JUDGED = 4
"""Fewest vectors of which one can stand far from the others."""


def added(rows: Matrix) -> Vector:
    """Sum of the rows."""
    return np.asarray(rows.sum(axis=0))


def rule_of(aggregate: str) -> Rule:
    """Rule of a name: ``mean``, ``median``, ``trimmed:B``, or ``screened``, the sum of what is left.

    Raises
    ------
    RequestError
        If there is no such rule.
    """
    if aggregate in ("mean", "screened"):
        return added
    return partial(_middle, trimmed=trimmed_of(aggregate))


def _middle(rows: Matrix, trimmed: int | None) -> Vector:
    """K times the mean of each coordinate's middle values, eqs. (95), (96); of too few rows their median."""
    k = len(rows)
    if not k:
        return added(rows)
    out = (k - 1) // 2
    out = out if trimmed is None else min(out, trimmed)
    return np.asarray(k * np.sort(rows, axis=0)[out : k - out].mean(axis=0))


def _median(rows: Matrix) -> Vector:
    """Median of each coordinate; numpy's own would import numpy.ma."""
    return _middle(rows, None) / len(rows)


def mean_of(rows: Matrix, aggregate: str = "mean") -> Vector:
    """Mean of the rows by a rule, shape (d,); of equal ones bit for bit what they are."""
    first: Vector = rows[0]
    if (rows == first).all():
        return first.copy()
    if aggregate == "screened":
        rows = rows[~stands_far(rows)]
    return np.asarray(rule_of(aggregate)(rows) / len(rows))


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


def stands_far(rows: Matrix) -> NDArray[np.bool_]:
    """Rows that stand further from the middle than members do who err by noise alone."""
    return standing(rows) > far(rows.shape[1])


def far(width: int) -> float:
    """Standing from which on a vector of so many coordinates is far from the others, eq. (100)."""
    return 1.6 + 42.0 / width
