"""Small seeded records for the tests of the baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.sdca import dual, point, primal
from admmnet.types import Matrix, Vector

KINDS = ("squared", "logistic", "hinge")


def rng(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(list(seed)))


def records(kind: str, n: int, d: int, seed: int = 0, share: float = 1.0) -> tuple[Matrix, Vector]:
    """Rows of norms up to 1, a `share` of entries not zero, labels of a noisy linear rule."""
    draw = rng(seed, n, d)
    X = draw.standard_normal((n, d)) * (draw.random((n, d)) < share)
    norms = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    X *= draw.uniform(0.5, 1.0, (n, 1)) / norms
    y = 3.0 * X @ draw.standard_normal(d) + 0.5 * draw.standard_normal(n)
    return X, y if kind == "squared" else np.where(y >= 0.0, 1.0, -1.0)


def problem(
    kind: str, n: int, d: int, regularisation: float, *, seed: int = 0, share: float = 1.0, sparse: bool = False
) -> Problem:
    X, y = records(kind, n, d, seed, share)
    return make_problem(csr_matrix(X) if sparse else X, y, kind, regularisation)


def make_problem(X: Any, y: Any, kind: str, regularisation: float) -> Problem:
    """Problem of records that a holder has checked."""
    holder = SimulatedHolder(X, y, task="real" if kind == "squared" else "binary")
    return holder.problem(SINGLE_SITE_LOSSES[kind], regularisation)


def duality_gap(p: Problem, alpha: Vector) -> float:
    """P(theta(alpha)) + D(alpha)."""
    theta = point(p, alpha)
    return primal(p, theta) + dual(p, alpha, theta)


def feasible(p: Problem, dual: Vector) -> Vector:
    """Nearest alpha in the dual's domain: y alpha in [0, 1] for logistic and hinge, any for the squared loss."""
    return dual if p.loss.name == "squared" else np.asarray(p.y * np.clip(p.y * dual, 0.0, 1.0))
