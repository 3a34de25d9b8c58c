"""Losses: values against extended precision, derivatives, and the constants privacy rests on."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import SimulatedHolder
from admmnet.solvers.losses import LOSSES, Huber, Logistic, Loss, SmoothedHinge, Squared, get_loss, is_ours
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import LossFacts
from admmnet.types import Vector

from .problems import units

UNIT = 2.0**-53
SCORES = np.concatenate([np.linspace(-700.0, 700.0, 2801), np.linspace(-3.0, 3.0, 601), [-1e-12, 0.0, 1e-300]])
EXTREME = np.array([-np.inf, -1e308, -750.0, -710.0, 710.0, 750.0, 1e308, np.inf])
ONE_SCORE = {name: loss for name, loss in LOSSES.items() if name != "softmax"}
every_loss = pytest.mark.parametrize("loss", ONE_SCORE.values(), ids=list(ONE_SCORE))
both_labels = pytest.mark.parametrize("label", [-1.0, 1.0])


WIDTHS = [1e-6, 1e-3, 0.1, 1.0 / 3.0, 0.5, 0.7, 1.0, 3.7, 1e6]
every_width = pytest.mark.parametrize("width", WIDTHS)


def labels(label: float, u: Vector) -> Vector:
    return np.full_like(u, label)


@both_labels
def test_logistic_matches_extended_precision(label: float) -> None:
    y = labels(label, SCORES)
    margin = (y * SCORES).astype(np.longdouble)
    tail = np.exp(-np.abs(margin))
    value = np.log1p(tail) + np.maximum(-margin, 0)
    derivative = -y / (1 + np.exp(margin))
    curvature = tail / (1 + tail) ** 2
    loss = Logistic()
    np.testing.assert_allclose(loss.value(SCORES, y), value.astype(float), rtol=8 * UNIT)
    np.testing.assert_allclose(loss.derivative(SCORES, y), derivative.astype(float), rtol=8 * UNIT)
    np.testing.assert_allclose(loss.curvature(SCORES, y), curvature.astype(float), rtol=8 * UNIT)


@every_loss
@both_labels
def test_derivatives_match_finite_differences(loss: Loss, label: float) -> None:
    u = np.linspace(-20.0, 20.0, 401) + 0.031  # clear of the scores where curvatures jump
    y, h = labels(label, u), 1e-4
    slope = (loss.value(u + h, y) - loss.value(u - h, y)) / (2 * h)
    bend = (loss.derivative(u + h, y) - loss.derivative(u - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.derivative(u, y), slope, atol=1e-9)
    np.testing.assert_allclose(loss.curvature(u, y), bend, atol=1e-9)


@every_loss
@pytest.mark.parametrize("row_norm", [0.3, 1.0, 4.0])
def test_constants_bound_every_record_and_are_tight(loss: Loss, row_norm: float) -> None:
    u = np.concatenate([np.linspace(-60.0, 60.0, 12_001), EXTREME])
    steepest = max(float(np.abs(loss.derivative(u, labels(y, u))).max()) for y in (-1.0, 1.0)) * row_norm
    sharpest = max(float(loss.curvature(u, labels(y, u)).max()) for y in (-1.0, 1.0)) * row_norm**2
    assert 0.999 * loss.lipschitz(row_norm) <= steepest <= loss.lipschitz(row_norm)
    assert 0.999 * loss.curvature_bound(row_norm) <= sharpest <= loss.curvature_bound(row_norm)


def test_constants_on_unit_rows() -> None:
    ours = {name: LOSSES[name] for name in LOSSES.own}  # others, of tests in this process, may stand beside them
    constants = {name: (loss.lipschitz(), loss.curvature_bound()) for name, loss in ours.items()}
    assert constants == {
        "logistic": (1.0, 0.25),
        "smoothed-hinge": (1.0, 1.0),
        "huber": (1.0, 1.0),
        "squared": (math.inf, 1.0),
        "softmax": (math.sqrt(2.0), 0.5),
    }
    assert (SmoothedHinge(0.1).lipschitz(2.0), SmoothedHinge(0.1).curvature_bound(2.0)) == (2.0, 20.0)
    assert (Huber(3.0).lipschitz(2.0), Huber(3.0).curvature_bound(2.0)) == (6.0, 4.0)


def around(*centres: float) -> Vector:
    """Scores on both sides of the centres, from neighbours in float64 to far away, and the centres."""
    found = [*centres]
    for centre in centres:
        for side in (-math.inf, math.inf):
            at = centre
            for _ in range(12):
                at = math.nextafter(at, side)
                found.append(at)
        away = np.geomspace(1e-15, 1e5, 60)
        found += [*(centre + away), *(centre - away)]
    return np.array(found)


def hinge_slope(u: float, y: float, h: float) -> Fraction:
    """Exact first derivative of the smoothed hinge at float64 arguments."""
    inside = (1 + Fraction(h) - Fraction(y) * Fraction(u)) / (2 * Fraction(h))
    return -Fraction(y) * min(Fraction(1), max(Fraction(0), inside))


def huber_slope(u: float, y: float, width: float) -> Fraction:
    """Exact clipped residual at float64 arguments."""
    return min(Fraction(width), max(-Fraction(width), Fraction(u) - Fraction(y)))


@every_width
@both_labels
def test_hinge_derivative_is_exact_to_three_units(width: float, label: float) -> None:
    """The contract of `Loss` allows 8; the formula as it is usually written misses it at the zone's edge."""
    u = label * np.concatenate([around(1.0 + width, 1.0 - width, 1.0, 0.5 * (1.0 + width)), SCORES[::20]])
    y = labels(label, u)
    exact = [hinge_slope(*pair, width) for pair in zip(u.tolist(), y.tolist(), strict=True)]
    assert units(SmoothedHinge(width).derivative(u, y), exact) <= 3.0
    plain = -y * np.clip((1.0 + width - y * u) / (2.0 * width), 0.0, 1.0)
    if Fraction(1.0 + width) != 1 + Fraction(width):
        assert units(plain, exact) > 1e6


