"""The proven accountant against exact divergences and against its own theorems in 60 digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext

import numpy as np
import pytest

from admmnet.privacy.conversion import LAMBDAS, ORDERS
from admmnet.privacy.events import (
    AboveThreshold,
    DiscreteGaussian,
    GammaNorm,
    GammaNormVector,
    Gaussian,
    Laplace,
    NoRecords,
    ObjectivePerturbation,
    SubsampledGaussian,
    Unprotected,
)
from admmnet.privacy.proven import LOGISTIC, cost, gamma_norm_epsilon, gaussian_rho, pure_mu, stretch
from admmnet.privacy.proven import pure_rho as rho_of
from admmnet.types import Vector

KAPPAS = np.geomspace(1e-8, 1e3, 45).tolist()


def objective(kappa: float, rho0: float, n: int = 1000) -> ObjectivePerturbation:
    """Event with curvature/(records convexity) = kappa and Delta^2/(2 sigma^2) = rho0."""
    delta = 2.0 / n
    return ObjectivePerturbation(delta, delta / math.sqrt(2.0 * rho0), 1.0, 0.25, 0.25 / (n * kappa), n)


@pytest.mark.parametrize("sigma", [1e-3, 1.0, 1e6])
def test_gaussian_curve_is_exact(sigma: float) -> None:
    for event in (Gaussian(0.25, sigma), DiscreteGaussian(0.25, sigma, 2.0**-40, 1)):
        rho, curve, *_ = cost(event)
        assert rho == gaussian_rho(0.25, sigma) == pytest.approx(0.25**2 / (2.0 * sigma**2), rel=1e-14, abs=0.0)
        assert cost(event).mu_squared == 2.0 * rho
        np.testing.assert_allclose(curve, ORDERS * 0.25**2 / (2.0 * sigma**2), rtol=1e-14)
    parts = DiscreteGaussian(0.25, sigma, 2.0**-40, 1, 5, 2)
    assert cost(parts).rho == math.nextafter(rho, math.inf), "(P12): more than several parts add"
    assert parts.alone.sigma == pytest.approx(sigma / math.sqrt(3.0))


@pytest.mark.parametrize("kappa", [1e-8, 1e-4, 0.01, 0.3, 1.0, 30.0, 1e3])
def test_objective_perturbation_curve_is_the_lesser_of_both_bounds(kappa: float) -> None:
    event = objective(kappa, 0.013)
    curve = cost(event).curve
    with localcontext() as context:
        context.prec = 60
        k = Decimal(event.curvature) / (Decimal(event.records) * Decimal(event.convexity))
        rho0 = (Decimal(event.sensitivity) / Decimal(event.sigma)) ** 2 / 2
        seen = set()
        for index in range(0, ORDERS.size, 7):
            lam = Decimal(float(LAMBDAS[index]))
            alpha = lam + 1
            bounds = {"A": alpha * rho0 + (1 + k).ln() + Decimal(4).ln() / lam}
            if lam * k < Decimal("0.999"):
                bounds["R"] = alpha * rho0 - (1 - alpha * lam * k * k / (1 + k)).ln() / lam
            name = min(bounds, key=lambda which: bounds[which])
            seen.add(name)
            assert float(curve[index]) == pytest.approx(float(bounds[name]), rel=1e-11, abs=0.0), (name, lam)
    assert "A" in seen or kappa < 1e-7
    assert "R" in seen or kappa > 100.0


@pytest.mark.parametrize("rho0", [1e-12, 1e-4, 1.0])
def test_the_ledgers_rho_covers_the_curve(rho0: float) -> None:
    nearest = 0.0
    for kappa in KAPPAS:
        event = objective(kappa, rho0)
        rho, curve, *_ = cost(event)
        k = event.curvature / (event.records * event.convexity)
        assert rho == pytest.approx(event.sensitivity**2 / (2.0 * event.sigma**2) + 2.6 * k * k, rel=1e-14, abs=0.0)
        assert np.all(curve <= ORDERS * rho * (1.0 + 1e-12)), kappa
        nearest = max(nearest, float(np.max((curve - ORDERS * rho0) / ORDERS)) / (2.6 * k * k))
    # the constant is not generous: 2.5 would not do
    assert nearest > 2.5 / 2.6 or rho0 > 1e-6


def test_logistic_events_follow_the_gaussian_curve_where_they_may() -> None:
    u = np.linspace(0.0, 1.0, 801)[1:-1]
    s, t = u[:, None], u[None, :]
    bumps = np.square(s * (1.0 - s)) + np.square(t * (1.0 - t))
    supremum = float(np.max(32.0 * bumps / (4.0 - np.square(s + t))))
    assert LOGISTIC - 5e-4 < supremum <= LOGISTIC
    for kappa in KAPPAS:
        plain = objective(kappa, 0.01)
        curve, bound = cost(replace(plain, logistic=True)).curve, cost(plain).curve
        rho0, left = 0.5 * (plain.sensitivity / plain.sigma) ** 2, 1.0 - LAMBDAS * kappa
        inside = left > 1e-3
        own = np.maximum(rho0, LOGISTIC * kappa**2 / np.where(inside, left, 1.0)) * ORDERS
        np.testing.assert_allclose(curve, np.where(inside, np.minimum(own, bound), bound), rtol=1e-9)
        assert np.all(curve <= bound)
    assert cost(replace(plain, logistic=True)).rho == cost(plain).rho


@pytest.mark.parametrize(("logistic", "most"), [(True, 1.5), (False, 0.8)])
def test_theorem_26_stretches_mu_within_its_range_and_for_slopes_of_one_sign(logistic: bool, most: float) -> None:
    for K in (0.05, 0.17, 0.25, 0.5, 0.79, 0.8, 1.2, 1.5, 1.6):
        event, curvature = ObjectivePerturbation(2e-3, 0.02, 1.0, 0.25, 1.0, 1000, lam="quadratic"), 0.25
        m = 0.02 * curvature / K * (4.0 if logistic else 1.0)  # K = 2 sigma c1 / (Delta n m), four times if logistic
        event = replace(event, convexity=m, logistic=logistic)
        if most * (1.0 + 1e-9) < K:
            assert math.isinf(stretch(event))
            assert math.isinf(cost(event).mu_squared)
        elif most > K:
            lam = 1.0 + 0.11 * max(K, 0.17) ** 2 + 0.36 * max(0.0, K - 0.3) ** 2
            lam = 1.0 + 0.3 * max(0.0, K - 0.79) ** 2 if logistic else lam
            assert lam < stretch(event) == pytest.approx(lam, rel=1e-11)
            assert cost(event).mu_squared == pytest.approx((lam * 0.1) ** 2, rel=1e-10)
            half, other = 0.5 * cost(event).mu_squared, cost(replace(event, lam=None))
            assert cost(event).rho == min(half, other.rho)
            np.testing.assert_array_equal(cost(event).curve, np.minimum(ORDERS * half, other.curve))
        assert math.isinf(cost(replace(event, lam=None)).mu_squared)
    for none in (Unprotected(), SubsampledGaussian(2.0, 0.1, 20, "fixed")):
        assert math.isinf(cost(none).mu_squared)
    assert cost(NoRecords()).mu_squared == 0.0


# pure epsilon, Theorem 2

ROUNDING = 2e-14
"""Relative; an exponent of 700 has lost that much before it is exponentiated."""


def curve_of(epsilon: float) -> Vector:
    return cost(Laplace(epsilon, 1.0)).curve


def randomised_response(epsilon: float, orders: Iterable[float]) -> list[Decimal]:
    """D_alpha by its definition: one bit, told rightly with probability e^epsilon / (1 + e^epsilon)."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, MAX_EMAX, MIN_EMIN
        odds = Decimal(epsilon).exp()
        right, wrong = odds / (1 + odds), 1 / (1 + odds)
        up, down = (right / wrong).ln(), (wrong / right).ln()
        return [(right * (up * Decimal(x)).exp() + wrong * (down * Decimal(x)).exp()).ln() / Decimal(x) for x in orders]


