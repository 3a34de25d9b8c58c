"""What agents take from several vectors at once: their mean, or what a few wrong ones among them cannot move far.

docs/algorithms.md, eqs. (95), (96); what each survives and costs: docs/robust.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from admmnet.methods.settings import trimmed_of
from admmnet.types import Matrix, Vector

Rule: TypeAlias = Callable[[Matrix], Vector]
"""What stands for the sum of the rows of a matrix, shape (k, d) to (d,)."""


def added(rows: Matrix) -> Vector:
    """Sum of the rows."""
    return np.asarray(rows.sum(axis=0))


def rule_of(aggregate: str) -> Rule:
    """Rule of a name: ``mean``, ``median`` or ``trimmed:B``.

    Raises
    ------
    RequestError
        If there is no such rule.
    """
    if aggregate == "mean":
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


def mean_of(rows: Matrix, aggregate: str = "mean") -> Vector:
    """Mean of the rows by a rule, shape (d,); of equal ones bit for bit what they are."""
    first: Vector = rows[0]
    return first.copy() if (rows == first).all() else np.asarray(rule_of(aggregate)(rows) / len(rows))
