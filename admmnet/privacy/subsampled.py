"""Gaussian steps on sampled batches, by dp-accounting (docs/proofs.md, sec. 5, Theorems 10, 12).

The library's import takes a second: it is imported where it is used. Its add-or-remove relation is what is called
zero-out here: the records number N and the batch size is nominal, so that a record without effect is an absent one.

A step is known by the *profiles* of its worst pair: the divergences sup P(S) - e^x Q(S), x >= 0, both ways round.
With g(x) the profile of N(1/sigma, 1) and N(0, 1), q the rate, e^x' = 1 + (e^x - 1)/q, c = 1 - (1 - q) e^x, they are

- ``poisson``: q g(x') with the record against without, c g(x + ln(q/c)) the other way round, 0 where c <= 0;
- ``fixed``: q g(x') both ways (Balle, Barthe, Gaboardi 2018, Theorem 9; composition: Zhu, Dong, Wang 2022);
- ``shown``: q g(x) both ways: a coin that everybody sees, then a Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from admmnet.errors import RequestError
from admmnet.privacy.conversion import LAMBDAS, ORDERS, gaussian_epsilon
from admmnet.privacy.conversion import epsilon as renyi_epsilon
from admmnet.privacy.events import SubsampledGaussian
from admmnet.types import Vector

LEAST_LAMBDA, MOST_LAMBDA = 0.05, 1e3
"""Orders less 1 between which a subsampled curve is calculated; beyond, the unsampled bound is left."""
_LEAST = math.ulp(0.0)  # no cost rounds to zero
_ROUNDING = 1e-14  # the library's sums of logarithms are exact to less, a step
_FINE = 20.0  # points of the grid of losses to a step's mean absolute loss: epsilon within 2e-4, from above
# points of that grid, after all steps and for one; else it is coarser
_MOST_POINTS, _MOST_STEP_POINTS = 2.0**20, 2.0**16
_TAIL = 1e-5  # share of delta that is spent on losses beyond the grid
_MOST_LOSS = 1e4  # mean loss of all steps beyond which the Renyi bound does
_FFT = 1e-15  # error of delta a step by the transform: at most 3e-17 was seen, up to a million steps
# readings are rounded up to a power of e^(1/8192): a transform's last bits differ by machine
_LEVELS = 2.0**13

Profile = Callable[[Vector], Vector]


def passes(event: SubsampledGaussian) -> int:
    """How many batches a record is in at most, for shuffled partitions: one an epoch of ceil(N / L) steps."""
    batches = min((1.0 - 1e-12) / event.rate, float(event.steps))  # N/L, rounding apart
    return math.ceil(event.steps / max(1, math.ceil(batches)))


def rho(event: SubsampledGaussian) -> float:
    """Plain zCDP of all steps together, without amplification: no better rho holds for all orders."""
    parts = passes(event) if event.sampling == "shuffled" else event.steps
    return max(0.5 * parts * (1.0 / event.noise_multiplier) ** 2, _LEAST)


@lru_cache(maxsize=256)
def curve(event: SubsampledGaussian) -> Vector:
    """Renyi curve at ``conversion.ORDERS`` of all steps together, shape (601,), read-only."""
    result = rho(event) * ORDERS  # Theorem 12: all there is for shuffled partitions
    with np.errstate(all="ignore"):
        if event.sampling == "shown" and event.rate < 1.0:
            result = np.minimum(result, event.steps * _shown(event))
        elif event.sampling != "shuffled" and event.rate < 1.0:
            result = np.minimum(result, amplified(event))
        result = np.maximum(result, _LEAST)
    result.flags.writeable = False
    return result


def _shown(event: SubsampledGaussian) -> Vector:
    """ln(1 - q + q exp(lam alpha / (2 sigma^2))) / lam, exact also where the exponent is small."""
    exponent = LAMBDAS * ORDERS * 0.5 * (1.0 / event.noise_multiplier) ** 2
    small = np.log1p(event.rate * np.expm1(np.minimum(exponent, 1.0)))
    large = np.logaddexp(math.log1p(-event.rate), math.log(event.rate) + exponent)
    return np.asarray(np.where(exponent < 1.0, small, large) / LAMBDAS)


def amplified(event: SubsampledGaussian) -> Vector:
    """Curve of all steps where batches are hidden; inf beyond the orders for which it is calculated."""
    known = 1.0 + _known_orders()
    lam = known - 1.0
    accountant, library = _library(".rdp").RdpAccountant(orders=list(known)), _library("")
    step = library.PoissonSampledDpEvent(event.rate, library.GaussianDpEvent(event.noise_multiplier))
    try:
        with _quiet():
            accountant.compose(step)
    except (ValueError, ArithmeticError):  # numbers beyond its reach: the unsampled bound is left
        return np.full_like(ORDERS, np.inf)
    values = np.asarray(accountant.rdp, dtype=float)
    values = np.where(values >= 0.0, values, np.where(values > -1e-9, 0.0, np.inf))
    if event.sampling == "fixed":
        # A moment is 1 + alpha lam (I + J), I and J the integrals over x >= 0 of e^(lam x) and e^(-alpha x) times the
        # profiles. I is the one of Poisson batches, and J <= I where both profiles are the same: A <= 2 A_poisson - 1.
        values = values + np.log1p(-np.expm1(-lam * values)) / lam
    values = event.steps * (values + _ROUNDING * (1.0 + 1.0 / lam))
    good = np.isfinite(values)
    if not good.any():
        return np.full_like(ORDERS, np.inf)
    # lam D is 0 at 0 and convex in lam: chords lie above it
    x, y = _minorant(np.append(0.0, lam[good]), np.append(0.0, (lam * values)[good]))
    return np.where(x[-1] >= LAMBDAS, np.interp(LAMBDAS, x, y) / LAMBDAS, np.inf)


@cache
def _known_orders() -> Vector:
    """Orders less 1 at which the library is asked: at whole orders it is exact, between them it may be far above."""
    whole = np.unique(np.rint(np.geomspace(1.0, MOST_LAMBDA, 80)))
    return np.union1d(whole, np.geomspace(LEAST_LAMBDA, 10.0, 25))


def _minorant(x: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Corners of the largest convex function below these points, x rising."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1 and (y[i] - y[kept[-2]]) * (x[kept[-1]] - x[kept[-2]]) <= (y[kept[-1]] - y[kept[-2]]) * (
            x[i] - x[kept[-2]]
        ):
            kept.pop()
        kept.append(i)
    return x[kept], y[kept]


def _library(module: str) -> Any:
    try:
        return import_module(f"dp_accounting{module}")
    except ImportError as error:
        raise RequestError(
            "steps on sampled batches are accounted for by dp-accounting: pip install 'admmnet[baselines]'"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the library: that a series does not converge shows as an infinite result."""
    import logging

    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def epsilon_proven(event: SubsampledGaussian, delta: float, arithmetic: str = "pld") -> float:
    """Epsilon of all steps together, never below the least that holds.

    By the Renyi curve (``rdp``), or by the distribution of the privacy loss (``pld``): exact for Gaussians, else from
    above to about 3e-4 relative; by the Renyi curve where that is out of its reach. RequestError if dp-accounting is
    needed and missing.
    """
    found = _loss_epsilon(event, delta) if arithmetic == "pld" else math.inf
    return found if math.isfinite(found) else renyi_epsilon(curve(event), delta)


