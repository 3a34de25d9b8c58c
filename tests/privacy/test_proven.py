"""The proven accountant against exact divergences and against its own theorems in 60 digits."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest

from admmnet.privacy.conversion import LAMBDAS, ORDERS
from admmnet.privacy.events import Gaussian, Laplace, ObjectivePerturbation, Unprotected
from admmnet.privacy.proven import LOGISTIC, cost, gaussian_rho

KAPPAS = np.geomspace(1e-8, 1e3, 45).tolist()


def objective(kappa: float, rho0: float, n: int = 1000) -> ObjectivePerturbation:
    """Event with curvature/(records convexity) = kappa and Delta^2/(2 sigma^2) = rho0."""
    delta = 2.0 / n
    return ObjectivePerturbation(delta, delta / math.sqrt(2.0 * rho0), 1.0, 0.25, 0.25 / (n * kappa), n)


@pytest.mark.parametrize("sigma", [1e-3, 0.5, 1.0, 4.0, 1e6])
def test_gaussian_curve_is_exact(sigma: float) -> None:
    rho, xi, curve = cost(Gaussian(0.25, sigma))
    assert rho == gaussian_rho(0.25, sigma) == pytest.approx(0.25**2 / (2.0 * sigma**2), rel=1e-14, abs=0.0)
    assert xi == 0.0
    np.testing.assert_allclose(curve, ORDERS * 0.25**2 / (2.0 * sigma**2), rtol=1e-14)


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
        rho, xi, curve = cost(event)
        k = event.curvature / (event.records * event.convexity)
        assert xi == 0.0
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


def test_unprotected_releases_cost_everything() -> None:
    rho, xi, curve = cost(Unprotected())
    assert (rho, xi) == (math.inf, 0.0)
    assert np.all(np.isinf(curve))


@pytest.mark.parametrize("event", [Gaussian(1.0, 2.0), Laplace(1.0, 2.0), objective(0.1, 0.1), Unprotected()])
def test_shared_curves_cannot_be_written(event: Gaussian) -> None:
    with pytest.raises(ValueError, match="read-only"):
        cost(event).curve[0] = 0.0
