"""Accounting of sampled steps against exact laws by quadrature, and known figures."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np
import pytest

from admmnet.errors import BudgetError, RequestError
from admmnet.privacy import published, subsampled
from admmnet.privacy.calibrate import noise_multiplier
from admmnet.privacy.conversion import LAMBDAS, ORDERS, gaussian_epsilon
from admmnet.privacy.events import Sampling, SubsampledGaussian
from admmnet.types import Vector

READ: dict[str, Callable[[SubsampledGaussian, float], float]] = {
    "pld": subsampled.epsilon_proven,
    "rdp": partial(subsampled.epsilon_proven, arithmetic="rdp"),
    "published": published.epsilon_of_moments,
}
TWO, ELEVEN = (int(np.argmin(np.abs(ORDERS - order))) for order in (2.0, 11.0))
"""Whole orders of the grid: the library is exact there."""


# calibration


@pytest.mark.parametrize("sampling", get_args(Sampling))
@pytest.mark.parametrize("reading", ["rdp", "pld"])
@pytest.mark.parametrize(("epsilon", "delta", "rate", "steps"), [(1.0, 1e-5, 0.01, 500), (0.3, 1e-6, 1.0, 50)])
def test_calibrated_noise_fits_and_one_percent_less_does_not(
    reading: str, epsilon: float, delta: float, rate: float, steps: int, sampling: Sampling
) -> None:
    sigma = noise_multiplier(epsilon, delta, rate, steps, sampling, READ[reading])
    at = [READ[reading](SubsampledGaussian(x * sigma, rate, steps, sampling), delta) for x in (1.0, 0.99)]
    assert epsilon * (1.0 - 1e-3) <= at[0] <= epsilon < at[1]


def test_budgets_beyond_any_noise() -> None:
    with pytest.raises(BudgetError, match="epsilon = 1e-05 affords no step"):
        noise_multiplier(1e-5, 1e-9, 1.0, 10**9, "shown")
    assert noise_multiplier(1e12, 1e-3, 0.5, 10, "shuffled") < 1e-3


# exact laws


def quadrature(points: int, reach: float) -> tuple[Vector, float]:
    axis = np.linspace(-reach, reach, points)
    return axis, float(axis[1] - axis[0])


def normal(x: Vector, mean: float, sigma: float) -> Vector:
    return np.exp(-0.5 * ((x - mean) / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))


def pairs(sampling: Sampling, sigma: float, rate: float, points: int, reach: float) -> list[tuple[Vector, Vector]]:
    """Probabilities of what a step shows, on a grid; for ``shown`` with the batch, so two axes in one."""
    axis, cell = quadrature(points, reach)
    base, moved = normal(axis, 0.0, sigma) * cell, normal(axis, 1.0, sigma) * cell
    base, moved = base / np.sum(base), moved / np.sum(moved)
    if sampling == "shown":
        one = np.concatenate(((1.0 - rate) * base, rate * moved))
        two = np.concatenate(((1.0 - rate) * base, rate * base))
    else:
        one, two = (1.0 - rate) * base + rate * moved, base
    return [(one, two), (two, one)]


def moment(one: Vector, two: Vector, alpha: float) -> float:
    terms = alpha * np.log(one) - (alpha - 1.0) * np.log(two)
    return math.log(float(np.sum(np.exp(terms)))) / (alpha - 1.0)


@pytest.mark.parametrize("sampling", ["poisson", "shown"])
@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.1), (2.5, 0.01)])
def test_renyi_curve_is_that_of_the_joint_law(sampling: Sampling, sigma: float, rate: float) -> None:
    curve = subsampled.curve(SubsampledGaussian(sigma, rate, 7, sampling))
    laws = pairs(sampling, sigma, rate, 8001, 9.0 * sigma + 13.0)
    for order in [TWO, ELEVEN, *np.flatnonzero((LAMBDAS > 0.06) & (LAMBDAS < 12.0))[::9]]:
        exact = 7.0 * max(moment(*pair, float(ORDERS[order])) for pair in laws)
        assert exact * (1.0 - 1e-9) <= curve[order]
        if order in (TWO, ELEVEN) or sampling == "shown":
            assert curve[order] <= exact * (1.0 + 1e-8)
        elif order > TWO:
            assert curve[order] <= exact * 1.1


def exact_delta(pair: tuple[Vector, Vector], epsilon: float, steps: int) -> float:
    """Divergence of two or one steps: the second is added by a product of laws."""
    one, two = pair
    if steps == 2:
        one, two = np.outer(one, one).ravel(), np.outer(two, two).ravel()
    return float(np.sum(np.maximum(one - math.exp(epsilon) * two, 0.0)))


def exact_epsilon(found: list[tuple[Vector, Vector]], delta: float, steps: int) -> float:
    low, high = 0.0, 40.0
    for _ in range(32):
        middle = 0.5 * (low + high)
        over = max(exact_delta(pair, middle, steps) for pair in found) > delta
        low, high = (middle, high) if over else (low, middle)
    return high


@pytest.mark.parametrize("sampling", ["poisson", "shown"])
@pytest.mark.parametrize(("sigma", "rate", "delta"), [(1.0, 0.1, 1e-3), (0.7, 0.4, 1e-5), (3.0, 0.02, 1e-4)])
def test_epsilon_is_that_of_the_joint_law(sampling: Sampling, sigma: float, rate: float, delta: float) -> None:
    for steps, points in ((1, 20001), (2, 401)):
        exact = exact_epsilon(pairs(sampling, sigma, rate, points, 9.0 * sigma + 2.0), delta, steps)
        read = READ["pld"](SubsampledGaussian(sigma, rate, steps, sampling), delta)
        # the quadrature's own error is about (cell / sigma)^2 of the mass around the kink
        slack = 1e-6 if steps == 1 else 1e-3
        assert exact * (1.0 - slack) <= read <= exact * (1.0 + 1e-3 + slack)


def fixed_batches(values: tuple[float, ...], batch: int, sigma: float, axis: Vector) -> Vector:
    """Density of a sum over a uniform set of so many values, with noise."""
    sums = [sum(chosen) for chosen in itertools.combinations(values, batch)]
    return np.asarray(np.mean([normal(axis, mean, sigma) for mean in sums], axis=0))


@pytest.mark.parametrize(("records", "batch"), [(2, 1), (4, 3), (5, 2)])
def test_fixed_batches_stay_below_their_profile_and_reach_it(records: int, batch: int) -> None:
    """C = 1, so replacing a record moves a sum by up to 2; noise 1.6 is a multiplier of 0.8."""
    sigma, axis = 1.6, np.linspace(-16.0, 16.0, 8001)
    cell, rng = float(axis[1] - axis[0]), np.random.default_rng(records * batch)
    profile = subsampled.profiles(SubsampledGaussian(sigma / 2.0, batch / records, 1, "fixed"))[0][0]
    most = 0.0
    for trial in range(40):
        rest = (-1.0,) * (records - 1) if trial == 0 else tuple(rng.uniform(-1.0, 1.0, records - 1).tolist())
        ends = (1.0, -1.0) if trial < 20 else tuple(rng.uniform(-1.0, 1.0, 2).tolist())
        one, two = (fixed_batches((*rest, end), batch, sigma, axis) * cell for end in ends)
        for x in (0.0, 0.1, 0.5, 1.5):
            bound = float(profile(np.array([x]))[0])
            found = max(exact_delta((one, two), x, 1), exact_delta((two, one), x, 1))
            assert found <= bound * (1.0 + 1e-5) + 1e-12
            most = max(most, found / bound)
    assert most > 0.9999  # all others at the other end


def test_fixed_curve_covers_the_pair_of_its_profile() -> None:
    """The moments of the pair on a grid of losses, which has the profile both ways, by their definition."""
    for sigma, rate in ((1.0, 0.1), (2.0, 0.3), (0.9, 0.02)):
        event = SubsampledGaussian(sigma, rate, 1, "fixed")
        forward, backward = subsampled.profiles(event)[0]
        least, masses, _ = subsampled.connected(forward, backward, 1e-3, 9000, 9000)
        losses = 1e-3 * (least + np.arange(len(masses)))
        for order in np.flatnonzero((LAMBDAS > 0.06) & (LAMBDAS < 3.0))[::4]:
            lam = float(LAMBDAS[order])
            exact = math.log(float(np.sum(masses * np.exp(lam * losses)))) / lam
            assert exact <= subsampled.curve(event)[order] * (1.0 + 1e-4)
            if order >= TWO:
                assert exact >= 0.5 * subsampled.curve(event)[order]  # A <= 2 A' - 1 gives away half


# composition


def test_shuffled_partitions_are_gaussians_one_an_epoch() -> None:
    for records, batch, epochs in ((1000, 10, 7), (1003, 10, 7), (10, 6, 5), (7, 7, 3), (10**6, 3, 2)):
        steps = epochs * math.ceil(records / batch)
        event = SubsampledGaussian(1.7, batch / records, steps, "shuffled")
        assert subsampled.passes(event) == epochs
        exact = gaussian_epsilon(math.sqrt(epochs) / 1.7, 1e-5)
        assert READ["pld"](event, 1e-5) == pytest.approx(exact, rel=1e-12)
        np.testing.assert_allclose(subsampled.curve(event), epochs * ORDERS / (2.0 * 1.7**2), rtol=1e-12)
    begun = SubsampledGaussian(1.7, 0.1, 11, "shuffled")
    assert subsampled.passes(begun) == 2  # a second epoch that has begun


@pytest.mark.parametrize("sampling", ["poisson", "fixed", "shown"])
def test_whole_batches_are_gaussians(sampling: Sampling) -> None:
    event = SubsampledGaussian(30.0, 1.0, 900, sampling)
    assert READ["pld"](event, 1e-6) == pytest.approx(gaussian_epsilon(1.0, 1e-6), rel=1e-12)
    np.testing.assert_allclose(subsampled.curve(event), 0.5 * ORDERS, rtol=1e-12)


@pytest.mark.parametrize(("steps", "delta"), [*itertools.product([1, 100, 10**4], [1e-3, 1e-9]), (10**6, 1e-12)])
def test_composition_never_reads_below_the_exact_gaussian(steps: int, delta: float) -> None:
    """At a rate just below 1 the transform is used, and the answer is known: the Gaussian's, times 1 - 1e-9."""
    for mu in (0.3,) if steps > 10**4 else (0.3, 3.0):
        noise = math.sqrt(steps) / mu
        exact = gaussian_epsilon(mu * (1.0 - 1e-6), delta)
        read = READ["pld"](SubsampledGaussian(noise, 1.0 - 1e-9, steps, "shown"), delta)
        assert exact <= read
        if steps * 1e-15 < 0.01 * delta:  # else the transform's error allowance is felt, or the Renyi bound
            assert read <= exact * 1.0006


