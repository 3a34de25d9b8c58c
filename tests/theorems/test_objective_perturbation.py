"""Theorem 3 of docs/proofs.md against exact Renyi divergences: objective perturbation of GLM losses.

Every divergence comes with an estimate of its quadrature error, asserted to be below 1e-6 of the bound in one
dimension and 1e-4 in two; a violation counts from there. ADMMNET_TEST_LARGE=1 searches 20 times as many models.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from admmnet.privacy.conversion import LAMBDAS
from admmnet.privacy.events import ObjectivePerturbation
from admmnet.privacy.proven import EventCost, cost

from .quadrature import (
    SCALE,
    TOLERANCE,
    Array,
    Kinked,
    Models,
    PlaneRecord,
    Records,
    Trial,
    divergences,
    logistic,
    plane_divergences,
)

G, C1 = 1.0, 0.25
PLANE_TOLERANCE = 1e-4


def event_cost(n: float, m: float, sigma: float, real: bool = False) -> EventCost:
    """EventCost of the event; ``real`` says that the loss is logistic, so that (L) counts too."""
    return cost(ObjectivePerturbation(2.0 * G / n, sigma, G, C1, m, int(n), logistic=real))


def checked_ratios(models: Models, orders: Array, real: bool = False) -> Array:
    """Divergence over curve of every model, after asserting that neither it nor the ledger's rho is exceeded."""
    one = np.ones(len(orders))
    return Trial(models, G * one, C1 * one, orders.astype(int)).checked_ratios(real)


def nearest(lam: float) -> int:
    return int(np.argmin(np.abs(np.log(LAMBDAS / lam))))


def scaled(kappa: Array, ratio: Array, n: Array) -> tuple[Array, Array]:
    """Convexity m and sigma at which c1/(n m) = kappa and Delta/sigma = ratio."""
    return C1 / (n * kappa), 2.0 * G / (n * ratio)


def straight(slope: Array) -> Records:
    return Records(slope, 0.0 * slope, 0.0 * slope, 0.0 * slope)


def test_quadrature_is_exact_for_gaussians() -> None:
    ratio = np.repeat(np.geomspace(1e-3, 5.0, 9), 5)
    lams = np.tile([0.01, 0.3, 1.0, 3.0, 8.0], 9)
    n = np.full(45, 20.0)
    m, sigma = scaled(np.full(45, 0.1), ratio, n)
    models = Models(n, m, sigma, straight(np.ones(45)), straight(-np.ones(45)))
    value, error = divergences(models, lams)
    exact = (1.0 + lams) * 0.5 * ratio**2
    assert np.all(np.abs(value - exact) <= 1e-9 * exact + 1e-12 / lams)
    assert np.all(error <= 1e-7 * exact + 1e-12 / lams)
    up, left = (PlaneRecord(np.array(z), straight(np.float64(1.0) * np.ones(()))) for z in ([0.0, 1.0], [-0.6, 0.8]))
    found, _ = plane_divergences(20.0, 0.3, 0.05, up, left, [], [0.5, 3.0])
    rho0 = 0.5 * (0.6**2 + 0.2**2) / (20.0 * 0.05) ** 2
    np.testing.assert_allclose(found, np.array([[1.5, 1.5], [4.0, 4.0]]) * rho0, rtol=1e-9)


def test_logistic_regression_on_a_grid() -> None:
    pairs = [(1.0, -1.0), (1.0, 0.0), (1.0, -0.3), (0.0, 1.0), (-0.3, 1.0)]
    grid = product(
        [1.0, 1000.0],  # n
        [1e-3, 0.03, 0.3, 1.0, 4.0, 60.0],  # kappa
        [0.01, 0.1, 0.5, 2.0],  # Delta / sigma
        [nearest(lam) for lam in (0.01, 1.0, 4.0, 100.0)],
        pairs,
    )
    n, kappa, ratio, orders, first, second = np.array([(*x, *pair) for *x, pair in grid]).T
    m, sigma = scaled(kappa, ratio, n)
    others = ((0.5 * (n - 1.0), logistic(0.8 * np.ones_like(n))),)
    models = Models(n, m, sigma, logistic(first), logistic(second), others)
    keep = LAMBDAS[orders.astype(int)] * ratio < 20.0
    ratios = checked_ratios(models.rows(keep), orders[keep], real=True)
    assert len(ratios) > 600
    assert np.max(ratios[kappa[keep] < 1.5]) > 0.2
    assert np.max(ratios) > 0.9


