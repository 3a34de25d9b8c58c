"""The curve of pure epsilon, docs/proofs.md Theorem 2, against randomised response in 60 digits."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext

import numpy as np
import pytest

from admmnet.privacy.conversion import LAMBDAS, ORDERS
from admmnet.privacy.events import AboveThreshold, GammaNorm, Laplace
from admmnet.privacy.proven import cost, gamma_norm_epsilon, pure_rho
from admmnet.types import Vector

ROUNDING = 2e-14
"""Relative; an exponent of 700 has lost that much before it is exponentiated."""
EPSILONS = [1e-12, 1e-9, 3e-7, 1e-5, 1e-3, 0.02, 0.3, 1.0, 2.7, 8.0, 25.0, 60.0, 100.0]


def curve(epsilon: float) -> Vector:
    return cost(Laplace(epsilon, 1.0)).curve


def randomised_response(epsilon: float, lam: float) -> Decimal:
    """D_alpha by its definition: one bit, told rightly with probability e^epsilon / (1 + e^epsilon)."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, MAX_EMAX, MIN_EMIN
        odds, order = Decimal(epsilon).exp(), Decimal(lam)
        right, wrong = odds / (1 + odds), 1 / (1 + odds)
        mean = right * (right / wrong) ** order + wrong * (wrong / right) ** order
        return mean.ln() / order


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_it_is_the_divergence_of_randomised_response(epsilon: float) -> None:
    rho, found = pure_rho(epsilon), curve(epsilon)
    apart = []
    for lam, booked in zip(LAMBDAS.tolist(), found.tolist(), strict=True):
        exact = randomised_response(epsilon, lam)
        apart.append(float(Decimal(booked) / exact - 1))
    # never below; above it only where an order times epsilon leaves the range of exp
    assert min(apart) > -ROUNDING
    assert max(np.array(apart)[epsilon * ORDERS < 699.0]) < ROUNDING
    assert max(apart) < 1e-3
    assert np.all(found <= np.minimum(rho * ORDERS, epsilon))


def test_no_positive_epsilon_is_free() -> None:
    for epsilon in (5e-324, 1e-310, 1e-200, 1e-160, 1e-100, 1e-20):
        assert np.all(curve(epsilon) > 0.0)
        assert cost(Laplace(epsilon, 1.0)).rho > 0.0
        assert np.all(curve(epsilon) <= np.maximum(epsilon, 5e-324))


def test_no_epsilon_is_too_large_for_numbers() -> None:
    for epsilon in (709.0, 1e3, 1e10, 1e300):
        found = curve(epsilon)
        assert np.all(np.isfinite(found))
        assert np.all(found <= epsilon)
        # near order 1 it is epsilon tanh(epsilon/2) times the order, and epsilon soon
        np.testing.assert_allclose(found, epsilon, rtol=1e-2 if epsilon < 1e3 else 1e-12)


def test_every_pure_event_has_it() -> None:
    norm = GammaNorm(2e-3, 400.0, 105, 0.25, 1.0, 1000)
    epsilon = gamma_norm_epsilon(norm)
    assert epsilon == pytest.approx(0.8 + math.log1p(2.5e-4), rel=1e-15)
    for event in (norm, AboveThreshold(1.0, 0.25 * epsilon, 0.75 * epsilon)):
        np.testing.assert_allclose(cost(event).curve, curve(epsilon), rtol=1e-14)
        assert cost(event).rho == pytest.approx(epsilon * math.tanh(0.5 * epsilon), rel=1e-14)
    bonus = GammaNorm(2e-3, 400.0, 105, 0.25, 1.0, 1000, logistic=True)
    np.testing.assert_allclose(cost(bonus).curve, curve(0.8), rtol=1e-14)
    narrow = GammaNorm(2e-3, 400.0, 105, 0.25, 2.4e-3, 1000, logistic=True)  # 8 kappa = 0.83
    assert gamma_norm_epsilon(narrow) == pytest.approx(2.0 / 2.4, rel=1e-15)
    narrower = GammaNorm(2e-3, 400.0, 105, 0.25, 2.2e-3, 1000, logistic=True)  # 8 kappa = 0.91
    assert gamma_norm_epsilon(narrower) == pytest.approx(0.8 + math.log1p(0.25 / 2.2), rel=1e-15)
    wide = GammaNorm(2e-3, 400.0, 105, 0.25, 2.6e-3, 1000, logistic=True)  # 8 kappa = 0.77
    assert gamma_norm_epsilon(wide) == 400.0 * 2e-3
