"""Gradient, Hessian and the rounding margin of the certificate, beside extended precision."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from admmnet.solvers import certificate
from admmnet.solvers.certificate import Compiled, gradient, met_curvature
from admmnet.solvers.losses import Huber, Loss
from admmnet.solvers.radius import (
    LossFacts,
    certain,
    clip,
    clip_rows,
    gamma_norm_tail,
    gaussian_tail,
    least_beta,
    linear_radius,
)
from admmnet.solvers.steps import hessian
from admmnet.types import Matrix, Vector

from .problems import LOSS, every_loss, exact_norm, linear_term, margin_covers, problem


@pytest.mark.parametrize("block", [7, 60, 10_000])
def test_gradient_and_hessian_match_differences(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "_BLOCK", block)  # 1, 8 or all rows at once
    X, y = problem(101, 7)
    theta, h = linear_term(7, 3.0), 1e-5
    steps = h * np.eye(7)

    def mean(point: Vector) -> float:
        return float(LOSS.value(X @ point, y).mean())

    slopes = [(mean(theta + e) - mean(theta - e)) / (2 * h) for e in steps]
    bends = [(gradient(X, y, theta + e, LOSS)[0] - gradient(X, y, theta - e, LOSS)[0]) / (2 * h) for e in steps]
    found, rms = gradient(X, y, theta, LOSS)
    np.testing.assert_allclose(found, slopes, atol=1e-9)
    assert rms == pytest.approx(float(np.sqrt(np.mean(LOSS.derivative(X @ theta, y) ** 2))), rel=1e-12)
    np.testing.assert_allclose(hessian(X, y, theta, LOSS), bends, atol=1e-9)
    np.testing.assert_allclose(hessian(X, y, theta, LOSS, single=True), bends, atol=1e-6)


def test_the_curvature_met_counts_how_slopes_are_evaluated() -> None:
    """Where the loss is straight nothing is met but 18 units of 2^-53 of the slope."""
    met = met_curvature(np.array([[1.0, 0.0]]), -np.ones(1), np.array([9.0, 0.0]), Huber(0.1), 1.0, 9.0)
    assert 18.0 <= met * 2 * 9.0 / 0.1 <= 18.5


def hostile(kind: str, n: int, d: int) -> tuple[Matrix, Vector, Vector]:
    """Rows, labels and a direction that make rounding bad: large terms whose sums are small.

    Errors reach 4 % of the margin, of random rows 0.4 %.
    """
    X, y = problem(n, d)
    direction = linear_term(d, 1.0, seed=3)
    if kind == "scores cancel":  # every score is a difference of large equal terms, and an odd bit
        half = d // 2
        X[:, half : 2 * half] = X[:, :half]
        direction[half : 2 * half] = -direction[:half] * (1.0 + 2.0**-50)
    elif kind == "sums cancel":  # records in pairs that undo each other, far apart
        X[n // 2 : 2 * (n // 2)], y[: n // 2], y[n // 2 :] = X[: n // 2], 1.0, -1.0
    elif kind == "falling sizes":  # small terms are added to large sums
        X *= 2.0 ** -(np.arange(n) % 60.0)[:, None]
    elif kind == "one direction":
        X[:], y[:] = direction * (1.0 - 2.0**-53), 1.0
    elif kind == "signs in turn":
        X[:], y[:] = direction, np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    elif kind == "4 bytes a number":
        X[:] = X.astype(np.float32)
    elif kind == "tiny":
        X *= 1e-300
    X /= max(1.0, float(np.linalg.norm(X, axis=1).max()))
    return X, y, direction


HOSTILE = "scores cancel", "sums cancel", "falling sizes", "one direction", "signs in turn", "4 bytes a number", "tiny"
PLAIN = (1, 1), (50, 200), (3000, 4), (2500, 60)


@every_loss
@pytest.mark.parametrize(
    ("kind", "shape"), [*((kind, (700, 30)) for kind in HOSTILE), *(("plain", shape) for shape in PLAIN)]
)
def test_rounding_margin_covers_records_in_any_order_and_is_small(
    kind: str, shape: tuple[int, int], loss: Loss, kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, direction = hostile(kind, *shape)
    orders = (slice(None), slice(None, None, -1), np.random.default_rng(1).permutation(shape[0]))
    shuffled = [(np.ascontiguousarray(X[order]), y[order].copy()) for order in orders]
    for size in (0.0, 1e-3, 1.0, 1e4):
        theta = size * direction
        exact = exact_norm(X, y, theta, linear_term(shape[1], 0.1), 0.01, loss)
        for numbers, (rows, labels) in product((100_000,) if kind == "plain" else (60, 3_000, 100_000), shuffled):
            monkeypatch.setattr(certificate, "_BLOCK", numbers)
            margin_covers(rows, labels, theta, loss, exact, Compiled.of(kernel, loss, rows, labels))


def test_the_public_radius_leaves_room_for_noise() -> None:
    """Linear terms are accepted up to S less the tail, and noise of the law exceeds it once in 2^128 draws."""
    facts = LossFacts.of(700, 30, LOSS)
    whole = linear_radius(facts, 0.1, 1e-8)
    assert certain(facts, 0.1, 1e-8, whole)
    assert linear_radius(facts, 0.1, 1e-8, tail=5.0) == pytest.approx(whole - 5.0, rel=1e-12)
    assert linear_radius(facts, 0.1, least_beta(facts, 0.1, 5.0), 5.0) >= facts.G
    assert not certain(facts, 0.1, least_beta(facts, 0.1) * 0.4, 1.0)
    for size in (1, 20, 5000):
        tails = stats.chi(size), gaussian_tail(0.3, size) / 0.3, stats.gamma(size), gamma_norm_tail(2.0, size) * 2.0
        for law, tail in (tails[:2], tails[2:]):
            assert law.sf(tail) <= 2.0**-128
            assert law.sf(0.8 * tail) > 2.0**-128 or size > 20


def test_what_is_clipped_has_its_norm_as_computed() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        vector = rng.standard_normal(rng.integers(1, 9)) * 10.0 ** rng.uniform(-20.0, rng.choice([20.0, 300.0]))
        radius = 10.0 ** rng.uniform(-3.0, 12.0)
        with np.errstate(all="ignore"):
            inside = float(np.sqrt(np.vdot(vector, vector))) <= radius
            found, rows = clip(vector, radius), clip_rows(np.stack([vector, vector / 3.0]), radius)
        assert float(np.sqrt(np.vdot(found, found))) <= radius
        np.testing.assert_array_equal(rows, [found, clip(vector / 3.0, radius)])
        if inside:
            assert found is vector
        else:
            scaled = vector / np.abs(vector).max()
            np.testing.assert_allclose(found, radius * scaled / np.linalg.norm(scaled), rtol=1e-12)