@pytest.mark.parametrize("epsilon", [1e-12, 3e-7, 1e-3, 0.3, 2.7, 25.0, 100.0])
def test_a_pure_curve_is_the_divergence_of_randomised_response(epsilon: float) -> None:
    rho, found = rho_of(epsilon), curve_of(epsilon)
    exact = randomised_response(epsilon, LAMBDAS[::3].tolist())
    apart = np.array([float(Decimal(own) / right - 1) for own, right in zip(found[::3].tolist(), exact, strict=True)])
    # never below; above it only where an order times epsilon leaves the range of exp
    assert apart.min() > -ROUNDING
    assert apart[epsilon * ORDERS[::3] < 699.0].max() < ROUNDING
    assert apart.max() < 1e-3
    assert np.all(found <= np.minimum(rho * ORDERS, epsilon))


def test_no_positive_epsilon_is_free_and_none_too_large_for_numbers() -> None:
    for epsilon in (5e-324, 1e-310, 1e-160, 1e-20):
        assert np.all(curve_of(epsilon) > 0.0)
        assert cost(Laplace(epsilon, 1.0)).rho > 0.0
        assert np.all(curve_of(epsilon) <= np.maximum(epsilon, 5e-324))
    for epsilon in (709.0, 1e3, 1e300):
        assert np.all(curve_of(epsilon) <= epsilon)
        # near order 1 it is epsilon tanh(epsilon/2) times the order, and epsilon soon
        np.testing.assert_allclose(curve_of(epsilon), epsilon, rtol=1e-2 if epsilon < 1e3 else 1e-12)


