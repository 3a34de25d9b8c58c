"""Gaussian steps on sampled batches, by dp-accounting (docs/privacy.md, sec. 5, Theorems 10, 12).

The library's import takes a second: it is imported where it is used. Its add-or-remove relation is what is called
zero-out here: the records number N and the batch size is nominal, so that a record without effect is an absent one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from admmnet.errors import BudgetError
from admmnet.privacy.conversion import LAMBDAS, ORDERS, gaussian_epsilon
from admmnet.privacy.conversion import epsilon as renyi_epsilon
from admmnet.privacy.events import SubsampledGaussian
from admmnet.types import Vector

LEAST_LAMBDA, MOST_LAMBDA = 0.05, 1e3
"""Orders less 1 between which a subsampled curve is calculated; outside, monotony and the unsampled bound serve."""
TOLERANCE = 5e-5
"""Relative accuracy of a calibrated noise multiplier, from above."""


def passes(event: SubsampledGaussian) -> int:
    """How many batches a record is in at most, for shuffled partitions: one an epoch."""
    return math.ceil(event.steps * event.rate * (1.0 - 1e-12))


def rho(event: SubsampledGaussian) -> float:
    """Plain zCDP of all steps together, without amplification: no better rho holds for all orders."""
    return (passes(event) if event.sampling == "shuffled" else event.steps) / (
        2.0 * event.noise_multiplier**2
    )


@lru_cache(maxsize=256)
def curve(event: SubsampledGaussian) -> Vector:
    """Renyi curve at ``conversion.ORDERS`` of all steps together, shape (601,), read-only."""
    unsampled = ORDERS / (2.0 * event.noise_multiplier**2)
    if event.sampling == "shuffled":
        result = passes(event) * unsampled  # Theorem 12: no amplification
    elif event.sampling == "shown":
        result = event.steps * _shown(event)  # Theorem 12
    else:
        result = np.minimum(event.steps * unsampled, amplified(event))
    result.flags.writeable = False
    return result


def _shown(event: SubsampledGaussian) -> Vector:
    exponent = LAMBDAS * ORDERS / (2.0 * event.noise_multiplier**2)
    inside = np.logaddexp(
        math.log1p(-event.rate) if event.rate < 1.0 else -np.inf, math.log(event.rate) + exponent
    )
    return np.asarray(np.maximum(inside, 0.0) / LAMBDAS)


def amplified(event: SubsampledGaussian) -> Vector:
    """Curve of all steps where batches are hidden; inf where it is not calculated."""
    inner = (LAMBDAS >= LEAST_LAMBDA) & (LAMBDAS <= MOST_LAMBDA)
    if event.sampling == "fixed":
        # the library is quick at whole orders alone; lambda D is convex, so chords lie above it
        known = np.unique(np.rint(np.geomspace(2.0, MOST_LAMBDA + 2.0, 80)))
        products = np.concatenate(([0.0], (known - 1.0) * _library_curve(event, known)))
        values = np.interp(LAMBDAS[inner], np.concatenate(([0.0], known - 1.0)), products) / LAMBDAS[inner]
    else:
        values = _library_curve(event, ORDERS[inner])
    result = np.full_like(ORDERS, np.inf)
    result[inner] = values
    result[LAMBDAS < LEAST_LAMBDA] = values[0]  # a Renyi divergence grows with its order
    return np.where(np.isfinite(result), result, np.inf)


def _library_curve(event: SubsampledGaussian, orders: Vector) -> Vector:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    if event.sampling == "fixed":
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountant = RdpAccountant(orders=list(orders), neighboring_relation=relation)
    accountant.compose(_library_event(event))
    return np.asarray(accountant.rdp, dtype=float)


def _library_event(event: SubsampledGaussian) -> Any:
    import dp_accounting

    step: Any = dp_accounting.GaussianDpEvent(event.noise_multiplier)
    if event.sampling == "fixed":
        batch, records = event.rate.as_integer_ratio()  # the library needs nothing but their ratio
        step = dp_accounting.SampledWithoutReplacementDpEvent(records, batch, step)
    else:
        step = dp_accounting.PoissonSampledDpEvent(event.rate, step)
    return dp_accounting.SelfComposedDpEvent(step, event.steps)


def epsilon_proven(event: SubsampledGaussian, delta: float, arithmetic: str = "pld") -> float:
    """Epsilon of all steps together.

    Parameters
    ----------
    event : SubsampledGaussian
        What was released.
    delta : float
        Of the pair.
    arithmetic : str
        ``rdp``: the Renyi curve alone. ``pld``: also the privacy loss distribution of Poisson steps, and the exact
        Gaussian of shuffled ones, the least of them.
    """
    best = renyi_epsilon(curve(event), delta)
    if arithmetic == "pld" and event.sampling == "poisson":
        return min(best, _pld_epsilon(event, delta))
    if arithmetic == "pld" and event.sampling == "shuffled":
        return min(best, gaussian_epsilon(math.sqrt(passes(event)) / event.noise_multiplier, delta))
    return best


def epsilon_published(event: SubsampledGaussian, delta: float) -> float:
    """What D21 books: Renyi amplification by sampling, whatever the sampling was and whoever saw it."""
    hidden = SubsampledGaussian(event.noise_multiplier, event.rate, event.steps, "poisson")
    return renyi_epsilon(curve(hidden), delta)


@lru_cache(maxsize=256)
def _pld_epsilon(event: SubsampledGaussian, delta: float) -> float:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    try:
        accountant.compose(_library_event(event))
        found = float(accountant.get_epsilon(delta))
    except (
        ValueError,
        ArithmeticError,
        MemoryError,
    ):  # too little noise for its grid: the Renyi bound is left
        return math.inf
    return found if found >= 0.0 else math.inf


def noise_multiplier(
    epsilon: float,
    delta: float,
    rate: float,
    steps: int,
    sampling: str,
    reading: Callable[[SubsampledGaussian, float], float] = epsilon_proven,
) -> float:
    """Least noise multiplier whose epsilon is at most the target, to 1e-4 relative and never below.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    rate : float
        L / N.
    steps : int
        T.
    sampling : str
        One of ``events.SAMPLINGS``.
    reading : callable
        Epsilon of an event at a delta; it falls as the noise grows.

    Raises
    ------
    BudgetError
        If no noise up to 1e6 is enough.
    """
    from scipy.optimize import brentq

    @cache
    def excess(log: float) -> float:
        """Logarithm of epsilon over its target, between -1e3 and 1e3, at a logarithm of the noise multiplier."""
        found = reading(SubsampledGaussian(math.exp(log), rate, steps, sampling), delta)
        return min(math.log(found / epsilon), 1e3) if found > 0.0 else -1e3

    low = high = 0.0
    while excess(high) > 0.0:
        low, high = high, high + 0.7
        if high > 14.0:
            raise BudgetError(
                f"epsilon = {epsilon:g} affords no step at all; raise --epsilon or lower --epochs"
            )
    while excess(low) <= 0.0 and low > -9.0:
        low, high = low - 0.7, low
    if excess(low) <= 0.0:
        return math.exp(low)
    log = brentq(excess, low, high, xtol=TOLERANCE, rtol=1e-12)
    while excess(log) > 0.0:
        log += TOLERANCE
    return math.exp(log)
