"""Noise of density K(a) ~ exp(-a ||z||), docs/methods.md eq. (25): radius, direction, independence of the two.

Every p-value of the right law, 36 in all, is compared with ``FALSE``, the false-positive rate of a single test. At
``SIZE`` draws every wrong sampler is found at the same threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from admmnet.privacy.mechanisms import gamma_norm_noise
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Matrix, Vector

from .randomness import SIZE

FALSE = 1e-6
DIMENSIONS = [1, 2, 105]
Sampler = Callable[[np.random.Generator, float, int], Vector]


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
    if d > 1:
        angle = np.arctan2(draws[:, 0], draws[:, 1])
        counts = np.histogram(angle, bins=36, range=(-math.pi, math.pi))[0]
        found["angle"] = float(stats.chisquare(counts).pvalue)
    return found


@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "private"])
@pytest.mark.parametrize(("size", "rate"), [(1, 2e3), (2, 0.04), (105, 700.0)])
def test_the_noise_has_its_law(size: int, rate: float, seed: int | None) -> None:
    draws = drawn(gamma_norm_noise, AgentStreams(2, seed)[Purpose.OBJECTIVE], rate, size)
    for name, p in p_values(draws, rate).items():
        assert p > FALSE, name
    for wrong in (0.7, 1.3):
        found = p_values(wrong * draws, rate)
        assert found["shape"] < FALSE
        assert found["scale"] < FALSE


def radial(
    shape: Callable[[int], float] = float,
    turn: Callable[[Vector, float], Vector] = lambda direction, radius: direction,
    draw: Callable[[np.random.Generator, int], Vector] = lambda rng, size: rng.standard_normal(size),
) -> Sampler:
    """Radius Gamma(shape), and a drawn direction that may be turned, also by the radius."""

    def sample(rng: np.random.Generator, rate: float, size: int) -> Vector:
        radius, direction = rng.standard_gamma(shape(size)), draw(rng, size)
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


def one_axis_far(direction: Vector, radius: float) -> Vector:
    """As before, with axes in place of sides."""
    swap = (abs(direction[0]) > abs(direction[1])) != (radius > median(len(direction)))
    return direction[::-1] if swap else direction


def scaled_normal(scale: Callable[[np.random.Generator, int], float]) -> Sampler:
    return lambda rng, rate, size: scale(rng, size) / rate * rng.standard_normal(size)


WRONG: list[tuple[str, Sampler, list[int], list[str]]] = [
    ("d-1", radial(lambda d: max(d - 1.0, 0.5)), DIMENSIONS, ["shape", "scale"]),
    ("d+1", radial(lambda d: d + 1.0), DIMENSIONS, ["shape", "scale"]),
    # right in the mean of the squared length, and wrong in law
    ("not normalised", scaled_normal(lambda rng, d: rng.standard_gamma(d) / math.sqrt(d)), DIMENSIONS, ["shape"]),
    # density exp(-a ||z||_1)
    ("laplace", lambda rng, rate, d: np.asarray(rng.laplace(size=d) / rate), [105], ["shape", "scale"]),
    ("laplace", lambda rng, rate, d: np.asarray(rng.laplace(size=d) / rate), [2], ["shape", "scale", "angle"]),
    # equal variance of every coordinate, (d + 1) / a^2
    ("normal", scaled_normal(lambda rng, d: math.sqrt(d + 1)), DIMENSIONS, ["shape"]),
    ("cube", radial(draw=lambda rng, d: rng.uniform(-1.0, 1.0, d)), [2], ["angle"]),
    ("leaning", radial(turn=lambda u, _: u + 0.3 * np.eye(len(u))[0]), [2, 105], ["mean"]),
    ("flat", radial(turn=lambda u, _: u * (1.0 + np.eye(len(u))[0])), [2, 105], ["spread"]),
    ("one side far", radial(turn=one_side_far), DIMENSIONS, ["mean by radius"]),
    ("one axis far", radial(turn=one_axis_far), [2], ["spread by radius"]),
]


@pytest.mark.parametrize(
    ("sampler", "size", "tests"),
    [pytest.param(sampler, d, tests, id=f"{name}-{d}") for name, sampler, sizes, tests in WRONG for d in sizes],
)
def test_another_law_is_found(sampler: Sampler, size: int, tests: list[str]) -> None:
    found = p_values(drawn(sampler, np.random.default_rng(8), 3.0, size), 3.0)
    for name in tests:
        assert found[name] < FALSE, found


def test_noise_is_one_radius_and_one_direction_of_the_stream() -> None:
    for size in DIMENSIONS:
        noise = gamma_norm_noise(np.random.default_rng(5), 40.0, size)
        rng = np.random.default_rng(5)
        radius, direction = rng.standard_gamma(size) / 40.0, rng.standard_normal(size)
        np.testing.assert_allclose(noise, radius * direction / np.linalg.norm(direction), rtol=1e-14)
        assert noise.shape == (size,)
        assert noise.dtype == np.float64


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_rates_that_hide_nothing_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate must be positive and finite, got rate="):
        gamma_norm_noise(np.random.default_rng(0), rate, 3)
