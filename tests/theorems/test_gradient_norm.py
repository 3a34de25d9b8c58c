"""Theorem 22: what rounding and one record can move a gradient's norm by."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet.holder.answers import Known
from admmnet.holder.measurements import GradientNorm, HeldNorm, PublishedComparison
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.solvers.accurate import accurate_gradient
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import LossFacts, gradient_error, norm_radius, pull_radius

LOSSES: tuple[Loss, ...] = (Logistic(), SmoothedHinge(1.0), Huber(0.2))


def computed(X: Any, y: Any, loss: Loss, point: Any, pull: Any = None) -> float:
    """As the measurement computes it."""
    secret: Any = SimpleNamespace(solver=LocalSolver(X, y, loss))
    return GradientNorm(point, pull, 1.0, 0.0).norm(secret)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_record_moves_the_norm_by_what_is_booked(loss: Loss) -> None:
    """Attained by a steep loss, to the slack for rounding; random and extreme records stay below."""
    n, d, rng = 30, 4, np.random.default_rng(1)
    booked = GradientNorm(np.zeros(d), None, 1.0, 0.0).sensitivity(Known(n, d, loss))
    assert booked == pytest.approx(2.0 * loss.lipschitz() / n * (1.0 + 2.0 * ROUNDING_SHARE), rel=2e-9)
    most = 0.0
    for trial in range(300):
        X = rng.standard_normal((n, d)) if trial % 3 else np.tile(np.eye(d)[0], (n, 1))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.ones(n)
        point = -X[0] * 10.0 ** rng.uniform(-1.0, 3.0) if trial % 2 else np.zeros(d)
        other, labels = X.copy(), y.copy()
        other[0] *= 1.0 if trial % 4 else -1.0
        labels[0] = -1.0 if trial % 4 else 1.0
        most = max(most, abs(computed(X, y, loss, point) - computed(other, labels, loss, point)))
    assert most <= booked
    # a hinge and Huber's loss have two signs of full slope: at zero, resp. anywhere; half is what logistic slopes reach
    assert most >= (0.49 if isinstance(loss, Logistic | SmoothedHinge) else 0.99) * booked


def test_a_tie_is_a_yes() -> None:
    """Eqs. (15), (23), where no noise is drawn."""
    known, nothing = Known(3, 3, Logistic()), np.zeros(3)
    noise: Any = {"gaussian": lambda *_: np.zeros(3), "laplace": lambda *_: 0.0, "held": {}}
    secret: Any = SimpleNamespace(solver=LocalSolver(np.eye(3), np.ones(3), Logistic()), **noise)
    norm, own = GradientNorm(nothing, None, 1.0, 0.0).norm(secret), (nothing, 0.5, 1e-8, 1.0, nothing, 0.1, 2.0)
    comparison = PublishedComparison(*own, 0.0, 1.0, 1.0, 0.1)
    theta = secret.solver.solve(nothing, 0.5, 1e-8).theta
    fall = comparison._clipped(secret, nothing) - comparison._clipped(secret, theta)
    for level, yes in ((1.0, True), (1.0 + 2**-50, False)):
        assert GradientNorm(nothing, None, 1.0, level * norm).carry_out(secret, known) is yes
        assert HeldNorm(nothing, None, level * norm, 0.5, 0.5).carry_out(secret, known) is yes
        assert replace(comparison, threshold=level * fall).carry_out(secret, known) is yes


@pytest.mark.parametrize(("n", "d"), [(50, 3), (3000, 60)])
def test_rounding_stays_below_its_bound(n: int, d: int) -> None:
    """With a public vector added, each has half of the share."""
    rng, loss = np.random.default_rng(n), Logistic()
    facts, error = LossFacts.of(n, d, loss), ROUNDING_SHARE * 2.0 / n
    radius = norm_radius(facts, error)
    room = error - gradient_error(facts, radius)
    assert room >= 2.0**-53 * (d + 4), "the norm's own rounding has its share"
    known, far = Known(n, d, loss), np.full(d, 1e15)
    pulled = GradientNorm(far, far, 1.0, 0.0).within(known)
    assert pulled.pull is not None
    assert np.linalg.norm(pulled.here) == pytest.approx(norm_radius(facts, 0.5 * error))
    assert np.linalg.norm(pulled.pull) == pytest.approx(pull_radius(facts, 0.5 * error))
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    for rows in (X, np.repeat(X[:1], n, axis=0)):
        y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        for size in (1.0, radius):
            for point, pull in ((rows[0] * size, None), (pulled.here, pulled.pull)):
                added = np.zeros(d) if pull is None else pull
                exact, unsure = accurate_gradient(rows, y, loss, added, 0.0, point, np.zeros(d), row_norm=1.0, rows=n)
                off = computed(rows, y, loss, point, pull) - float(np.linalg.norm(exact.astype(np.longdouble)))
                assert abs(off) <= error + unsure
