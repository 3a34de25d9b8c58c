"""Theorem 18: what rounding and one record can move, the noise, and the point's radius."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import Door, Holder
from admmnet.holder.measurements import NoisyGradient
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.rng import agent_streams
from admmnet.solvers.accurate import accurate_gradient
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import LossFacts, gradient_error, point_radius
from tests.holder.doors import Book, ask

LOSSES: tuple[Loss, ...] = (Logistic(), SmoothedHinge(0.01), Huber(0.2))


def hostile(n: int, d: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Record sets of rows of norm 1 whose sums cancel, repeat or hardly differ."""
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    same = np.repeat(X[:1], n, axis=0)
    return [X, same, same * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None], np.eye(n, d)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("n", "d"), [(50, 3), (3000, 60)])
def test_rounding_stays_below_its_bound(loss: Loss, n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    facts = LossFacts.of(n, d, loss)
    error = ROUNDING_SHARE * 2.0 * facts.G / n
    radius = point_radius(facts, error)
    assert gradient_error(facts, radius) <= error <= gradient_error(facts, radius * 1.01)
    for X in hostile(n, d, rng):
        y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        for size in (1.0, radius):
            theta = X[0] * size
            exact, unsure = accurate_gradient(
                X, y, loss, np.zeros(d), 0.0, theta, np.zeros(d), row_norm=1.0, rows=n
            )
            bound = gradient_error(facts, size) + unsure
            for solver in (LocalSolver(X, y, loss), BlockSolver([(X, y)], loss).members[0]):
                assert np.linalg.norm(solver.data_gradient(theta) - exact) <= bound


def test_one_record_moves_it_by_what_is_booked() -> None:
    """Attained, to the slack for rounding, by a record on the far side of its label."""
    n, d = 40, 4
    X, y = np.tile(np.eye(d)[0], (n, 1)), np.ones(n)
    theta = -np.eye(d)[0] * 60.0
    other = X.copy()
    other[0] *= -1.0
    worlds = [LocalSolver(rows, labels, Logistic()) for rows, labels in ((X, y), (other, y))]
    moved = np.linalg.norm(worlds[0].data_gradient(theta) - worlds[1].data_gradient(theta))
    flipped = LocalSolver(X, np.concatenate([[-1.0], y[1:]]), Logistic())
    most = np.linalg.norm(worlds[0].data_gradient(theta) - flipped.data_gradient(theta))
    booked = 2.0 / n * (1.0 + 1e-9 + 2.0 * ROUNDING_SHARE)
    assert max(moved, most) <= booked
    assert max(moved, most) >= 0.49 * booked  # a logistic slope has one sign: half is all it can do


def test_noise_and_a_far_point() -> None:
    n, d, sigma = 20, 5000, 0.1
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.sign(X[:, 0])
    book = Book()
    ledger: Any = book
    door = Door(Holder(X, y), 0, Logistic(), ledger, agent_streams(0, 5))
    answer = ask(door, NoisyGradient(np.zeros(d), sigma))
    noise = answer.value - LocalSolver(X, y, Logistic()).data_gradient(np.zeros(d))
    # chi-square of 5,000 degrees: six deviations are a false positive in 1e8
    for factor in (0.7, 1.0, 1.3):
        inside = abs(float(np.mean((noise / (factor * sigma)) ** 2)) - 1.0) < 6.0 * math.sqrt(2.0 / d)
        assert inside == (factor == 1.0)
    far = ask(door, NoisyGradient(np.full(d, 1e12), sigma))
    assert np.linalg.norm(far.used.here) == pytest.approx(
        point_radius(LossFacts.of(n, d, Logistic()), ROUNDING_SHARE * 2.0 / n)
    )
    for point in (np.zeros(3), np.full(d, math.nan)):
        with pytest.raises(RequestError):
            ask(door, NoisyGradient(point, sigma))