@every_width
@pytest.mark.parametrize("label", [-1.0, 1.0, 0.1, -3.3e4])
def test_huber_and_squared_derivatives_are_exact_to_one_unit(width: float, label: float) -> None:
    u = np.concatenate([around(label + width, label - width, label), SCORES[::20]])
    y = labels(label, u)
    exact = [huber_slope(*pair, width) for pair in zip(u.tolist(), y.tolist(), strict=True)]
    assert units(Huber(width).derivative(u, y), exact) <= 1.0
    residuals = [Fraction(a) - Fraction(b) for a, b in zip(u.tolist(), y.tolist(), strict=True)]
    assert units(Squared().derivative(u, y), residuals) <= 1.0


@every_width
@both_labels
def test_values_of_the_piecewise_losses(width: float, label: float) -> None:
    margin = np.concatenate([around(1.0 + width, 1.0 - width, 1.0), np.linspace(-50.0, 50.0, 1001)])
    t, h = margin.astype(np.longdouble), np.longdouble(width)
    parabola = (1 + h - t) ** 2 / (4 * h)
    hinge = np.where(t >= 1 + h, 0, np.where(t <= 1 - h, 1 - t, parabola)).astype(float)
    y = labels(label, margin)
    found = SmoothedHinge(width).value(label * margin, y)
    np.testing.assert_allclose(found, hinge, rtol=8 * UNIT, atol=1e-17)
    above, rounding = found - np.maximum(1.0 - margin, 0.0), 8 * UNIT * (1.0 + width + np.abs(margin))
    assert np.all((above >= -rounding) & (above <= 0.25 * width + rounding))
    r = np.abs(margin.astype(np.longdouble) - label)
    squares = np.where(r <= h, r * r / 2, h * r - h * h / 2).astype(float)
    np.testing.assert_allclose(Huber(width).value(margin, y), squares, rtol=8 * UNIT, atol=1e-17)


@every_loss
@both_labels
def test_extreme_scores_raise_no_warning(loss: Loss, label: float) -> None:
    y = labels(label, EXTREME)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for function in (loss.value, loss.derivative, loss.curvature):
            assert not np.isnan(function(EXTREME, y)).any()
    assert np.isfinite(loss.curvature(EXTREME, y)).all()
    assert np.all(np.diff(loss.derivative(EXTREME, y)) >= 0.0)
    if loss.name == "logistic":
        margin = y * EXTREME
        np.testing.assert_allclose(loss.value(EXTREME, y), np.maximum(-margin, 0.0), atol=1e-300)
        np.testing.assert_allclose(loss.derivative(EXTREME, y), np.where(margin < 0, -y, 0.0), atol=1e-300)
        np.testing.assert_allclose(loss.curvature(EXTREME, y), 0.0, atol=1e-300)