def gaussian_profile(x: Vector, mu: float) -> Vector:
    """Return g: the profile of N(mu, 1) and N(0, 1) at x >= 0, docs/proofs.md eq. (P5)."""
    from scipy.special import erfc, erfcx

    near, far = x / mu - 0.5 * mu, x / mu + 0.5 * mu
    second = np.exp(-0.5 * near * near) * erfcx(far / math.sqrt(2.0))  # scaled so that nothing overflows
    return np.asarray(np.maximum(0.5 * (erfc(near / math.sqrt(2.0)) - second), 0.0))


def profiles(event: SubsampledGaussian) -> list[tuple[Profile, Profile]]:
    """Profiles of one step's worst pairs, of a rate below 1: each pair in both directions."""
    q, mu = event.rate, 1.0 / event.noise_multiplier

    def present(x: Vector) -> Vector:
        far = x - math.log(q) + np.log1p(-(1.0 - q) * np.exp(-np.maximum(x, 1.0)))
        return q * gaussian_profile(np.where(x < 1.0, np.log1p(np.expm1(np.minimum(x, 1.0)) / q), far), mu)

    def absent(x: Vector) -> Vector:
        c = q - (1.0 - q) * np.expm1(np.minimum(x, 700.0))
        inside = np.where(c > 0.0, c, q)
        return np.where(c > 0.0, inside * gaussian_profile(x + np.log(q / inside), mu), 0.0)

    if event.sampling == "poisson":
        return [(present, absent), (absent, present)]
    if event.sampling == "fixed":
        return [(present, present)]
    return [(lambda x: q * gaussian_profile(x, mu),) * 2]


