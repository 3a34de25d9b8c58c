"""The table of docs/references.md: Theorem 3 beside Gaussian noise and the bound of Redberg, Koskela, Wang 2023."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr

from admmnet.privacy import proven
from admmnet.privacy.conversion import ORDERS, epsilon
from admmnet.privacy.events import ObjectivePerturbation
from admmnet.types import Vector

PAGE = Path(__file__).resolve().parents[2] / "docs" / "references.md"
DELTA, RECORDS, G, CURVATURE = 1e-4, 1000, 1.0, 0.25
CASES = [(12, 0.0037, 0.002), (30, 0.0009, 0.005), (1, 0.03, 0.2)]


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


@pytest.mark.parametrize(("releases", "rho0", "kappa"), CASES)
def test_the_table_of_the_page(releases: int, rho0: float, kappa: float) -> None:
    curves = [
        rho0 * ORDERS,
        theorem_3(rho0, kappa, logistic=False),
        theorem_3(rho0, kappa, logistic=True),
        redberg(rho0, kappa),
    ]
    figures = [f"{epsilon(releases * curve, DELTA):.2f}" for curve in curves]
    row = f"| {releases} | {rho0:g} | {kappa:g} | {' | '.join(figures)} |"
    assert row in PAGE.read_text()
