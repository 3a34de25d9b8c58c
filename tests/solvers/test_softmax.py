"""The softmax loss: values, gradients and their error against extended precision, constants, mean losses of holders."""

from __future__ import annotations

import math

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import SimulatedHolder
from admmnet.solvers.losses import Squared, get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import LossFacts
from admmnet.solvers.softmax import SOFTMAX

K = 7


def scores(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.asarray(rng.standard_normal((n, K)) * 10.0 ** rng.uniform(-3.0, 2.5, (n, 1)))


def test_values_and_gradients_match_extended_precision() -> None:
    rng = np.random.default_rng(0)
    u, y = scores(rng, 5000), rng.integers(0, K, 5000).astype(float)
    wide = u.astype(np.longdouble)
    rest = wide - wide.max(axis=1, keepdims=True)
    e = np.exp(rest)
    own = np.arange(5000), y.astype(int)
    value = np.log(e.sum(axis=1)) - rest[own]
    p = e / e.sum(axis=1, keepdims=True)
    p[own] -= 1.0
    np.testing.assert_allclose(SOFTMAX.value(u, y), value.astype(float), rtol=1e-13, atol=1e-15)
    off = np.linalg.norm((SOFTMAX.derivative(u, y) - p).astype(float), axis=1)
    assert off.max() <= (2 * K + 16) * 2.0**-53
    assert np.linalg.norm(p.astype(float), axis=1).max() <= math.sqrt(2.0)


def test_the_gradient_moves_by_half_the_scores_at_most_and_nearly_so() -> None:
    rng = np.random.default_rng(2)
    u, y = scores(rng, 20000), np.zeros(20000)
    shift = rng.standard_normal((20000, K)) * 1e-4
    moved = np.linalg.norm(SOFTMAX.derivative(u + shift, y) - SOFTMAX.derivative(u, y), axis=1)
    share = moved / np.linalg.norm(shift, axis=1)
    assert share.max() <= 0.5 * (1.0 + 1e-6)
    two = np.zeros((1, K))
    two[0, 2:] = -800.0  # two classes that are equally likely
    across = 1e-5 * np.array([[1.0, -1.0] + [0.0] * (K - 2)])
    moved = np.linalg.norm(SOFTMAX.derivative(two + across, y[:1]) - SOFTMAX.derivative(two, y[:1]))
    assert moved == pytest.approx(0.5 * np.linalg.norm(across), rel=1e-6)
    assert (SOFTMAX.lipschitz(2.0), SOFTMAX.curvature_bound(2.0)) == (2.0 * math.sqrt(2.0), 2.0)


def test_extreme_scores_raise_no_warning() -> None:
    u = np.array([[750.0, 0.0, -750.0], [-1e5, 0.0, 0.0], [1e308, -1e308, 0.0]])
    with np.errstate(all="raise", under="ignore"):
        for label in range(3):
            assert np.isfinite(SOFTMAX.derivative(u[:2], np.full(2, float(label)))).all()
        assert np.isfinite(SOFTMAX.value(u[:2], np.array([2.0, 0.0]))).all()
    with np.errstate(over="ignore"):  # a difference of 2e308 is none
        assert np.isfinite(SOFTMAX.derivative(u, np.zeros(3))).all()


def test_what_needs_one_score_refuses_it() -> None:
    X, y = np.eye(3), np.zeros(3)
    assert get_loss("softmax") is SOFTMAX
    for needs in (
        lambda: LocalSolver(X, y, SOFTMAX),
        lambda: LossFacts.of(3, 3, SOFTMAX),
        lambda: SOFTMAX.curvature(X, y),
    ):
        with pytest.raises(RequestError, match="take algorithm noisy-gd or ssp"):
            needs()
    with pytest.raises(RequestError, match="the softmax loss has no width"):
        get_loss("softmax", 0.5)


def test_mean_losses_of_classes() -> None:
    rng = np.random.default_rng(3)
    shards = []
    for n in (5, 9):
        X = rng.standard_normal((n, 4))
        shards.append((X / np.linalg.norm(X, axis=1, keepdims=True), rng.integers(0, 3, n).astype(float)))
    holder = SimulatedHolder.of(shards, task="classes", classes=3)
    theta = rng.standard_normal((2, 12))
    hot = np.eye(3)
    for (X, y), own, cross, squared in zip(
        shards, theta, *holder.mean_losses(SOFTMAX, theta), *holder.mean_losses(Squared(), theta), strict=True
    ):
        u = X @ own.reshape(3, 4).T
        p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
        assert cross == pytest.approx(-np.log(p[np.arange(len(y)), y.astype(int)]).mean())
        assert squared == pytest.approx(0.5 * ((u - hot[y.astype(int)]) ** 2).sum(axis=1).mean())
