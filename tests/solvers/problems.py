"""Problems for the tests of solvers, and the gradient norm of their answers in extended precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from admmnet.solvers.certificate import (
    Compiled,
    Solution,
    gradient,
    met_curvature,
    rounding_margin,
    rows_at_once,
    squared_norms,
)
from admmnet.solvers.losses import LOSSES, Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.radius import LARGEST_ROW, LossFacts, summands
from admmnet.types import Matrix, Vector

LOSS = Logistic()
EVERY: dict[str, Loss] = {
    **{name: loss for name, loss in LOSSES.items() if name != "softmax"},
    "hinge, 1e-3": SmoothedHinge(1e-3),
    "hinge, 20": SmoothedHinge(20.0),
    "huber, 1e-3": Huber(1e-3),
    "huber, 20": Huber(20.0),
}
every_loss = pytest.mark.parametrize("loss", EVERY.values(), ids=EVERY.keys())


def problem(n: int, d: int, seed: int = 0, flip: float = 0.5) -> tuple[Matrix, Vector]:
    """Draw unit rows labelled by a hyperplane with noise `flip` on the margin (0: separable)."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    noise = flip * rng.standard_normal(n)
    return X, np.where(X @ rng.standard_normal(d) + noise >= 0, 1.0, -1.0)


def linear_term(d: int, size: float, seed: int = 0) -> Vector:
    g = np.random.default_rng([77, seed, d]).standard_normal(d)
    return np.asarray(g * (size / np.linalg.norm(g)))


def units(found: Vector, exact: list[Fraction]) -> float:
    """Largest relative error in units of 2^-53; inf where one of the two alone is zero."""
    worst = Fraction(0)
    for a, b in zip(found.tolist(), exact, strict=True):
        if b == 0 and a != 0.0:
            return math.inf
        if abs(b) > Fraction(1e-290):  # below, numbers have fewer bits
            worst = max(worst, abs(Fraction(a) - b) / abs(b) * 2**53)
    return float(worst)


Wide = NDArray[np.longdouble]


def wide_slope(loss: Loss, u: Wide, y: Wide) -> Wide:
    """First derivative in extended precision."""
    if isinstance(loss, Logistic):
        return np.asarray(-y / (1 + np.exp(np.minimum(y * u, 11_000))))
    if isinstance(loss, SmoothedHinge):
        h = np.longdouble(loss.width)
        return np.asarray(-y * np.clip((1 + h - y * u) / (2 * h), 0, 1))
    reach = loss.width if isinstance(loss, Huber) else np.inf
    return np.asarray(np.clip(u - y, -reach, reach))


def exact_norm(X: Matrix, y: Vector, theta: Vector, g: Vector, m: float, loss: Loss = LOSS) -> float:
    """||grad J||_2 in extended precision."""
    assert np.finfo(np.longdouble).eps < 1e-18, "this test needs an extended long double"
    wide, labels, point = X.astype(np.longdouble), y.astype(np.longdouble), theta.astype(np.longdouble)
    weights = wide_slope(loss, (wide * point).sum(axis=1), labels)
    full = (wide * weights[:, None]).sum(axis=0) / len(y) + np.longdouble(m) * point + g.astype(np.longdouble)
    return float(np.sqrt((full * full).sum()))


def check(X: Matrix, y: Vector, g: Vector, m: float, beta: float, found: Solution, loss: Loss = LOSS) -> None:
    true = exact_norm(X, y, found.theta, g, m, loss)
    assert true <= found.gradient_norm <= beta


def margin_covers(X: Any, y: Vector, theta: Vector, loss: Loss, exact: float, compiled: Compiled | None = None) -> None:
    """Of what rounding does to the gradient norm at m = 0.01 and the linear term 0.1; and it is small."""
    (n, d), length = X.shape, float(np.linalg.norm(theta))
    data, rms = gradient(X, y, theta, loss, compiled=compiled)
    norm, R = float(np.linalg.norm(data + 0.01 * theta + linear_term(d, 0.1))), math.sqrt(squared_norms(X).max())
    c, met = loss.curvature_bound(), met_curvature(X, y, theta, loss, R, length, compiled)
    for curvature in (c, min(c, met)):
        margin = rounding_margin((n, d), R, curvature, rms, length, 0.01 * length + 0.1, norm, rows_at_once(X))
        assert abs(norm - exact) <= margin <= 2.0**-53 * (n + d + 20) * (1 + 4 * c * length + norm + rms)


def worst_margin(facts: LossFacts, m: float, beta: float, linear: float) -> float:
    """(V3) of docs/proofs.md: `rounding_margin` over all records where the gradient norm is at most beta."""
    n, d, G, c, _ = facts
    a = LARGEST_ROW**2 * c * d / m
    terms = (a + 3.0) * (linear + LARGEST_ROW * G + beta), LARGEST_ROW * (summands(n, d) + 12) * G
    return 1.01 * 2.0**-53 * (sum(terms) + 3.0 * linear + (d + 2) * beta)


@dataclass(frozen=True)
class Kinked(Logistic):
    name: str = "kinked"

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        return np.inf