@lru_cache(maxsize=256)
def _loss_epsilon(event: SubsampledGaussian, delta: float) -> float:
    """Epsilon by the distribution of the privacy loss; inf where that is out of reach."""
    if event.sampling == "shuffled" or event.rate == 1.0:
        mu_squared = 2.0 * rho(event)
        return gaussian_epsilon(math.sqrt(mu_squared), delta) if mu_squared < 2.0 * _MOST_LOSS else math.inf
    error, square = _FFT * event.steps, (1.0 / event.noise_multiplier) ** 2
    mean = event.steps * event.rate * min(0.5 * square, event.rate * math.expm1(min(square, 50.0)))
    if not (error < 0.5 * delta and mean < _MOST_LOSS and 1e-18 < square < _MOST_LOSS):
        return math.inf
    worst = 0.0
    with np.errstate(all="ignore"):
        for forward, backward in profiles(event):
            worst = max(worst, _composed(forward, backward, event.steps, mean, delta, delta - error))
    return math.exp(math.ceil(math.log(worst) * _LEVELS) / _LEVELS) if 0.0 < worst < math.inf else worst


def _composed(forward: Profile, backward: Profile, steps: int, mean: float, delta: float, reduced: float) -> float:
    """Epsilon at the reduced delta of so many steps with these profiles, rounded upwards on a grid of losses."""
    distance = float(forward(np.zeros(1))[0])
    if steps * distance <= delta:  # total variation adds up
        return 0.0
    up, down = (_reach(profile, _TAIL * delta / steps) for profile in (forward, backward))
    width = 2.0 * distance / _FINE
    width = max(width, (up + down) / _MOST_STEP_POINTS, (2.0 * mean + 16.0 * math.sqrt(2.0 * mean)) / _MOST_POINTS)
    least, masses, beyond = connected(forward, backward, width, math.ceil(up / width), math.ceil(down / width))
    pmf = _library(".pld.pld_pmf").create_pmf(dict(enumerate(masses.tolist(), least)), width, beyond, True)
    try:
        return float(pmf.self_compose(steps, min(1e-15, _TAIL * delta)).get_epsilon_for_delta(reduced))
    except (ValueError, ArithmeticError, MemoryError):  # the Renyi bound is left
        return math.inf


def connected(forward: Profile, backward: Profile, width: float, up: int, down: int) -> tuple[int, Vector, float]:
    """Pair on a grid of losses whose profile is no less than the given ones, and the same on the grid.

    "Connect the dots", Doroshenko et al. 2022, Algorithm 1. Masses at negative losses are computed from the profile
    of the other direction, times e^loss: differences of numbers near 1 would lose all their digits.

    Returns the least loss in units of the width, the masses at it and the losses that follow, and the mass at an
    infinite loss.
    """

    def masses(values: Vector) -> Vector:
        falls = values[:-1] - values[1:]
        drops = (math.exp(width) * falls - np.append(falls[1:], 0.0)) / math.expm1(width)
        return np.asarray(np.maximum(drops, 0.0))

    ahead = forward(width * np.arange(up + 1.0))
    above = masses(ahead)
    below = masses(backward(width * np.arange(down + 1.0))) * np.exp(-width * np.arange(1.0, down + 1.0))
    beyond = float(ahead[-1])
    none = max(0.0, 1.0 - float(np.sum(above)) - float(np.sum(below)) - beyond)
    return -down, np.concatenate((below[::-1], [none], above)), beyond


def _reach(profile: Profile, tail: float) -> float:
    """Loss at which a profile has fallen to a tail, from above, to 5 %."""
    low, high = 0.0, 1e-12
    while float(profile(np.array([high]))[0]) > tail:
        low, high = high, 4.0 * high
    while low > 0.0 and high > 1.05 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if float(profile(np.array([middle]))[0]) > tail else (low, middle)
    return high