class Search:
    """Models as points of a box, so that a search can move them."""

    step = np.array([0.2, 0.2, 10.0, *[0.2, 0.2, 0.4, 0.2] * 3, 0.3])

    def __init__(self, kind: type[Records]) -> None:
        self.kind, self.rng = kind, np.random.default_rng(20)

    def draw(self, count: int) -> Array:
        """Log Delta/sigma, log kappa, order; (mid, half, centre, steep) of three records; weight of the third."""
        rng = self.rng
        columns = [rng.uniform(-2.5, 0.7, count), rng.uniform(-3.0, 2.5, count), rng.uniform(0, 340, count)]
        for _ in range(3):
            columns += [rng.uniform(-1.5, 1.5, count), rng.uniform(-0.5, 1.0, count)]
            columns += [2.0 * rng.normal(size=count), rng.uniform(0.2, 1.5, count)]
        return np.column_stack([*columns, rng.uniform(-2.0, 1.0, count)])

    def ratios(self, points: Array) -> Array:
        """Checked ratios; 0 for points outside the box."""
        lam_ratio = np.exp(np.log(10.0) * points[:, 0]) * LAMBDAS[np.clip(points[:, 2], 0, 600).astype(int)]
        inside = (lam_ratio < 20.0) & (np.abs(points[:, 0] + 1.0) < 2.0) & (np.abs(points[:, 1]) < 3.0)
        inside &= (points[:, 2] >= 0.0) & (points[:, 2] <= 340.0)
        box = points[inside]
        ratio, kappa, orders = 10.0 ** box[:, 0], 10.0 ** box[:, 1], np.floor(box[:, 2])
        n = np.round(10.0 ** (3.0 * np.mod(box[:, 3], 1.0)))
        m, sigma = scaled(kappa, ratio, n)
        records = []
        for at in (3, 7, 11):
            half = G * np.clip(box[:, at + 1], 0.0, 1.0)
            mid = (G - half) * np.clip(box[:, at], -1.0, 1.0)
            steep = C1 * np.clip(box[:, at + 3], 0.01, 1.0)
            records.append(self.kind(mid, half, box[:, at + 2] * sigma / m, steep))
        weight = (n - 1.0) * np.clip(box[:, 15], 0.0, 1.0)
        found = np.zeros(len(points))
        found[inside] = checked_ratios(Models(n, m, sigma, records[0], records[1], ((weight, records[2]),)), orders)
        return found

    def climb(self, points: Array, turns: int) -> float:
        """Move the tightest points again and again, and return the largest ratio."""
        ratios = self.ratios(points)
        for _ in range(turns):
            best = np.argsort(-ratios)[: 30 * SCALE]
            moved = self.vary(points[best], 4)
            points = np.concatenate((points[best], moved))
            ratios = np.concatenate((ratios[best], self.ratios(moved)))
        return float(np.max(ratios))

    def vary(self, points: Array, count: int) -> Array:
        chosen = np.repeat(points, count, axis=0)
        rng, shape = self.rng, chosen.shape
        size = rng.choice([0.03, 0.2, 1.0], size=(shape[0], 1))
        return np.asarray(chosen + rng.normal(size=shape) * self.step * size * (rng.random(shape) < 0.4))


@pytest.mark.parametrize("kind", [Records, Kinked])
def test_a_search_for_a_violation_finds_none(kind: type[Records]) -> None:
    """Of smooth losses, and of those whose curvature jumps, as the smoothed hinge's and Huber's does."""
    search = Search(kind)
    assert 0.999 < search.climb(search.draw(1200 * SCALE), 8) <= 1.0 + TOLERANCE


def test_a_bend_against_a_straight_line_reaches_the_part_for_large_kappa() -> None:
    # weak noise that hides little: the density at the bend is 1 + kappa times the other one
    kappa = np.array([30.0, 1e3, 1e5])
    n, orders = np.full(3, 10.0), np.full(3, float(nearest(100.0)))
    m, sigma = scaled(kappa, np.full(3, 1e-3), n)
    bend = Records(np.zeros(3), np.full(3, G), np.zeros(3), np.full(3, C1))
    ratios = checked_ratios(Models(n, m, sigma, bend, straight(np.zeros(3))), orders)
    assert np.min(ratios) > 0.95


def test_logistic_pairs_in_the_plane_stay_below_the_gaussian_curve() -> None:
    rng, ratios = np.random.default_rng(8), []
    for _ in range(15 * SCALE):
        # nearly opposite rows, both misclassified, so that the slopes s and s' add up; kappa as large as (L) allows
        angle, order = rng.uniform(0.1, 1.0), nearest(10.0 ** rng.uniform(-1.0, 1.0))
        ratio, n, lam = 10.0 ** rng.uniform(-1.0, 0.0), 50.0, float(LAMBDAS[order])
        rho0 = 0.5 * ratio**2
        slack = 0.5 * lam * rho0 / 1.4428
        kappa = 0.999 * (math.sqrt(slack**2 + rho0 / 1.4428) - slack)
        m, sigma = C1 / (n * kappa), 2.0 * G / (n * ratio)
        first, second = (
            PlaneRecord(
                np.array([math.sin(angle), sign * math.cos(angle)]),
                replace(logistic(np.ones(())), centre=np.full((), rng.uniform(-0.5, 6.0))),
            )
            for sign in (1.0, -1.0)
        )
        found, error = plane_divergences(n, m, sigma, first, second, [], [lam])
        curve = event_cost(n, m, sigma, real=True).curve[order]
        assert curve == pytest.approx((1.0 + lam) * rho0, rel=1e-12), "(L) applies"
        assert event_cost(n, m, sigma).curve[order] > 1.01 * curve, "and is worth having"
        assert error < PLANE_TOLERANCE * curve
        assert np.all(found <= curve * (1.0 + PLANE_TOLERANCE))
        ratios.append(float(np.max(found)) / curve)
    assert max(ratios) > 0.7
