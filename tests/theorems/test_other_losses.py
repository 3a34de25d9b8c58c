"""docs/methods.md against exact Renyi divergences: Theorem 3 for losses whose curvature jumps.

Divergences are quadratures in one dimension, broken where curvatures jump, with an estimate of their error that
is asserted to be below 1e-6 of the bound; a violation counts from there. Seeded, so nothing
fails by chance. ADMMNET_TEST_LARGE=1 draws 20 times as many models.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

from admmnet.privacy.conversion import LAMBDAS, ORDERS
from admmnet.solvers.losses import get_loss

from .quadrature import SCALE, TOLERANCE, Array, Box, Models, Records, Trial

KINDS = ("smoothed-hinge", "huber")
every_kind = pytest.mark.parametrize("kind", KINDS)
PIECES = np.linspace(-1.0, 1.0, 17)


@dataclass(frozen=True)
class Kinked(Records):
    """Records whose slope is mid + half clip((score - centre) steep / half, -1, 1): curvature steep or 0."""

    def rows(self, index: Any) -> Kinked:
        return Kinked(*(getattr(self, field.name)[index] for field in fields(self)))

    def _at(self, score: Array) -> Array:
        return np.asarray((score - self.centre) * self._rate())

    def slope(self, score: Array) -> Array:
        return np.asarray(self.mid + self.half * np.clip(self._at(score), -1.0, 1.0))

    def bend(self, score: Array) -> Array:
        return np.where(np.abs(self._at(score)) < 1.0, self.half * self._rate(), 0.0)

    def marks(self) -> Array:
        """Both ends of the curved zone and points between them, shape (models, 17)."""
        return np.asarray(self.centre[:, None] + PIECES / np.maximum(self._rate(), 1e-9)[:, None])


def of_loss(kind: str, width: Array, x: Array, y: Array) -> Kinked:
    """Records x with labels y of the package's losses; x is not 0."""
    if kind == "huber":
        return Kinked(0.0 * x, width * np.abs(x), y / x, x * x)
    return Kinked(-0.5 * y * x, 0.5 * np.abs(x), y / x, x * x / (2.0 * width))


def constants(kind: str, width: Array) -> tuple[Array, Array]:
    """G and c1 as the package states them."""
    losses = [get_loss(kind, float(w)) for w in width]
    return (np.array([loss.lipschitz() for loss in losses]), np.array([loss.curvature_bound() for loss in losses]))


class Search(Box):
    """Trials as points of a box, so that a search can move them."""

    # log10 of width, Delta/sigma and kappa; order; x and label of three records; weight of the third
    step = np.array([0.2, 0.2, 0.2, 10.0, 0.1, 0.3, 0.1, 0.3, 0.1, 0.3, 0.3])

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.rng = np.random.default_rng([seed, KINDS.index(kind)])

    def draw(self, count: int) -> Array:
        rng = self.rng
        columns = [rng.uniform(*ends, count) for ends in ((-2.0, 0.0), (-2.0, 0.7), (-3.0, 2.5), (0.0, 340.0))]
        for _ in range(3):
            columns += [rng.uniform(0.05, 1.3, count), rng.uniform(-1.0, 1.0, count)]  # a fifth has |x| = 1
        return np.column_stack([*columns, rng.uniform(-1.0, 1.0, count)])

    def inside(self, points: Array) -> Array:
        """Points of the box: widths 1e-2 to 1, and divergences of a size that can be integrated."""
        lam_ratio = 10.0 ** points[:, 1] * LAMBDAS[np.clip(points[:, 3], 0, 600).astype(int)]
        box = (lam_ratio < 20.0) & (points[:, 0] >= -2.0) & (points[:, 0] <= 0.0)
        box &= (np.abs(points[:, 1] + 1.0) < 2.0) & (np.abs(points[:, 2]) < 3.0)
        return np.asarray(box & (points[:, 3] >= 0.0) & (points[:, 3] <= 340.0))

    def trial(self, points: Array) -> Trial:
        width, ratio, kappa = 10.0 ** points[:, :3].T
        G, c1 = constants(self.kind, width)
        n = np.round(10.0 ** (3.0 * np.mod(points[:, 4], 1.0)))
        m, sigma = c1 / (n * kappa), 2.0 * G / (n * ratio)
        records = []
        for at in (4, 6, 8):
            x = np.clip(np.abs(points[:, at]), 0.02, 1.0)
            records.append(of_loss(self.kind, width, x, np.where(points[:, at + 1] < 0.0, -1.0, 1.0)))
        weight = (n - 1.0) * np.clip(points[:, 10], 0.0, 1.0)
        models = Models(n, m, sigma, records[0], records[1], ((weight, records[2]),))
        return Trial(models, G, c1, np.floor(points[:, 3]).astype(int))

    def ratios(self, points: Array) -> Array:
        found, inside = np.zeros(len(points)), self.inside(points)
        found[inside] = self.trial(points[inside]).checked_ratios()
        return found


