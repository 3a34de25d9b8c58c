"""Theorem 3 of docs/privacy.md against exact Renyi divergences: objective perturbation of GLM losses.

Tolerances: both densities integrate to 1 within 1e-7 of the bound, which is asserted, and a violation counts
from 1e-6 of the bound. ADMMNET_TEST_LARGE=1 searches 20 times as many models.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from admmnet.privacy.conversion import LAMBDAS, ORDERS
from admmnet.privacy.events import ObjectivePerturbation
from admmnet.privacy.proven import cost
from tests.theorems.quadrature import (
    Array,
    Models,
    PlaneRecord,
    Records,
    divergences,
    logistic,
    plane_divergences,
)

G, C1 = 1.0, 0.25
SCALE = 20 if os.environ.get("ADMMNET_TEST_LARGE") else 1
EXACT = 1e-6


def event(n: float, m: float, sigma: float) -> ObjectivePerturbation:
    return ObjectivePerturbation(2.0 * G / n, sigma, G, C1, m, int(n))


def bounds(models: Models, orders: Array) -> tuple[Array, Array]:
    """The curve at one order of the grid for each model, and the ledger's rho there, shapes (models,)."""
    costs = [cost(event(*sizes)) for sizes in zip(*(x.tolist() for x in (models.n, models.m, models.sigma)), strict=True)]
    curve = np.array([found.curve[order] for found, order in zip(costs, orders, strict=True)])
    return curve, np.array([found.rho for found in costs])


def random_records(rng: np.random.Generator, count: int, unit: Array, real: bool) -> Records:
    """Records of gradient at most G and curvature at most C1, centres around 0 by ``unit``."""
    if real:
        return logistic(rng.uniform(-1.0, 1.0, count) ** (1.0 / 3.0) if False else np.sign(rng.normal(size=count)) * rng.beta(2.0, 0.5, count))
    half = G * rng.beta(0.4, 0.8, count)
    mid = (G - half) * rng.choice([-1.0, 1.0, 0.3], count)
    return Records(mid, half, rng.normal(size=count) * 2.0 * unit, C1 * rng.choice([1.0, 1.0, 0.2], count))
