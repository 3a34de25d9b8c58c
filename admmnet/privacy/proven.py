"""The proven accountant: claims only what has a proof in docs/proofs.md.

Relation: replace-one, but for Gaussian steps on sampled batches (``events.relation_of``).

Every event gets a Renyi curve on the grid of ``conversion.ORDERS`` and a valid rho of zCDP.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple, cast

import numpy as np

from admmnet.privacy import events as kinds
from admmnet.privacy import subsampled
from admmnet.privacy.conversion import LAMBDAS, ORDERS
from admmnet.privacy.events import DiscreteGaussian, Event, GammaNorm, Gaussian, NoRecords, ObjectivePerturbation
from admmnet.types import Vector

LEAST = math.ulp(0.0)
"""What a cost is at least: none rounds to zero."""
ROUNDED = 1.0 + 1e-12
"""More than rounding takes from K and lam of Theorem 26."""
LOGISTIC = 1.4428
"""sup over s, t in (0, 1) of 32 (s^2 (1-s)^2 + t^2 (1-t)^2) / (4 - (s+t)^2) in Theorem 3 (L): 1.44272, rounded up."""


class EventCost(NamedTuple):
    """Cost of one event: rho-zCDP and the Renyi curve at ``conversion.ORDERS``."""

    rho: float
    curve: Vector


@lru_cache(maxsize=512)  # an entry has 5 kB
def cost(event: Event) -> EventCost:
    """Proven cost of one event, infinite for an unprotected release; its curve is read-only."""
    match event:
        case kinds.ObjectivePerturbation():
            rho, curve = _objective_perturbation(event)
        case kinds.Gaussian() | kinds.DiscreteGaussian():  # the discrete one: Canonne, Kamath, Steinke 2020, Theorem 4
            rho = gaussian_rho(event.sensitivity, event.sigma)
            if isinstance(event, DiscreteGaussian) and event.parts > 1:
                rho = math.nextafter(rho, math.inf)  # Theorem 19, (P12): more than several parts add
            curve = rho * ORDERS
        case kinds.Laplace() | kinds.AboveThreshold() | kinds.GammaNorm() | kinds.GammaNormVector():
            rho, curve = _pure(cast("float", pure_of(event)))
        case kinds.SubsampledGaussian():
            rho, curve = subsampled.rho(event), subsampled.curve(event)
        case kinds.NoRecords():
            rho, curve = 0.0, np.zeros_like(ORDERS)
        case _:
            rho, curve = math.inf, np.full_like(ORDERS, np.inf)
    curve.flags.writeable = False
    return EventCost(rho, curve)


def gaussian_rho(sensitivity: float, sigma: float) -> float:
    """Delta^2 / (2 sigma^2), docs/proofs.md Theorem 1; Bun, Steinke 2016, Proposition 1.6."""
    return max(0.5 * (sensitivity / sigma) ** 2, LEAST)


def pure_rho(epsilon: float) -> float:
    """Return epsilon tanh(epsilon / 2), docs/proofs.md Theorem 2; Steinke 2024: pure epsilon in zCDP."""
    return max(epsilon * math.tanh(0.5 * epsilon), LEAST)


def gamma_norm_epsilon(event: GammaNorm) -> float:
    """Pure epsilon of a minimiser perturbed by K(a), docs/proofs.md Theorem 11: a Delta + ln(1 + kappa), or (L)."""
    slope = event.rate * event.sensitivity
    kappa = event.curvature / (event.records * event.convexity)
    whole = slope + math.log1p(kappa)
    return min(whole, max(slope, 8.0 * kappa)) if event.logistic else whole


def _pure(epsilon: float) -> tuple[float, Vector]:
    """Zero-concentrated rho, and the exact curve of the worst pure-epsilon pair: docs/proofs.md Theorem 2.

    ln(cosh((lam + 1/2) epsilon) / cosh(epsilon/2)) / lam; the quotient is 1 + 2 sinh(x) sinh(w) / cosh(epsilon/2).
    """
    rho, half = pure_rho(epsilon), 0.5 * epsilon
    x, w = np.minimum(half * ORDERS, 350.0), np.minimum(half * LAMBDAS, 350.0)
    product = 2.0 * np.sinh(x) * np.sinh(w) / math.cosh(min(half, 350.0))
    exact = np.where(half * ORDERS < 350.0, np.log1p(product) / LAMBDAS, np.inf)
    return rho, np.maximum(np.minimum(np.minimum(exact, rho * ORDERS), epsilon), LEAST)


def _objective_perturbation(event: ObjectivePerturbation) -> tuple[float, Vector]:
    """docs/proofs.md Theorem 3: rho0 + 2.6 kappa^2, the curve min{(R), (A)}, or (L); at most Theorem 26's mu^2/2."""
    half = 0.5 * gaussian_mu_squared(event)
    rho0 = gaussian_rho(event.sensitivity, event.sigma)
    kappa = event.curvature / (event.records * event.convexity)
    y = LAMBDAS * kappa
    inside = np.minimum(y, 0.999)  # (R) needs y < 1; beyond that (A) alone counts
    r = -np.log1p(-inside * (inside + kappa) / (1.0 + kappa)) / LAMBDAS
    a = np.log1p(kappa) + math.log(4.0) / LAMBDAS
    curve = ORDERS * rho0 + np.where(y < 0.999, np.minimum(r, a), a)
    if event.logistic:
        logistic = ORDERS * np.maximum(rho0, LOGISTIC * kappa * kappa / np.maximum(1.0 - y, 1e-3))
        curve = np.where(y < 0.999, np.minimum(curve, logistic), curve)
    return min(rho0 + 2.6 * kappa * kappa, half), np.minimum(curve, ORDERS * half)