# the records of these tests are the package's losses, and the quadrature is right about them


@every_kind
@pytest.mark.parametrize("width", [0.01, 0.3, 1.0])
def test_records_are_the_losses(kind: str, width: float) -> None:
    loss, score = get_loss(kind, width), np.linspace(-9.0, 9.0, 4001)
    for x, y in ((1.0, 1.0), (1.0, -1.0), (0.3, 1.0), (-0.7, -1.0), (-0.2, 1.0)):
        one = np.ones(1)
        record, label = of_loss(kind, width * one, x * one, y * one), np.full_like(score, y)
        np.testing.assert_allclose(record.slope(score), x * loss.derivative(x * score, label), atol=1e-12)
        away = np.abs(np.abs(score - record.centre) * record.steep / record.half - 1.0) > 1e-9
        bend = x * x * loss.curvature(x * score, label)
        np.testing.assert_allclose(record.bend(score)[away], bend[away], rtol=1e-12)


# Theorem 3


@every_kind
def test_a_search_for_a_violation_finds_none(kind: str) -> None:
    search = Search(kind, seed=2)
    assert 0.99 < search.climb(search.draw(400 * SCALE), 6) <= 1.0 + TOLERANCE


def one_pair(kind: str, width: float, kappa: float, ratio: float, lam: float, x: Array, y: Array) -> Trial:
    """Record (1, 1) against records (x, y), all with n = 10 and nothing else in the shard."""
    one = np.ones(len(x))
    G, c1 = constants(kind, width * one)
    m, sigma = c1 / (10.0 * kappa), 2.0 * G / (10.0 * ratio)
    first, second = of_loss(kind, width * one, one, one), of_loss(kind, width * one, x, y)
    orders = np.full(len(x), int(np.argmin(np.abs(np.log(LAMBDAS / lam)))))
    return Trial(Models(10.0 * one, m, sigma, first, second), G, c1, orders)


@pytest.mark.parametrize(
    ("kind", "kappa", "ratio", "lam", "centre"),
    [("smoothed-hinge", 0.00312, 0.00531, 0.45, -0.283), ("huber", 0.01142, 0.01941, 0.0126, 0.6116)],
)
def test_the_logistic_bonus_is_not_for_these_losses(
    kind: str, kappa: float, ratio: float, lam: float, centre: float
) -> None:
    """Where (L) would claim alpha rho0, the divergence is above it; a search by hand found these models."""
    trial = one_pair(kind, 0.1, kappa, ratio, lam, np.ones(1), -np.ones(1))
    models, share = trial.models, 1.0 - 1.0 / trial.models.n
    push = -models.m * centre / share  # the rest of the shard: straight losses around the centre
    others = ((models.n * share, Records(push, 0.0 * push, 0.0 * push, 0.0 * push)),)
    trial = replace(trial, models=replace(models, others=others))
    claimed = trial.curve(logistic=True)
    np.testing.assert_allclose(claimed, ORDERS[trial.orders] * 0.5 * ratio**2, rtol=1e-12)
    assert trial.values()[0] > claimed[0] * (1.0 + 5e-5)
    trial.checked_ratios()
