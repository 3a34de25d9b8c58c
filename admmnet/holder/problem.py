"""Rows of records, and the problem of single-site methods: losses, primal, dual.

With N records x_i (rows of X, ||x_i|| <= 1) and labels y_i, P(theta) is docs/methods.md (40) and D(alpha)
is (41), both to be minimised; P + D is the duality gap, 0 or more, and theta = X^T alpha / (lambda N).
X is a dense float64 array in C order or a scipy.sparse CSR matrix; whatever is (d,) or (N,) is dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from admmnet.solvers.certificate import squared_norms
from admmnet.solvers.losses import Bounded, Logistic, Loss, Squared
from admmnet.solvers.radius import LARGEST_ROW
from admmnet.types import Vector

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


@dataclass(frozen=True)
class Hinge(Bounded):
    """Hinge loss phi(u, y) = max(0, 1 - y u), labels y in {-1, +1}: |phi'| <= 1, phi' jumps at y u = 1."""

    name: str = "hinge"
    smooth: ClassVar[bool] = False  # phi' jumps
    flatness = 0.0

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record, 0 or more."""
        return np.asarray(np.maximum(0.0, 1.0 - y * u))

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """Subgradient of each record: -y where y u < 1, else 0, at the kink too."""
        return np.where(y * u < 1.0, -y, 0.0)

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Zero, away from the kink."""
        return np.zeros_like(u)


SINGLE_SITE_LOSSES: Mapping[str, Loss] = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge()}
"""Losses of the single-site methods; ridge regression is the squared one, half the squared residual."""


@dataclass(frozen=True)
class Problem:
    """Records as a series of steps computes with them; made of what a holder has checked.

    Rows X (N, d), labels or targets y (N,), the loss, and lambda.
    """

    X: Features = field(repr=False)
    y: Vector = field(repr=False)
    loss: Loss
    regularisation: float

    @cached_property
    def squared_norms(self) -> Vector:
        """||x_i||^2, shape (N,)."""
        return squared_norms(self.X)

    @property
    def records(self) -> int:
        """Number of records N."""
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        """Number of features d."""
        return int(self.X.shape[1])

    @property
    def scale(self) -> float:
        """Lambda N: v = theta * scale."""
        return self.regularisation * self.records
