"""Theorem 26 of docs/proofs.md on real minimisers: how far apart the probabilities of a set can be in two worlds.

The distance of two laws is the largest |Phi^-1 Q(A) - Phi^-1 P(A)| over sets of a likelihood ratio. In one dimension
sets are made of intervals whose probabilities are exact, so that none comes out too large.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from admmnet.privacy.events import ObjectivePerturbation
from admmnet.privacy.proven import cost

from .quadrature import Array, Kinked, Models, Records, logistic

TOLERANCE = 1e-6
INTERVALS = 4000
CENTRES = np.linspace(-4.0, 4.0, 41)
"""Where the record bends, in standard deviations of b over m, and in units in which it bends."""
LIKE = {"logistic": True, "hinge": False}


def event(kind: str, c: float, K: float) -> ObjectivePerturbation:
    """Event of one record of G = 1 with G/(n sigma) = c: the smoothed hinge of half-width 1, or logistic loss."""
    sigma, c1 = 1.0 / c, 0.25 if LIKE[kind] else 0.5
    m = sigma * c1 / K * (4.0 if LIKE[kind] else 1.0)
    return ObjectivePerturbation(2.0, sigma, 1.0, c1, m, 1, logistic=LIKE[kind], lam="quadratic")


def record(kind: str, x: float, centres: Array) -> Records:
    """Loss of a row x with label 1, which bends around the centres; none where x is 0."""
    one = np.ones_like(centres)
    if not x:
        return Records(0.0 * one, 0.0 * one, 0.0 * one, 0.0 * one)
    if LIKE[kind]:
        return replace(logistic(x * one), centre=centres)
    return Kinked(-0.5 * x * one, 0.5 * abs(x) * one, centres, 0.5 * x * x * one)


def distances(models: Models) -> Array:
    """Distance of the minimiser's laws with the first and with the second record, shape (models,)."""
    reach = 9.0 * models.sigma + (models.first.lipschitz() + models.second.lipschitz()) / models.n
    theta = (reach / models.m)[:, None] * np.linspace(-1.0, 1.0, INTERVALS + 1)
    sides = [one.needed_b(theta) / models.sigma[:, None] for one in (models, models.swapped())]
    p, q = (
        np.where(b[:, :-1] > 0.0, ndtr(-b[:, :-1]) - ndtr(-b[:, 1:]), ndtr(b[:, 1:]) - ndtr(b[:, :-1])) for b in sides
    )
    return np.array([distance(*pair) for pair in zip(p, q, strict=True)])


def distance(p: Array, q: Array) -> float:
    """Largest |Phi^-1 Q(A) - Phi^-1 P(A)| over unions A of cells with the largest ratios, of 1e-9 to 1 - 1e-9."""
    order = np.argsort(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300)), kind="stable")
    scores, inside = [], np.ones(len(order) - 1, dtype=bool)
    for mass in (p[order], q[order]):
        below, above = np.cumsum(mass)[:-1], np.cumsum(mass[::-1])[::-1][1:]
        inside &= (below > 1e-9) & (above > 1e-9)
        scores.append(np.where(below < above, ndtri(np.clip(below, 1e-300, 0.5)), -ndtri(np.clip(above, 1e-300, 0.5))))
    return float(np.max(np.abs(scores[1] - scores[0])[inside]))


def worst(kind: str, c: float, K: float, x: float, other: float) -> float:
    """Largest distance over the centres, of a row that is exchanged for another one."""
    one, made = np.ones_like(CENTRES), event(kind, c, K)
    unit = made.sigma / made.convexity * (1.0 + 1.0 / K)
    scale = one * made.convexity, one * made.sigma
    pairs = [(CENTRES, CENTRES), (CENTRES, -CENTRES)] if other else [(CENTRES, CENTRES)]
    models = [
        Models(one, *scale, record(kind, x, unit * first), record(kind, other, unit * second))
        for first, second in pairs
    ]
    return max(float(np.max(distances(each))) for each in models)


@pytest.mark.parametrize("c", [0.1, 2.0])
@pytest.mark.parametrize(
    ("kind", "K"), [*(("logistic", K) for K in (0.2, 0.5, 0.79, 1.2)), *(("hinge", K) for K in (0.2, 0.4, 0.6, 0.8))]
)
def test_real_minimisers_are_no_further_apart_than_gaussians(kind: str, K: float, c: float) -> None:
    """Replaced by a row that pulls the other way, or the same way from elsewhere; left out; shorter rows."""
    mu = math.sqrt(cost(event(kind, c, K)).mu_squared)
    found = {pair: worst(kind, c, K, *pair) for pair in ((1.0, -1.0), (1.0, 1.0), (1.0, -0.4), (1.0, 0.0), (-1.0, 0.0))}
    for (_, other), value in found.items():
        assert value <= (mu if other else 0.5 * mu) * (1.0 + TOLERANCE), found
    assert found[1.0, -1.0] > 0.95 * 2.0 * c, "nothing much smaller would do"
