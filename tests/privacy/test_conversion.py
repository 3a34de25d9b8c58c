"""Conversions between Renyi curves, zCDP and (epsilon, delta): oracles, inverses, monotony."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from admmnet.privacy.conversion import (
    LAMBDAS,
    ORDERS,
    allowance,
    best_order,
    epsilon,
    epsilon_at_orders,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    group_epsilon,
    loose_epsilon,
    loose_rho,
)

RHOS = np.geomspace(1e-8, 1e3, 34).tolist()
DELTAS = pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.1])


def continuous(rho: float, delta: float) -> float:
    """Proposition 12 of Canonne, Kamath, Steinke (2020) over all orders, in the logarithm of alpha - 1."""

    def at(u: float) -> float:
        lam = math.exp(u)
        return rho * (1.0 + lam) + u - math.log1p(lam) - (math.log1p(lam) + math.log(delta)) / lam

    start = 0.5 * math.log(math.log(1.0 / delta) / rho)  # the optimum of the leading terms
    found = minimize_scalar(at, bounds=(start - 4.0, start + 4.0), method="bounded", options={"xatol": 1e-9})
    return max(float(found.fun), 0.0)


def test_the_grid_of_orders_and_its_ends() -> None:
    assert epsilon(np.zeros_like(ORDERS), 1e-4) == 0.0
    assert epsilon(np.full_like(ORDERS, np.inf), 1e-4) == math.inf
    assert ORDERS.shape == LAMBDAS.shape == (601,)
    assert np.all(np.diff(LAMBDAS) > 0)
    assert (LAMBDAS[0], LAMBDAS[-1]) == pytest.approx((1e-3, 1e7), rel=1e-12, abs=0.0)


@DELTAS
def test_the_grid_of_orders_is_fine_and_wide_enough(delta: float) -> None:
    for rho in RHOS:
        best, found = continuous(rho, delta), epsilon(rho * ORDERS, delta)
        # near 0 the epsilon is a difference of two larger numbers, of which 0.05% is more than 0.05% of it
        assert best - 1e-12 <= found <= best + max(0.0005 * best, 6e-5 if best < 0.1 else 0.0), rho
        assert epsilon_at_orders(rho * ORDERS, delta)[best_order(rho * ORDERS, delta)] == found
        assert group_epsilon(rho, delta, 3) == epsilon(9.0 * rho * ORDERS, delta)


@DELTAS
def test_conversions_are_the_inverse_of_each_other(delta: float) -> None:
    for target in (0.01, 1.0, 10.0):
        curve = np.array([allowance(order, target, delta) for order in range(ORDERS.size)])
        np.testing.assert_allclose(epsilon_at_orders(curve, delta), target, atol=1e-11)
        assert np.all(epsilon_at_orders(curve + 1e-9, delta) > target)
        rho = loose_rho(target, delta)
        assert rho == pytest.approx(target**2 / (4.0 * math.log(1.0 / delta)), rel=1e-14, abs=0.0)
        # the published formula reads back rho more than the target (1.0271 for 1 at delta = 1e-4)
        assert loose_epsilon(rho, delta) == pytest.approx(target + rho, rel=1e-12, abs=0.0)
    assert loose_epsilon(0.0, delta) == 0.0


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 3.0, 10.0])
def test_exact_gaussian_delta_agrees_with_the_normal_distribution(mu: float) -> None:
    for eps in (0.0, 0.01, 0.5, 1.0, 5.0, 20.0):
        second = math.exp(eps + float(norm.logcdf(-mu / 2.0 - eps / mu)))
        right = float(norm.cdf(mu / 2.0 - eps / mu)) - second
        assert gaussian_delta(mu, eps) == pytest.approx(right, rel=1e-7, abs=1e-15)
    assert 0.0 <= gaussian_delta(mu, 900.0 * mu) < 1e-300, "nothing overflows where erfc has no number"


@DELTAS
def test_exact_gaussian_conversions_are_inverse_and_below_the_renyi_bound(delta: float) -> None:
    for mu in np.geomspace(0.01, 30.0, 20).tolist():
        exact = gaussian_epsilon(mu, delta)
        assert exact <= epsilon(0.5 * mu * mu * ORDERS, delta) + 1e-12
        assert gaussian_delta(mu, exact) <= delta
        if exact > 1e-3:
            assert gaussian_delta(mu, exact * (1.0 - 1e-6)) > delta
            assert gaussian_mu(exact, delta) == pytest.approx(mu, rel=1e-6, abs=0.0)
            assert gaussian_delta(gaussian_mu(exact, delta), exact) <= delta
