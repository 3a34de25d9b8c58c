"""SDCA: sequential dual coordinate ascent, exact steps, no privacy. docs/methods.md (43) to (45), L = 1.

Also series and their objective on the public records of a simulation, without door and ledger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known, measurement
from admmnet.holder.problem import Problem, unit_rows
from admmnet.holder.series.base import Rngs, Series
from admmnet.holder.series.coordinate import check_loss
from admmnet.privacy.events import Event, Unprotected
from admmnet.solvers.losses import Loss
from admmnet.types import Vector

_FIRST_VIOLATION = 0.1  # to which hinge passes go before the first look at the gap, at most
_PARTIAL = 0.7  # share of it to which passes over some of the records go, so that the full pass after them meets it


@measurement
@dataclass(frozen=True, eq=False)
class ExactPasses(Series):
    """SDCA from alpha = 0; an epoch is a pass, its answer theta. Needs numba.

    Every pass draws a ``permutation`` of its records: of all N, except that the hinge loss with a gap asked
    for passes over records that may still move ("shrinking") until those are done.

    Parameters
    ----------
    epochs : int
        Number of passes over all records; with `gap`, the most work allowed, in N steps.
    gap : float or None
        Duality gap at which to stop, read from the records of simulations alone; None runs all epochs.
    """

    regularisation: float
    epochs: int
    gap: float | None = None

    def check(self, known: Known) -> None:
        """Refuse settings out of range, and to stop by a gap where records are private."""
        super().check(known)
        check_loss(known)
        if self.gap is not None and not known.simulated:
            raise RequestError("sdca stops at a gap of the records: that is for simulations")

    def event(self, known: Known) -> Event:
        """No finite cost."""
        return Unprotected()

    def length(self, known: Known) -> int:
        """A pass."""
        return 1

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Eqs. (43) to (45), theta afresh from alpha at every look at the gap, and at the end.

        The progress is not private: passes, theta (d,), feasible alpha (N,), steps taken, and at the last look P(theta)
        and a bound on P(theta) - min P.
        """
        from admmnet.holder.series import kernels, plain_kernels

        n, name = problem.records, problem.loss.name
        theta, (dual, logit) = np.zeros(problem.features), np.zeros((2, n))  # logit: roots of (45) at the last visits
        yield (p := SimpleNamespace(step=0, theta=theta, dual=dual, work=0, primal=math.inf, gap=math.inf))
        p.target = min(_FIRST_VIOLATION, 2000.0 * self.gap) if self.gap else 0.0  # violation at which the next look is
        p.look = 1  # pass of the next look
        active, upper, lower = np.arange(n), math.inf, -math.inf  # who is in the next pass: `hinge_pass`
        view, c = replace(problem, X=kernels.thinned(problem.X)), problem.squared_norms / problem.scale
        rows, kept, over = kernels.store(view.X), np.empty(n, dtype=np.int64), False
        while not over:
            order, full = rngs.batches.permutation(active), len(active) == n
            p.work, p.step = p.work + len(order), p.step + 1
            if name == "hinge":
                count, most, least = plain_kernels.hinge_pass(
                    rows, order, problem.y, c, dual, theta, problem.scale, upper, lower, kept
                )
                done = most - least <= (p.target if full else _PARTIAL * p.target)
            else:
                plain_kernels.smooth_pass(
                    rows, order, problem.y, c, dual, logit, theta, problem.scale, name == "logistic"
                )
                done = p.step >= p.look
            looked = self.gap is not None and done and full
            if looked:
                self._look(view, p)
            if name == "hinge" and self.gap is not None:
                if done:
                    active, upper, lower = np.arange(n), math.inf, -math.inf
                else:
                    active = kept[:count].copy()
                    upper, lower = most if most > 0.0 else math.inf, least if least < 0.0 else -math.inf
            reached = self.gap is not None and looked and p.gap <= self.gap
            over = reached or p.work + len(active) > self.epochs * n
            if over and not looked:
                self._look(view, p)
            yield p

    def _look(self, problem: Problem, p: Any) -> None:
        p.theta[:] = point(problem, p.dual)  # free of what rounding has piled up
        p.primal = primal(problem, p.theta)
        p.gap = p.primal + dual(problem, p.dual, p.theta)
        if self.gap is not None:
            p.target *= min(0.5, max(0.1, self.gap / p.gap)) if p.gap > 0.0 else 0.5
            p.look = p.step + max(1, p.step // 10)

    def model(self, progress: Any) -> Vector:
        """Theta."""
        return np.array(progress.theta)

    def figures(self, progress: Any) -> Mapping[str, float]:
        """P(theta), the gap, and steps taken over N; of the last pass only."""
        epochs = progress.work / len(progress.dual)
        return {"primal": progress.primal, "duality_gap": progress.gap, "epochs": epochs}


def run_series(
    series: Series,
    problem: Problem,
    batch_rng: np.random.Generator,
    noise_rng: np.random.Generator | None = None,
    observe: Callable[[Any], None] | None = None,
) -> Any:
    """Take all steps of a series, and return its progress, which ``observe`` sees after every step."""
    unit = series.unit_rows and unit_rows(problem.squared_norms, problem.features)
    series.check(Known(problem.records, problem.features, problem.loss, unit=unit, simulated=True))
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