def test_every_pure_event_has_it() -> None:
    norm = GammaNorm(2e-3, 400.0, 105, 0.25, 1.0, 1000)
    epsilon = gamma_norm_epsilon(norm)
    assert epsilon == pytest.approx(0.8 + math.log1p(2.5e-4), rel=1e-15)
    gate = AboveThreshold(1.0, 0.25 * epsilon, 0.75 * epsilon)
    for event in (norm, gate, GammaNormVector(2.0, epsilon / 2, 9), Laplace(epsilon, 1.0)):
        np.testing.assert_allclose(cost(event).curve, curve_of(epsilon), rtol=1e-14)
        assert cost(event).rho == pytest.approx(epsilon * math.tanh(0.5 * epsilon), rel=1e-14)
        assert cost(event).mu_squared == pytest.approx(pure_mu(epsilon) ** 2, rel=1e-12)
    bonus = replace(norm, logistic=True)
    np.testing.assert_allclose(cost(bonus).curve, curve_of(0.8), rtol=1e-14)
    # 8 kappa = 0.83, which is less than the slope 0.8 and ln(1 + kappa); 0.91, which is more; 0.77 below the slope
    for convexity, right in ((2.4e-3, 2.0 / 2.4), (2.2e-3, 0.8 + math.log1p(0.25 / 2.2)), (2.6e-3, 0.8)):
        assert gamma_norm_epsilon(replace(bonus, convexity=convexity)) == pytest.approx(right, rel=1e-15)


def test_unprotected_releases_cost_everything_and_shared_curves_cannot_be_written() -> None:
    rho, curve, *_ = cost(Unprotected())
    assert rho == math.inf
    assert np.all(np.isinf(curve))
    for event in (Gaussian(1.0, 2.0), Laplace(1.0, 2.0), objective(0.1, 0.1), Unprotected()):
        with pytest.raises(ValueError, match="read-only"):
            cost(event).curve[0] = 0.0
