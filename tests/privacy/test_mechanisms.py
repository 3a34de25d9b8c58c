"""Noise has the law it is booked for, and what is released stands on the public grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from admmnet.privacy.mechanisms import (
    clipped_gamma_norm_noise,
    clipped_gaussian_rows,
    gamma_norm_noise,
    laplace_noise,
    round_to_grid,
)
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Vector

ALPHA = 1e-9
SIZE = 20_000
FALSE = 1e-6
"""Rate of false positives of a single test of noise that nobody has seeded."""
Draw = Callable[[np.random.Generator, float], Vector]


def shape_p(draws: Vector, law: str, scale: float) -> float:
    """Kolmogorov-Smirnov p-value against ``norm`` or ``laplace`` of that scale."""
    return float(stats.kstest(draws / scale, law).pvalue)


def scale_p(draws: Vector, law: str, scale: float) -> float:
    """Two-sided p-value: sum(x^2)/sigma^2 is chi-square for ``norm``, sum|x|/scale Gamma(n) for ``laplace``."""
    if law == "norm":
        sum_, exact = float(np.sum(np.square(draws / scale))), stats.chi2(draws.size)
    else:
        sum_, exact = float(np.sum(np.abs(draws / scale))), stats.gamma(draws.size)
    return 2.0 * float(min(exact.cdf(sum_), exact.sf(sum_)))


def gaussian(rng: np.random.Generator, scale: float) -> Vector:
    found: Vector = clipped_gaussian_rows([rng], scale, SIZE)[0]
    return found


def laplace(rng: np.random.Generator, scale: float) -> Vector:
    return np.array([laplace_noise(rng, scale) for _ in range(SIZE)])


@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "private"])
@pytest.mark.parametrize(("draw", "law", "other"), [(gaussian, "norm", "laplace"), (laplace, "laplace", "norm")])
@pytest.mark.parametrize("scale", [1e-6, 5e3])
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
def test_noise_is_the_stream_scaled(size: int) -> None:
    """Of K(a) one radius and one direction; each row of Gaussian noise by its own generator."""
    rows = clipped_gaussian_rows([np.random.default_rng(seed) for seed in (5, 6)], 0.25, size)
    for seed, row in zip((5, 6), rows, strict=True):
        np.testing.assert_array_equal(row, 0.25 * np.random.default_rng(seed).standard_normal(size))
    noise, rng = clipped_gamma_norm_noise(np.random.default_rng(5), 40.0, size), np.random.default_rng(5)
    radius, direction = rng.standard_gamma(size) / 40.0, rng.standard_normal(size)
    np.testing.assert_allclose(noise, radius * direction / np.linalg.norm(direction), rtol=1e-14)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_scales_that_hide_nothing_are_refused(scale: float) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="sigma must be positive and finite, got sigma="):
        clipped_gaussian_rows([rng], scale, 3)
    with pytest.raises(ValueError, match="scale must be positive and finite, got scale="):
        laplace_noise(rng, scale)
    with pytest.raises(ValueError, match="rate must be positive and finite, got rate="):
        gamma_norm_noise(rng, scale, 3)


@pytest.mark.parametrize("sigma", [*np.geomspace(1e-12, 1e9, 12).tolist(), 0.5, 1.0, math.nextafter(1.0, 0.0)])
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
    np.testing.assert_array_equal(round_to_grid(-rounded[1:], sigma), -rounded[1:])


@pytest.mark.parametrize(("size", "rate"), [(1, 2e3), (2, 0.04), (105, 700.0)])
def test_gamma_norm_noise_has_its_law(size: int, rate: float) -> None:
    """Density K(a) ~ exp(-a ||z||), docs/methods.md eq. (25): radius Gamma(d), direction uniform and apart from it.

    With u a direction and w of mean 0 and variance 1 that does not depend on it, n d ||mean(w u)||^2 is chi-square with
    d degrees of freedom, and so it is with w = 1.
    """
    rng = AgentStreams(2, None)[Purpose.OBJECTIVE]
    draws = np.array([gamma_norm_noise(rng, rate, size) for _ in range(SIZE)])
    radius = np.linalg.norm(draws, axis=1)
    for factor in (0.7, 1.0, 1.3):
        assert (float(stats.kstest(factor * rate * radius, stats.gamma(size).cdf).pvalue) > FALSE) is (factor == 1.0)
    for weight in (np.ones(SIZE), (radius - radius.mean()) / radius.std()):
        mean = weight @ (draws / radius[:, None]) / SIZE
        assert float(stats.chi2(size).sf(SIZE * size * float(mean @ mean))) > FALSE
