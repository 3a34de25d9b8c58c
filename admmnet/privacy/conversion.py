"""Renyi curves on one fixed grid of orders, and their conversion to (epsilon, delta).

A curve is an array of bounds on D_alpha at ``ORDERS``. Curves of adaptively chosen releases add up.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from admmnet.types import Vector

LAMBDAS: Vector = np.geomspace(1e-3, 1e7, 601)
"""alpha - 1 at every order of the grid; steps of 3.9%: epsilon above 0.1 is within 0.05% of the continuous optimum."""
ORDERS: Vector = 1.0 + LAMBDAS
"""The orders alpha, shape (601,)."""


def epsilon_at_orders(curve: Vector, delta: float) -> Vector:
    """Epsilon that each order certifies at this delta, shape (601,).

    epsilon = D_alpha + ln(1 - 1/alpha) - ln(alpha delta)/(alpha - 1), docs/proofs.md eq. (P2); Canonne,
    Kamath, Steinke 2020, Proposition 12. Never below 0.
    """
    return np.maximum(curve + _overhead(delta), 0.0)


@lru_cache(maxsize=64)
def _overhead(delta: float) -> Vector:
    """What (P2) adds to a curve: it takes longer than the rest, and a run has few deltas."""
    return np.log(LAMBDAS) - np.log(ORDERS) - np.log(ORDERS * delta) / LAMBDAS


def epsilon(curve: Vector, delta: float) -> float:
    """Least epsilon that the curve certifies at this delta; inf where the curve is."""
    return float(np.min(epsilon_at_orders(curve, delta)))


def best_order(curve: Vector, delta: float) -> int:
    """Index into ``ORDERS`` of the order that certifies the least epsilon."""
    return int(np.argmin(epsilon_at_orders(curve, delta)))


def allowance(order: int, epsilon: float, delta: float) -> float:
    """Most D_alpha at one fixed order that still certifies (epsilon, delta), docs/proofs.md eq. (P2) solved."""
    lam, alpha = float(LAMBDAS[order]), float(ORDERS[order])
    return epsilon - math.log(lam / alpha) + math.log(alpha * delta) / lam


def loose_epsilon(rho: float, delta: float) -> float:
    """Published conversion rho + 2 sqrt(rho ln(1/delta)), docs/proofs.md eq. (P3); Bun, Steinke 2016."""
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def loose_rho(epsilon: float, delta: float) -> float:
    """Published budget epsilon^2 / (4 ln(1/delta)), docs/proofs.md eq. (P4); Ding et al. 2020, Lemma 2.7."""
    return epsilon * epsilon / (4.0 * math.log(1.0 / delta))


def group_epsilon(rho: float, delta: float, size: int) -> float:
    """Epsilon of a person with ``size`` records, docs/proofs.md Theorem 17: (P2) of size^2 rho, plain zCDP."""
    return epsilon(size * size * rho * ORDERS, delta)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Exact delta of Gaussian releases with sum of (Delta/sigma)^2 = mu^2, docs/proofs.md eq. (P5).

    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu); Balle, Wang 2018, Theorem 8.
    """
    near, far = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
    # e^epsilon = exp((far^2 - near^2)/2): scaled so that nothing overflows
    second = math.exp(-0.5 * near * near) * _erfcx(far / math.sqrt(2.0))
    return max(0.5 * (math.erfc(near / math.sqrt(2.0)) - second), 0.0)


def _erfcx(x: float) -> float:
    """exp(x^2) erfc(x) for x >= 0, to 1e-9 relative, from below where asymptotic: delta is never understated."""
    if x < 20.0:
        return math.exp(x * x) * math.erfc(x)
    inverse = 1.0 / (x * x)
    return (1.0 - 0.5 * inverse + 0.75 * inverse**2 - 1.875 * inverse**3) / (x * math.sqrt(math.pi))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Least epsilon of Gaussian releases at this delta, by bisection on eq. (P5), never below it."""
    low, high = 0.0, 1.0
    if gaussian_delta(mu, low) <= delta:
        return 0.0
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu that eq. (P5) allows at (epsilon, delta), by bisection, never above it."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2.0 * high
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if gaussian_delta(middle, epsilon) > delta else (middle, high)
    return low


def excess(size: int, s: float, parts: int = 1) -> float:
    """Bound on the log ratio of the discrete law to that of a rounded Gaussian: docs/proofs.md, eq. (P10).

    Parameters
    ----------
    size : int
        Coordinates d of the integer vector.
    s : float
        Standard deviation parameter of the whole noise.
    parts : int
        m, where the noise is the sum of m independent N_Z(0, s^2/m).

    Raises
    ------
    ValueError
        If s^2/m is below 1, where no bound is proved.
    """
    part = s * s / parts
    if not part >= 1.0:
        raise ValueError(f"the noise of each of {parts} parts needs a parameter of at least 1, got {math.sqrt(part):g}")
    return size * (1.0 / (24.0 * s * s) + 2.01 * (parts - 1) * math.exp(-(math.pi**2) * part))


EXCESS_SHARE = 1e-3
"""Share of delta that sums of ``excess`` may take: mu falls by about 1e-4 of itself."""


def most_excess(epsilon: float, delta: float) -> float:
    """Sum of ``excess`` that a filter of (mu^2, kappa) admits: the K of docs/proofs.md, (P11)."""
    return EXCESS_SHARE * delta * math.exp(-epsilon)


@lru_cache(maxsize=1024)
def discrete_mu(epsilon: float, delta: float, kappa: float) -> float:
    """Largest mu at which Theorem 19 gives (epsilon, delta) for this kappa, never above it.

    ValueError if kappa alone takes all of delta.
    """
    left = _left(epsilon, delta, kappa)
    if not left > 0.0:
        raise ValueError(f"kappa = {kappa:g} leaves nothing of delta = {delta:g} at epsilon = {epsilon:g}")
    return gaussian_mu(epsilon, left)


@lru_cache(maxsize=4096)
def discrete_epsilon(mu: float, kappa: float, delta: float) -> float:
    """Least epsilon that Theorem 19 gives at this delta, to 1e-12 relative and never below it; inf where none."""
    low = gaussian_epsilon(mu, delta)
    if kappa == 0.0:
        return low
    step = 1e-12 * max(low, 1e-3)
    while True:  # the bound falls, then rises with epsilon: the first crossing is the one wanted
        high = low + step
        left = _left(high, delta, kappa)
        if not left > 0.0:
            return math.inf
        if gaussian_delta(mu, high) <= left:
            break
        low, step = high, 2.0 * step
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        fits = gaussian_delta(mu, middle) <= _left(middle, delta, kappa)
        low, high = (low, middle) if fits else (middle, high)
    return high


def _left(epsilon: float, delta: float, kappa: float) -> float:
    """What Theorem 19 leaves for (P5): (delta - e^epsilon (e^kappa - 1)) e^-kappa, rounded down."""
    if kappa == 0.0:
        return delta
    if epsilon + kappa > 700.0:
        return 0.0
    return (delta - math.exp(epsilon) * math.expm1(kappa)) * math.exp(-kappa) * (1.0 - 1e-13)
