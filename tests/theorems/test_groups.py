"""Theorem 17: several records of one person cost K^2 rho, at one agent or over several."""

from __future__ import annotations

from typing import get_args

import pytest

from admmnet.privacy import proven
from admmnet.privacy.conversion import ORDERS, gaussian_epsilon, group_epsilon
from admmnet.privacy.events import Sampling, SubsampledGaussian

DELTA = 1e-5


@pytest.mark.parametrize("sampling", get_args(Sampling))
def test_rho_of_sampled_steps_holds_at_every_order(sampling: Sampling) -> None:
    """What the theorem rests on, as `test_proven.py` has it of all other events: the curve is below rho alpha."""
    cost = proven.cost(SubsampledGaussian(2.0, 0.01, 100, sampling))
    assert (cost.curve <= cost.rho * ORDERS * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_gaussian_noise_reaches_it(size: int) -> None:
    """K records of one agent move a sum by K times as much: the exact divergence is K^2 rho alpha."""
    mu = 0.05
    exact = gaussian_epsilon(size * mu, DELTA)
    told = group_epsilon(0.5 * mu * mu, DELTA, size)
    assert exact <= told <= 1.35 * exact + 0.02  # (P2) is not exact for Gaussians
