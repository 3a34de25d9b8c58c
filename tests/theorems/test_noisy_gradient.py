"""Theorems 18 and 24: what rounding and one record can move, and the point's radius."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from scipy.sparse import csr_array

from admmnet.holder import Door, Holder
from admmnet.holder.answers import Known
from admmnet.holder.measurements import NoisyGradient
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.privacy import subsampled
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.events import Gaussian, SubsampledGaussian
from admmnet.rng import AgentStreams
from admmnet.solvers.accurate import accurate_gradient
from admmnet.solvers.blocks.group import solvers_of
from admmnet.solvers.certificate import WIDE, gradient, is_sparse
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
            exact, unsure = accurate_gradient(X, y, loss, np.zeros(d), 0.0, theta, np.zeros(d), row_norm=1.0, rows=n)
            bound = gradient_error(facts, size) + unsure
            for solver in (LocalSolver(X, y, loss), solvers_of([(X, y)], loss)[0]):
                assert np.linalg.norm(solver.data_gradient(theta) - exact) <= bound


def test_a_far_point_is_scaled_back_to_where_rounding_has_its_share() -> None:
    n, d, book = 20, 50, Book()
    X, y, ledger = np.eye(n, d), np.ones(n), cast(Any, book)
    far = ask(Door(Holder(X, y), 0, Logistic(), ledger, AgentStreams(0, 5)), NoisyGradient(np.full(d, 1e12), 0.1))
    radius = point_radius(LossFacts.of(n, d, Logistic()), ROUNDING_SHARE * 2.0 / n)
    assert np.linalg.norm(far.used.here) == pytest.approx(radius)


@pytest.mark.parametrize("rate", [1.0, 0.5])
@pytest.mark.parametrize(("d", "sparse"), [(60, False), (WIDE, True)])
def test_sparse_rows_of_few_features_are_added_up_in_blocks(
    d: int, sparse: bool, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As (V11) counts them: one sum over all records would be off by n u G, more than its share from 4e5 records on."""
    seen = []

    def noted(X: Any, *rest: Any) -> Any:
        seen.append(is_sparse(X))
        return gradient(X, *rest)

    monkeypatch.setattr("admmnet.holder.measurements.gradient.gradient", noted)
    X, y = csr_array(np.eye(40, d)), np.ones(40)
    book: Any = Book()
    door = Door(Holder(X, y), 0, Logistic(), book, AgentStreams(0, 5))
    ask(door, NoisyGradient(np.ones(d), 0.1, rate=rate))
    assert seen == [sparse]


@pytest.mark.parametrize(("most", "reached"), [(0.3, 0.999), (None, 0.499)])
def test_one_record_moves_it_by_what_is_booked(most: float | None, reached: float) -> None:
    """By labels that disagree at a score of no weight: a clip is attained, and half of a logistic slope's bound."""
    n = 40
    X, y = np.tile(np.eye(3)[0], (n, 1)), np.ones(n)
    (event,) = NoisyGradient(np.zeros(3), 1.0, most).cost(Known(n, 3, Logistic()))
    assert isinstance(event, Gaussian)
    worlds = []
    for labels in (y, np.concatenate([[-1.0], y[1:]])):
        book: Any = Book()
        door = Door(Holder(X, labels), 0, Logistic(), book, AgentStreams(0, 5))
        worlds.append(ask(door, NoisyGradient(np.zeros(3), 1e-9, most)).value)
    moved = float(np.linalg.norm(worlds[0] - worlds[1]))
    assert reached * event.sensitivity < moved < event.sensitivity + 1e-7


@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("shift", [0.3, 2.0])
def test_coins_under_replace_one(q: float, shift: float) -> None:
    """Theorem 24: the profile and the curve of the event bound those of the worst pair, by quadrature; C's do not.

    ``shift`` is C over the noise: with the record drawn, its mean is +shift in one world and -shift in the other.
    """
    z, width = np.linspace(-30.0, 30.0, 60_001, retstep=True)

    def density(mean: float) -> np.ndarray:
        return np.asarray(np.exp(-0.5 * (z - mean) ** 2) / math.sqrt(2.0 * math.pi))

    p, r = ((1.0 - q) * density(0.0) + q * density(mean) for mean in (shift, -shift))
    event = SubsampledGaussian(0.5 / shift, q, 1, "fixed")
    ((bound, _),) = subsampled.profiles(event)
    ((single, _),) = subsampled.profiles(SubsampledGaussian(1.0 / shift, q, 1, "fixed"))
    x = np.array([0.0, 0.01, 0.1, 0.5, 1.0])
    exact = np.array([np.maximum(p - math.exp(e) * r, 0.0).sum() * float(width) for e in x])
    assert (exact <= bound(x) + 1e-9).all()
    assert (exact > single(x) + 1e-9).any(), "half the sensitivity would be too little"
    for order in (2.0, 8.0):
        moment = float(np.exp(order * np.log(p) + (1.0 - order) * np.log(r)).sum() * float(width))
        divergence = math.log(moment) / (order - 1.0)
        booked = float(np.interp(order, ORDERS, subsampled.curve(event)))
        assert divergence <= booked * (1.0 + 1e-6), order
