"""Rows of records, dense or sparse, and what norms of them may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from admmnet.solvers.accurate import is_sparse
from admmnet.solvers.certificate import squared_norms
from admmnet.solvers.radius import LARGEST_ROW
from admmnet.types import Vector

__all__ = ["Features", "is_sparse", "row_slack", "squared_norms", "unit_rows"]
Features = Any
"""Dense (n, d) float64 array in C order, or a scipy.sparse CSR matrix of float64; scipy has no types."""
_UNIT = 2.0**-53


def row_slack(width: int) -> float:
    """Relative excess over 1 that rounding may give the norm of a row of ``width`` numbers: max(1e-12, 4 d u).

    Never beyond what every bound allows for, ``LARGEST_ROW``.
    """
    return min(max(1e-12, 4.0 * width * _UNIT), LARGEST_ROW - 1.0)


def unit_rows(squares: Vector, width: int) -> bool:
    """Whether rows of these squared norms have norm 1 up to rounding, rows of zeros excepted."""
    return bool(np.all((squares == 0.0) | (np.abs(np.sqrt(squares) - 1.0) <= row_slack(width))))
