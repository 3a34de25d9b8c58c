"""The proven accountant: claims only what has a proof in docs/proofs.md.

Relation: replace-one, but for Gaussian steps on sampled batches (``events.relation_of``).

Every event gets a Renyi curve on the grid of ``conversion.ORDERS`` and a valid rho of zCDP.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from admmnet.privacy import events as kinds
from admmnet.privacy import subsampled
from admmnet.privacy.conversion import LAMBDAS, ORDERS, excess
from admmnet.privacy.events import Event, GammaNorm, ObjectivePerturbation
from admmnet.types import Vector

LEAST = math.ulp(0.0)
"""What a cost is at least: none rounds to zero."""
ROUNDED = 1.0 + 1e-12
"""More than rounding takes from K and lam of Theorem 26."""
LOGISTIC = 1.4428
"""sup over s, t in (0, 1) of 32 (s^2 (1-s)^2 + t^2 (1-t)^2) / (4 - (s+t)^2) in Theorem 3 (L): 1.44272, rounded up."""


class EventCost(NamedTuple):
    """Proven cost of one event."""

    rho: float
    """Plain zCDP."""
    curve: Vector
    """Renyi curve at ``conversion.ORDERS``, read-only."""
    mu_squared: float
    """mu^2 of N(0, 1) against N(mu, 1), which cost no less than the event; inf where no such pair is proved."""
    kappa: float = 0.0
    """(P10): how far it may be from a Gaussian one."""
    draws: int = 1
    """Draws of noise that is clipped, (V10): none of exact noise, of sampled steps one each."""


@lru_cache(maxsize=512)  # an entry has 5 kB
def cost(event: Event) -> EventCost:
    """Proven cost of one event, infinite for an unprotected release."""
    match event:
        case kinds.ObjectivePerturbation():
            found = _objective_perturbation(event)
        case kinds.Gaussian():
            rho = gaussian_rho(event.sensitivity, event.sigma)
            found = EventCost(rho, rho * ORDERS, 2.0 * rho)
        case kinds.DiscreteGaussian():  # Canonne, Kamath, Steinke 2020, Theorem 4
            rho = gaussian_rho(event.sensitivity, event.sigma)
            if event.parts > 1:
                rho = math.nextafter(rho, math.inf)  # Theorem 19, (P12): more than several parts add
            kappa = excess(event.dimension, event.sigma / event.grid, event.parts)
            found = EventCost(rho, rho * ORDERS, 2.0 * rho, kappa, 0)
        case kinds.Laplace():
            found = _pure(event.sensitivity / event.scale)
        case kinds.AboveThreshold():
            found = _pure(event.epsilon_threshold + event.epsilon_query)
        case kinds.GammaNorm():
            found = _pure(gamma_norm_epsilon(event))
        case kinds.GammaNormVector():
            found = _pure(event.rate * event.sensitivity)
        case kinds.SubsampledGaussian():
            found = EventCost(subsampled.rho(event), subsampled.curve(event), math.inf, draws=event.steps)
        case kinds.NoRecords():
            found = EventCost(0.0, np.zeros_like(ORDERS), 0.0, draws=0)
        case _:
            found = EventCost(math.inf, np.full_like(ORDERS, np.inf), math.inf, draws=0)
    found.curve.flags.writeable = False
    return found


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


def _pure(epsilon: float) -> EventCost:
    """Cost of an event that is epsilon-DP, with the exact curve of the worst pair: docs/proofs.md Theorems 2, 32.

    ln(cosh((lam + 1/2) epsilon) / cosh(epsilon/2)) / lam; the quotient is 1 + 2 sinh(x) sinh(w) / cosh(epsilon/2).
    """
    rho, half = pure_rho(epsilon), 0.5 * epsilon
    x, w = np.minimum(half * ORDERS, 350.0), np.minimum(half * LAMBDAS, 350.0)
    product = 2.0 * np.sinh(x) * np.sinh(w) / math.cosh(min(half, 350.0))
    exact = np.where(half * ORDERS < 350.0, np.log1p(product) / LAMBDAS, np.inf)
    curve = np.maximum(np.minimum(np.minimum(exact, rho * ORDERS), epsilon), LEAST)
    return EventCost(rho, curve, max(pure_mu(epsilon) ** 2, LEAST))


def _objective_perturbation(event: ObjectivePerturbation) -> EventCost:
    """docs/proofs.md Theorem 3: rho0 + 2.6 kappa^2, the curve min{(R), (A)}, or (L); at most Theorem 26's mu^2/2."""
    lam = stretch(event)
    mu_squared = max((lam * (event.sensitivity / event.sigma)) ** 2, LEAST) if lam < math.inf else lam
    half = 0.5 * mu_squared
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
    return EventCost(min(rho0 + 2.6 * kappa * kappa, half), np.minimum(curve, ORDERS * half), mu_squared)


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
