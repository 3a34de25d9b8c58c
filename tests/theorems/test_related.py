"""Figures of docs/references.md: Theorem 3 beside Gaussian noise and the bound of Redberg, Koskela, Wang 2023."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from admmnet.privacy import proven
from admmnet.privacy.conversion import ORDERS, epsilon
from admmnet.privacy.events import ObjectivePerturbation
from admmnet.types import Vector

DELTA, RECORDS, G, CURVATURE = 1e-4, 1000, 1.0, 0.25
CASES = [(30, 0.0009, 0.005, (0.80, 0.81, 0.80, 1.68)), (1, 0.03, 0.2, (0.84, 1.12, 1.12, 1.11))]


def theorem_3(rho0: float, kappa: float, *, logistic: bool) -> Vector:
    """Curve that the ledger books for a release with these rho0 and kappa."""
    sensitivity = 2.0 * G / RECORDS
    sigma, convexity = sensitivity / math.sqrt(2.0 * rho0), CURVATURE / (RECORDS * kappa)
    return proven.cost(
        ObjectivePerturbation(sensitivity, sigma, G, CURVATURE, convexity, RECORDS, False, logistic)
    ).curve


def redberg(rho0: float, kappa: float) -> Vector:
    """-ln(1 - kappa) + s^2/2 + ln E exp(lam |X|) / lam for X ~ N(0, s^2), s^2 = 2 rho0."""
    lam, s = ORDERS - 1.0, math.sqrt(2.0 * rho0)
    moment = math.log(2.0) + 0.5 * (lam * s) ** 2 + log_ndtr(lam * s)
    return np.asarray(-math.log1p(-kappa) + rho0 + moment / lam)


@pytest.mark.parametrize(("releases", "rho0", "kappa", "figures"), CASES)
def test_the_figures_of_the_page(releases: int, rho0: float, kappa: float, figures: tuple[float, ...]) -> None:
    """Of Gaussian noise alone, of Theorem 3, of Theorem 3 with (L), and of the other bound."""
    linear, plain, logistic = rho0 * ORDERS, *(theorem_3(rho0, kappa, logistic=own) for own in (False, True))
    found = [epsilon(releases * curve, DELTA) for curve in (linear, plain, logistic, redberg(rho0, kappa))]
    assert found == pytest.approx(figures, abs=5e-3)
