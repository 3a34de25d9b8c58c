"""Theorem 17: several records of one person cost K^2 rho, at one agent or over several."""

from __future__ import annotations

import math

import numpy as np
import pytest

from admmnet.privacy import proven
from admmnet.privacy.conversion import LAMBDAS, ORDERS, gaussian_epsilon, group_epsilon
from admmnet.privacy.events import (
    AboveThreshold,
    Event,
    GammaNorm,
    GammaNormVector,
    Gaussian,
    Laplace,
    NoRecords,
    ObjectivePerturbation,
    SubsampledGaussian,
)

DELTA = 1e-5
EVENTS: tuple[Event, ...] = (
    Gaussian(0.3, 2.0),
    ObjectivePerturbation(2e-3, 4e-3, 1.0, 0.25, 0.01, 1000),
    ObjectivePerturbation(2e-3, 4e-3, 1.0, 0.25, 0.5, 1000, logistic=True),
    Laplace(1.0, 3.0),
    AboveThreshold(1.0, 0.2, 0.3),
    GammaNorm(2e-3, 100.0, 5, 0.25, 0.5, 1000),
    GammaNormVector(2.0, 0.2, 5),
    SubsampledGaussian(2.0, 0.01, 100, "poisson"),
    SubsampledGaussian(2.0, 0.01, 100, "shuffled"),
    NoRecords(),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.mechanism)
def test_every_events_rho_holds_at_every_order(event: Event) -> None:
    """What the theorem rests on: xi is 0, and the curve is below rho alpha wherever it is known."""
    cost = proven.cost(event)
    assert cost.xi == 0.0
    assert (cost.curve <= cost.rho * ORDERS * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_gaussian_noise_reaches_it(size: int) -> None:
    """K records of one agent move a sum by K times as much: the exact divergence is K^2 rho alpha."""
    mu = 0.05
    exact = gaussian_epsilon(size * mu, DELTA)
    told = group_epsilon(0.5 * mu * mu, DELTA, size)
    assert exact <= told <= 1.35 * exact + 0.02  # (P2) is not exact for Gaussians


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return float(np.log(np.sum(p**order * q ** (1.0 - order))) / (order - 1.0))


def test_the_chain_of_three_laws() -> None:
    """D(P || R) <= (a + b)^2 alpha, with a^2, b^2 the least zCDP of the two steps: random laws of five outcomes.

    The constants are taken at orders from 1.01 to 101 alone, so that the bound is, if anything, too small.
    """
    stream = np.random.default_rng(7)
    tightest = 0.0
    for spread in (0.05, 0.3, 1.0):
        for _ in range(30):
            shape = (3, 5) if stream.random() < 0.5 else (3, 2)
            p, q, r = (law / law.sum() for law in np.exp(spread * stream.standard_normal(shape)))
            orders = 1.0 + LAMBDAS[(LAMBDAS > 1e-2) & (LAMBDAS < 1e2)]
            first, second, both = (
                max(renyi(one, other, alpha) / alpha for alpha in orders) for one, other in ((p, q), (q, r), (p, r))
            )
            bound = (math.sqrt(max(first, 0.0)) + math.sqrt(max(second, 0.0))) ** 2
            assert both <= bound * (1.0 + 1e-9)
            tightest = max(tightest, both / bound)
    assert tightest > 0.9, "some chain comes near the bound, so that a smaller one would fail"