@every_loss
@both_labels
def test_smooth_says_whether_the_curvature_jumps(loss: Loss, label: float) -> None:
    u = np.linspace(-6.0, 6.0, 1_200_001)
    bend = loss.curvature(u, labels(label, u))
    assert bool(np.max(np.abs(np.diff(bend))) < 1e-3) == loss.smooth
    slope = loss.derivative(u, labels(label, u))
    assert np.max(np.abs(np.diff(slope))) <= 1e-5 * loss.curvature_bound() * (1 + 1e-6)  # phi' never jumps


def test_names_and_widths() -> None:
    for name in LOSSES.own:
        assert get_loss(name) is get_loss(name, "auto") is LOSSES[name]
        assert LOSSES[name].name == name
    assert get_loss("smoothed-hinge", 0.1) == SmoothedHinge(0.1)
    assert get_loss("huber", 2) == Huber(2.0)
    assert (get_loss("smoothed-hinge"), get_loss("huber")) == (SmoothedHinge(0.5), Huber(1.0))
    bad: list[Any] = [0.0, -1.0, 1e-7, 1e7, math.nan, math.inf, "wide", None, True]
    refused: list[tuple[str, Any, str]] = [("hubble", "auto", "'hubble'")]
    refused += [(name, 0.5, "no width") for name in ("logistic", "squared")]
    refused += [(name, width, "from 1e-06 to") for name in ("smoothed-hinge", "huber") for width in bad]
    for name, width, told in refused:
        with pytest.raises(RequestError, match=told):
            get_loss(name, width)


def test_a_class_that_says_it_is_ours_is_not() -> None:
    spoofed = type("Logistic", (Logistic,), {"__module__": "admmnet.solvers.losses"})
    named = type("Mine", (Logistic,), {"__module__": "admmnet.solvers.losses"})
    assert [is_ours(loss()) for loss in (Logistic, SmoothedHinge, spoofed, named)] == [True, True, False, False]


# softmax

K, SOFTMAX = 7, get_loss("softmax")


def class_scores(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.asarray(rng.standard_normal((n, K)) * 10.0 ** rng.uniform(-3.0, 2.5, (n, 1)))


def test_values_and_gradients_match_extended_precision() -> None:
    rng = np.random.default_rng(0)
    u, y = class_scores(rng, 5000), rng.integers(0, K, 5000).astype(float)
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
    u, y = class_scores(rng, 20000), np.zeros(20000)
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


def test_extreme_scores_of_classes_raise_no_warning() -> None:
    u = np.array([[750.0, 0.0, -750.0], [-1e5, 0.0, 0.0], [1e308, -1e308, 0.0]])
    with np.errstate(all="raise", under="ignore"):
        for label in range(3):
            assert np.isfinite(SOFTMAX.derivative(u[:2], np.full(2, float(label)))).all()
        assert np.isfinite(SOFTMAX.value(u[:2], np.array([2.0, 0.0]))).all()
    with np.errstate(over="ignore"):  # a difference of 2e308 is none
        assert np.isfinite(SOFTMAX.derivative(u, np.zeros(3))).all()


def test_what_needs_one_score_refuses_it() -> None:
    X, y = np.eye(3), np.zeros(3)
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
    shards = [(0.4 * rng.uniform(-1.0, 1.0, (n, 4)), rng.integers(0, 3, n).astype(float)) for n in (5, 9)]
    holder, theta = SimulatedHolder.of(shards, task="classes", classes=3), rng.standard_normal((2, 12))
    found = zip(*holder.mean_losses(SOFTMAX, theta), *holder.mean_losses(Squared(), theta), strict=True)
    for (X, y), own, (cross, squared) in zip(shards, theta, found, strict=True):
        u, hot = X @ own.reshape(3, 4).T, np.eye(3)[y.astype(int)]
        p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
        assert cross == pytest.approx(-np.log(p[hot > 0.0]).mean())
        assert squared == pytest.approx(0.5 * ((u - hot) ** 2).sum(axis=1).mean())
