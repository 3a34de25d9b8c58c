"""Series and their objective on the public records of a simulation: no door, no ledger.

P(theta) is docs/methods.md (40) and D(alpha) is (41), both to be minimised; P + D is the duality gap, 0 or more, and
theta = X^T alpha / (lambda N).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from admmnet.holder.known import Known
from admmnet.holder.problem import Problem
from admmnet.holder.series.base import Rngs, Series
from admmnet.solvers.losses import Loss
from admmnet.types import Vector


def run_series(
    series: Series,
    problem: Problem,
    batch_rng: np.random.Generator,
    noise_rng: np.random.Generator | None = None,
    observe: Callable[[Any], None] | None = None,
) -> Any:
    """Take all steps of a series, and return its progress, which ``observe`` sees after every step."""
    facts = problem.records, problem.features, problem.loss
    series.check(Known(*facts, unit=series.unit_rows and problem.unit, simulated=True))
    with np.errstate(over="ignore", invalid="ignore"):  # the model tells
        for progress in series.advance(problem, Rngs(batch_rng, noise_rng or batch_rng)):
            if observe is not None and progress.step:
                observe(progress)
    return progress


def primal(problem: Problem, theta: Vector) -> float:
    """P(theta), in the loss's unit; theta of shape (d,)."""
    losses = problem.loss.value(problem.X @ theta, problem.y)
    return float(np.mean(losses) + 0.5 * problem.regularisation * (theta @ theta))


def dual(problem: Problem, alpha: Vector, theta: Vector) -> float:
    """D(alpha); +inf where alpha is infeasible. theta is ``point`` of alpha."""
    conjugates = conjugate(problem.loss, -alpha, problem.y)
    return float(np.mean(conjugates) + 0.5 * problem.regularisation * (theta @ theta))


def point(problem: Problem, alpha: Vector) -> Vector:
    """Return theta = X^T alpha / (lambda N), shape (d,)."""
    return np.asarray(alpha @ problem.X / problem.scale)


def conjugate(loss: Loss, s: Vector, y: Vector) -> Vector:
    """Convex conjugate phi*(s, y) of a loss of the single-site methods, +inf outside of its domain.

    With a = -s y it is s y + s^2 / 2 of the squared loss; within 0 <= a <= 1, -a of the hinge loss and a ln a +
    (1 - a) ln(1 - a) of the logistic one. In the dual of Damaskinos et al. 2021 (sec. 2) it enters as phi*(-alpha, y).
    """
    if loss.name == "squared":
        with np.errstate(over="ignore"):
            return np.asarray(s * (y + 0.5 * s))
    a = -s * y
    inside = (a >= 0.0) & (a <= 1.0)
    if loss.name == "hinge":
        return np.where(inside, -a, np.inf)
    p = np.where(inside, a, 0.5)
    tiny = np.finfo(np.float64).tiny  # 0 ln 0 = 0
    entropy = p * np.log(np.maximum(p, tiny)) + (1.0 - p) * np.log1p(-np.minimum(p, 1.0 - 2.0**-53))
    return np.where(inside, entropy, np.inf)
