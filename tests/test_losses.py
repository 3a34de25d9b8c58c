"""Losses: values against extended precision, derivatives, conjugates, and the constants privacy rests on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.losses import LOSSES, Logistic, Loss, get_loss
from admmnet.types import Vector

UNIT = 2.0**-53
SCORES = np.concatenate(
    [np.linspace(-700.0, 700.0, 2801), np.linspace(-3.0, 3.0, 601), [-1e-12, 0.0, 1e-300]]
)
EXTREME = np.array([-np.inf, -1e308, -750.0, -710.0, 710.0, 750.0, 1e308, np.inf])
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
both_labels = pytest.mark.parametrize("label", [-1.0, 1.0])


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


@both_labels
def test_logistic_at_extreme_scores(label: float) -> None:
    y, loss = labels(label, EXTREME), Logistic()
    margin = y * EXTREME
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, derivative, curvature = (
            loss.value(EXTREME, y),
            loss.derivative(EXTREME, y),
            loss.curvature(EXTREME, y),
        )
    np.testing.assert_allclose(value, np.maximum(-margin, 0.0), atol=1e-300)
    np.testing.assert_allclose(derivative, np.where(margin < 0, -y, 0.0), atol=1e-300)
    np.testing.assert_allclose(curvature, 0.0, atol=1e-300)


@every_loss
@both_labels
def test_derivatives_match_finite_differences(loss: Loss, label: float) -> None:
    u = np.linspace(-20.0, 20.0, 401)
    y, h = labels(label, u), 1e-4
    slope = (loss.value(u + h, y) - loss.value(u - h, y)) / (2 * h)
    bend = (loss.derivative(u + h, y) - loss.derivative(u - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.derivative(u, y), slope, atol=1e-9)
    np.testing.assert_allclose(loss.curvature(u, y), bend, atol=1e-9)


@every_loss
@both_labels
def test_arguments_are_left_alone(loss: Loss, label: float) -> None:
    u = np.linspace(-5.0, 5.0, 11)
    y = labels(label, u)
    for function in (loss.value, loss.derivative, loss.curvature, loss.conjugate):
        function(u, y)
    np.testing.assert_array_equal(u, np.linspace(-5.0, 5.0, 11))
    np.testing.assert_array_equal(y, label)


@every_loss
@both_labels
def test_conjugate_is_the_supremum(loss: Loss, label: float) -> None:
    slopes = -label * np.linspace(0.001, 0.999, 60)
    grid = np.linspace(-12.0, 12.0, 240_001)  # the maximiser of the logistic is ln(a / (1 - a)), at most 6.9
    value = loss.value(grid, labels(label, grid))
    supremum = np.array([np.max(s * grid - value) for s in slopes])
    np.testing.assert_allclose(loss.conjugate(slopes, labels(label, slopes)), supremum, rtol=0, atol=1e-8)


@every_loss
@both_labels
def test_conjugate_attains_equality_at_the_derivative(loss: Loss, label: float) -> None:
    u = np.linspace(-25.0, 25.0, 501)
    y = labels(label, u)
    s = loss.derivative(u, y)
    np.testing.assert_allclose(loss.conjugate(s, y), s * u - loss.value(u, y), atol=1e-13)


@both_labels
def test_logistic_conjugate_at_the_ends_and_outside(label: float) -> None:
    s = -label * np.array([0.0, 1.0, 0.5, 1e-300, -1e-9, 1.0 + 1e-9, 5.0, -5.0])
    expected = np.array([0.0, 0.0, -np.log(2.0), 0.0, np.inf, np.inf, np.inf, np.inf])
    np.testing.assert_allclose(Logistic().conjugate(s, labels(label, s)), expected, atol=1e-290)


@every_loss
@pytest.mark.parametrize("row_norm", [0.3, 1.0, 4.0])
def test_constants_bound_every_record_and_are_tight(loss: Loss, row_norm: float) -> None:
    u = np.concatenate([np.linspace(-60.0, 60.0, 12_001), EXTREME])
    steepest = max(float(np.abs(loss.derivative(u, labels(y, u))).max()) for y in (-1.0, 1.0)) * row_norm
    sharpest = max(float(loss.curvature(u, labels(y, u)).max()) for y in (-1.0, 1.0)) * row_norm**2
    assert 0.999 * loss.lipschitz(row_norm) <= steepest <= loss.lipschitz(row_norm)
    assert 0.999 * loss.curvature_bound(row_norm) <= sharpest <= loss.curvature_bound(row_norm)


def test_logistic_constants_on_unit_rows() -> None:
    assert (Logistic().lipschitz(), Logistic().curvature_bound()) == (1.0, 0.25)


def test_registry() -> None:
    for name, loss in LOSSES.items():
        assert get_loss(name) is loss
        assert loss.name == name
    with pytest.raises(RequestError, match=r"'huber'.*logistic"):
        get_loss("huber")


def test_losses_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Logistic().name = "other"  # type: ignore[misc]
