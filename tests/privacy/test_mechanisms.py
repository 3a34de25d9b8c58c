"""Noise has the law it is booked for, and what is released stands on the public grid.

Of density K(a) ~ exp(-a ||z||), docs/methods.md eq. (25), radius, direction and their independence are tested. Every
p-value of the right law is compared with ``FALSE``, the false-positive rate of a single test. At ``SIZE`` draws every
wrong sampler is found at the same threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from admmnet.privacy.mechanisms import clipped_gaussian_rows, gamma_norm_noise, laplace_noise, round_to_grid
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Matrix, Vector

from .randomness import ALPHA, SIZE, scale_p, shape_p

FALSE = 1e-6
Draw = Callable[[np.random.Generator, float], Vector]
Sampler = Callable[[np.random.Generator, float, int], Vector]


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
    noise, rng = gamma_norm_noise(np.random.default_rng(5), 40.0, size), np.random.default_rng(5)
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


# K(a)


def drawn(sampler: Sampler, rng: np.random.Generator, rate: float, size: int) -> Matrix:
    return np.array([sampler(rng, rate, size) for _ in range(SIZE)])


def two_sided(statistic: float, law: stats.rv_continuous) -> float:
    return 2.0 * float(min(law.cdf(statistic), law.sf(statistic)))


def p_values(draws: Matrix, rate: float) -> dict[str, float]:
    """p-values of all tests; those of directions hold for a uniform one, whatever the radius.

    With u a direction and w a weight of mean 0 and variance 1 that does not depend on it, n d ||mean(w u)||^2 is
    chi-square with d degrees of freedom, n d (d+2)/2 ||mean(w (u u^T - I/d))||^2 with (d-1)(d+2)/2: mean exact,
    variance to 1/n. w = 1 are the tests of Rayleigh and Bingham; w = the standardised radius tells dependence.
    """
    d, radius = draws.shape[1], np.linalg.norm(draws, axis=1)
    u = draws / radius[:, None]
    found = {
        "shape": float(stats.kstest(rate * radius, stats.gamma(d).cdf).pvalue),
        "scale": two_sided(float(np.sum(rate * radius)), stats.gamma(SIZE * d)),
    }
    own = (radius - radius.mean()) / radius.std()
    for name, w in (("", np.ones(SIZE)), (" by radius", own)):
        mean = w @ u / SIZE
        square = SIZE * d * float(mean @ mean)
        # in one dimension as many signs may be plus as minus
        found["mean" + name] = two_sided(square, stats.chi2(d)) if d > 1 else float(stats.chi2(d).sf(square))
        if d > 1:
            spread = (u * w[:, None]).T @ u / SIZE - float(w.mean()) * np.eye(d) / d
            square = SIZE * d * (d + 2) / 2 * float(np.sum(spread**2))
            found["spread" + name] = two_sided(square, stats.chi2((d - 1) * (d + 2) // 2))
    return found


@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "private"])
@pytest.mark.parametrize(("size", "rate"), [(1, 2e3), (2, 0.04), (105, 700.0)])
def test_gamma_norm_noise_has_its_law(size: int, rate: float, seed: int | None) -> None:
    draws = drawn(gamma_norm_noise, AgentStreams(2, seed)[Purpose.OBJECTIVE], rate, size)
    for name, p in p_values(draws, rate).items():
        assert p > FALSE, name
    for wrong in (0.7, 1.3):
        found = p_values(wrong * draws, rate)
        assert found["shape"] < FALSE
        assert found["scale"] < FALSE


def radial(
    shape: Callable[[int], float] = float, turn: Callable[[Vector, float], Vector] = lambda direction, radius: direction
) -> Sampler:
    """Radius Gamma(shape), and a direction that may be turned, also by the radius."""

    def sample(rng: np.random.Generator, rate: float, size: int) -> Vector:
        radius, direction = rng.standard_gamma(shape(size)), rng.standard_normal(size)
        direction = turn(direction / np.linalg.norm(direction), radius)
        return np.asarray(radius / rate * direction / np.linalg.norm(direction))

    return sample


@cache
def median(size: int) -> float:
    return float(stats.gamma(size).median())


def one_side_far(direction: Vector, radius: float) -> Vector:
    """Radius and direction right, each for itself: long noise leans to one side, short noise to the other."""
    direction[0] = math.copysign(direction[0], radius - median(len(direction)))
    return direction


def normal(rng: np.random.Generator, rate: float, d: int) -> Vector:
    """Equal variance of every coordinate, (d + 1) / a^2."""
    return math.sqrt(d + 1) / rate * rng.standard_normal(d)


WRONG: list[tuple[str, Sampler, list[int], list[str]]] = [
    ("d-1", radial(lambda d: max(d - 1.0, 0.5)), [1, 105], ["shape", "scale"]),
    ("laplace", lambda rng, rate, d: np.asarray(rng.laplace(size=d) / rate), [2], ["shape", "scale"]),
    ("normal", normal, [1, 2, 105], ["shape"]),
    ("leaning", radial(turn=lambda u, _: u + 0.3 * np.eye(len(u))[0]), [2, 105], ["mean"]),
    ("flat", radial(turn=lambda u, _: u * (1.0 + np.eye(len(u))[0])), [2, 105], ["spread"]),
    ("one side far", radial(turn=one_side_far), [1, 105], ["mean by radius"]),
]


@pytest.mark.parametrize(
    ("sampler", "size", "tests"),
    [pytest.param(sampler, d, tests, id=f"{name}-{d}") for name, sampler, sizes, tests in WRONG for d in sizes],
)
def test_another_law_is_found(sampler: Sampler, size: int, tests: list[str]) -> None:
    found = p_values(drawn(sampler, np.random.default_rng(8), 3.0, size), 3.0)
    for name in tests:
        assert found[name] < FALSE, found
