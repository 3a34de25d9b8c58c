"""Noise has the law it is booked for, and what is released stands on the public grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from admmnet.privacy.mechanisms import clipped_gaussian_rows, laplace_noise, round_to_grid
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Vector

from .randomness import ALPHA, SIZE, scale_p, shape_p

Draw = Callable[[np.random.Generator, float], Vector]


def gaussian(rng: np.random.Generator, scale: float) -> Vector:
    found: Vector = clipped_gaussian_rows([rng], scale, SIZE)[0]
    return found


def laplace(rng: np.random.Generator, scale: float) -> Vector:
    return np.array([laplace_noise(rng, scale) for _ in range(SIZE)])


@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "private"])
@pytest.mark.parametrize(("draw", "law", "other"), [(gaussian, "norm", "laplace"), (laplace, "laplace", "norm")])
@pytest.mark.parametrize("scale", [1e-6, 0.7, 5e3])
def test_noise_has_its_law_and_scale(draw: Draw, law: str, other: str, scale: float, seed: int | None) -> None:
    draws = draw(AgentStreams(2, seed)[Purpose.OBJECTIVE], scale)
    assert shape_p(draws, law, scale) > ALPHA
    assert scale_p(draws, law, scale) > ALPHA
    for wrong in (0.7, 1.3):
        assert scale_p(wrong * draws, law, scale) < ALPHA
        assert shape_p(wrong * draws, law, scale) < ALPHA
    deviation = scale * (1.0 if law == "norm" else math.sqrt(2.0))  # the other law at equal variance
    assert shape_p(draws, other, deviation if other == "norm" else deviation / math.sqrt(2.0)) < ALPHA


@pytest.mark.parametrize("size", [1, 2, 105])
def test_gaussian_noise_is_the_stream_scaled(size: int) -> None:
    (noise,) = clipped_gaussian_rows([np.random.default_rng(5)], 0.25, size)
    np.testing.assert_array_equal(noise, 0.25 * np.random.default_rng(5).standard_normal(size))
    assert noise.dtype == np.float64


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_scales_that_hide_nothing_are_refused(scale: float) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="sigma must be positive and finite, got sigma="):
        clipped_gaussian_rows([rng], scale, 3)
    with pytest.raises(ValueError, match="scale must be positive and finite, got scale="):
        laplace_noise(rng, scale)


@pytest.mark.parametrize("sigma", [*np.geomspace(1e-12, 1e9, 40).tolist(), 0.5, 1.0, 4.0, math.nextafter(1.0, 0.0)])
def test_released_values_stand_on_a_public_grid(sigma: float) -> None:
    x = np.random.default_rng(11).normal(scale=3.0 * sigma, size=500)
    rounded = round_to_grid(x, sigma)
    step = 2.0 ** math.floor(math.log2(sigma) - 20.0)
    if sigma == math.nextafter(1.0, 0.0):  # its logarithm rounds to 0
        step = 2.0**-21
    assert sigma * 2.0**-21 < step <= sigma * 2.0**-20
    multiples = rounded / step  # exact: a power of two
    np.testing.assert_array_equal(multiples, np.rint(multiples))
    assert np.any(multiples % 2 == 1), "a coarser grid would do"
    assert np.max(np.abs(rounded - x)) <= 0.5 * step
    np.testing.assert_array_equal(round_to_grid(rounded, sigma), rounded)


def test_the_grid_depends_on_sigma_alone() -> None:
    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(round_to_grid(x, 1.0)[1:], round_to_grid(x[1:], 1.0))
    np.testing.assert_array_equal(round_to_grid(-x, 1.0), -round_to_grid(x, 1.0))