# what stands in a ledger may be anything


@pytest.mark.parametrize("sampling", get_args(Sampling))
@pytest.mark.parametrize("noise", [5e-324, 1e-3, 1.7e308])
def test_extreme_events_have_a_cost_and_no_warning(noise: float, sampling: Sampling) -> None:
    for rate, steps in ((1e-12, 1), (0.3, 2**53), (1.0 - 2.0**-53, 10**4), (1.0, 2**53)):
        event = SubsampledGaussian(noise, rate, steps, sampling)
        try:
            curve = subsampled.curve(event)
            read = [subsampled.epsilon_proven(event, delta) for delta in (1e-3, 1e-12)]
        except ArithmeticError:  # the audit's word for it: its cost exceeds every number
            assert noise < 1e-150
            continue
        assert np.all(curve > 0.0)
        assert subsampled.rho(event) > 0.0
        assert published.epsilon_of_moments(event, 1e-3) > 0.0
        assert read[0] <= read[1]
        assert read[0] >= 0.0
        if noise == 1e-3 and rate == 1.0:
            assert read[0] > 1e5


def test_published_arithmetic_is_that_of_poisson_batches_with_noise_over_clip() -> None:
    events = {name: SubsampledGaussian(2.0, 0.01, 500, name) for name in ("poisson", "shown", "shuffled")}
    claims = {published.epsilon_of_moments(event, 1e-5) for event in events.values()}
    fixed = SubsampledGaussian(1.0, 0.01, 500, "fixed")  # noise 2 C, so 1 over 2 C
    assert claims == {published.epsilon_of_moments(fixed, 1e-5)}
    (claim,) = claims
    assert READ["rdp"](events["poisson"], 1e-5) < claim  # a valid bound of Poisson batches, and no tight one
    assert subsampled.epsilon_proven(fixed, 1e-5) > 1.3 * claim


