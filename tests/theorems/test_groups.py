"""Theorem 17: several records of one person cost K^2 rho, at one agent or over several."""

from __future__ import annotations

import pytest

from admmnet.privacy import proven
from admmnet.privacy.conversion import ORDERS, gaussian_epsilon, group_epsilon
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
    """What the theorem rests on: the curve is below rho alpha wherever it is known."""
    cost = proven.cost(event)
    assert (cost.curve <= cost.rho * ORDERS * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_gaussian_noise_reaches_it(size: int) -> None:
    """K records of one agent move a sum by K times as much: the exact divergence is K^2 rho alpha."""
    mu = 0.05
    exact = gaussian_epsilon(size * mu, DELTA)
    told = group_epsilon(0.5 * mu * mu, DELTA, size)
    assert exact <= told <= 1.35 * exact + 0.02  # (P2) is not exact for Gaussians