def stretch(event: ObjectivePerturbation) -> float:
    """Lam of docs/proofs.md Theorem 26, mu over sensitivity/sigma; inf where it proves none; k is its K."""
    k = 2.0 * event.sigma / event.sensitivity / event.records * (event.curvature / event.convexity) * ROUNDED
    k *= 4.0 if event.logistic else 1.0
    most = 1.5 if event.logistic else 0.8
    if not (event.lam is not None and k <= most):  # nan fails, too
        return math.inf
    if event.logistic:
        return (1.0 + 0.3 * max(0.0, k - 0.79) ** 2) * ROUNDED
    return (1.0 + 0.11 * max(k, 0.17) ** 2 + 0.36 * max(0.0, k - 0.3) ** 2) * ROUNDED


def gaussian_mu_squared(event: Event) -> float:
    """mu^2 of N(0, 1) against N(mu, 1), which cost no less than the event; inf where no such pair is proved."""
    if isinstance(event, ObjectivePerturbation):
        lam = stretch(event)
        return max((lam * (event.sensitivity / event.sigma)) ** 2, LEAST) if lam < math.inf else lam
    if (epsilon := pure_of(event)) is not None:
        return max(pure_mu(epsilon) ** 2, LEAST)
    near = isinstance(event, Gaussian | DiscreteGaussian | NoRecords)
    return 2.0 * cost(event).rho if near else math.inf


def pure_of(event: Event) -> float | None:
    """Epsilon of an event that is epsilon-DP by itself, at delta 0; None of any other."""
    match event:
        case kinds.Laplace():
            return event.sensitivity / event.scale
        case kinds.AboveThreshold():
            return event.epsilon_threshold + event.epsilon_query
        case kinds.GammaNorm():
            return gamma_norm_epsilon(event)
        case kinds.GammaNormVector():
            return event.rate * event.sensitivity
    return None


def pure_mu(epsilon: float) -> float:
    """Return mu of a Gaussian pair that costs no less than any pure epsilon: docs/proofs.md Theorem 32.

    2 Phi^-1(1/(1 + e^-epsilon)), which is concave: sqrt(pi/2) epsilon is never below it. inf beyond epsilon 700.
    """
    if epsilon > 700.0:
        return math.inf
    slope = math.sqrt(0.5 * math.pi) * epsilon * ROUNDED
    if epsilon < 1e-3:  # its quantile would lose digits
        return slope
    return min(slope, -2.0 * NormalDist().inv_cdf(1.0 / (1.0 + math.exp(epsilon))) * ROUNDED)