@pytest.mark.parametrize(("noise", "rate"), [(0.8, 0.02), (2.0, 0.3), (5.0, 1.0)])
def test_a_moment_is_the_integral_that_defines_it(noise: float, rate: float) -> None:
    """Abadi et al. 2016, eq. (4): the moments of the mixture against N(0, sigma^2), by the trapezoidal rule."""

    def moment(lam: int) -> float:
        z = np.linspace(-12.0 * noise, 12.0 * noise + lam + 1.0, 200_001)
        present = math.log(rate) + (2.0 * z - 1.0) / (2.0 * noise**2)
        ratio = present if rate == 1.0 else np.logaddexp(math.log1p(-rate), present)
        log = (lam + 1) * ratio - 0.5 * (z / noise) ** 2 - math.log(noise * math.sqrt(2.0 * math.pi))
        return math.log(float(np.trapezoid(np.exp(log), z)))

    steps, delta = 30, 1e-6
    event = SubsampledGaussian(noise, rate, steps, "poisson")
    wanted = min((steps * moment(lam) - math.log(delta)) / lam for lam in range(1, 20))
    assert published.epsilon_of_moments(event, delta) == pytest.approx(wanted, rel=1e-9)


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(RequestError, match=r"pip install 'admmnet\[baselines\]'"):
        subsampled.epsilon_proven(SubsampledGaussian(1.234, 0.0123, 5, "poisson"), 1e-5)
    shuffled = SubsampledGaussian(1.234, 0.0123, 5, "shuffled")
    assert subsampled.epsilon_proven(shuffled, 1e-5) > 0.0  # needs no library
