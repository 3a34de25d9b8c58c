"""SDCA: sequential dual coordinate ascent, exact steps, no privacy. docs/baselines.md (43) to (45), L = 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from admmnet.baselines.checks import check_count, check_positive, check_unit
from admmnet.baselines.objective import Problem, dual_objective, primal_objective, primal_point
from admmnet.errors import RunError
from admmnet.types import Vector

_FIRST_VIOLATION = 0.1  # to which hinge passes go before the first look at the gap, at most
_PARTIAL = (
    0.7  # share of it to which passes over some of the records go, so that the full pass after them meets it
)


@dataclass(frozen=True)
class SdcaResult:
    """Outcome of SDCA. Not private, the gap least of all.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        The model.
    dual : ndarray, shape (N,)
        alpha, feasible.
    primal, gap : float
        P(theta), and the duality gap, an upper bound on P(theta) - min P.
    epochs : float
        Steps taken, divided by N.
    """

    theta: Vector = field(repr=False)
    dual: Vector = field(repr=False)
    primal: float
    gap: float
    epochs: float


def run_sdca(
    problem: Problem,
    *,
    epochs: int,
    rng: np.random.Generator,
    gap: float | None = None,
    strict: bool = True,
    observe: Callable[[int, Vector], None] | None = None,
) -> SdcaResult:
    """Run SDCA from alpha = 0, for a number of epochs or down to a duality gap.

    Every pass draws ``rng.permutation`` of its records: of all N, except that the hinge loss with a gap asked
    for passes over records that may still move ("shrinking") until those are done.

    Parameters
    ----------
    problem : Problem
        Records, loss and lambda; rows of norm at most 1.
    epochs : int
        Number of passes over all records; with `gap`, the most work allowed, in N steps.
    rng : numpy.random.Generator
        For the orders.
    gap : float or None
        Duality gap at which to stop; None runs all epochs.
    strict : bool
        Whether missing the gap is an error, or left to whoever reads ``gap`` of the result.
    observe : callable or None
        Called after every pass with its number and theta (not to be changed).

    Returns
    -------
    SdcaResult
        With primal and gap computed afresh from alpha.

    Raises
    ------
    RequestError
        A setting is out of range; numba is missing.
    RunError
        The gap was not reached within the epochs, and `strict`.
    """
    from admmnet.baselines import kernels  # numba takes a second to import

    check_unit(problem, "rows", "sdca")
    check_count("epochs", epochs)
    if gap is not None:
        check_positive("gap", gap)
    rows, n = kernels.store(problem.X), problem.records
    c, view = problem.squared_norms / problem.scale, replace(problem, X=kernels.as_matrix(rows, problem.X))
    dual, logit, theta = np.zeros(n), np.zeros(n), np.zeros(problem.features)
    kept, active, everyone = np.empty(n, dtype=np.int64), np.arange(n), np.arange(n)
    upper, lower = math.inf, -math.inf
    target = min(_FIRST_VIOLATION, 2000.0 * gap) if gap else 0.0  # gaps are some 1e-4 to 1e-3 of it
    look, work, passes = 1, 0, 0
    while work + len(active) <= epochs * n:
        order = rng.permutation(active)
        work, passes = work + len(order), passes + 1
        if problem.kind == "hinge":
            count, most, least = kernels.hinge_pass(
                *rows, order, problem.y, c, dual, theta, problem.scale, upper, lower, kept
            )
            done = most - least <= (target if len(order) == n else _PARTIAL * target)
        else:
            logistic = problem.kind == "logistic"
            kernels.smooth_pass(*rows, order, problem.y, c, dual, logit, theta, problem.scale, logistic)
            done = passes >= look
        if observe is not None:
            observe(passes, theta)
        if gap is None:
            continue
        if done and len(order) == n:
            found = _outcome(view, dual, work)
            if found.gap <= gap:
                return found
            theta[:] = found.theta  # free of what rounding has piled up
            target *= min(0.5, max(0.1, gap / found.gap))
            look = passes + max(1, passes // 10)
        if problem.kind != "hinge":
            continue
        if done:
            active, upper, lower = everyone, math.inf, -math.inf
        else:
            active = kept[:count].copy()
            upper, lower = most if most > 0.0 else math.inf, least if least < 0.0 else -math.inf
    found = _outcome(view, dual, work)
    if strict and gap is not None and not found.gap <= gap:
        raise RunError(
            f"sdca stopped at a duality gap of {found.gap:.3g} after {epochs} epochs, above gap = {gap:g}: "
            "raise epochs or gap"
        )
    return found


def _outcome(problem: Problem, dual: Vector, work: int) -> SdcaResult:
    theta = primal_point(problem, dual)
    primal = primal_objective(problem, theta)
    gap = primal + dual_objective(problem, dual, theta)
    return SdcaResult(theta, dual.copy(), primal, gap, work / problem.records)
