"""What is called clear, alike or untold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from admmnet.papers.statistics import Contest, Sample, contest, lower, paired, steadier


def test_a_contest_counts_clear_differences_alone() -> None:
    # standard errors are 0.1, of a difference 0.141, 2.45 of which (6 degrees of freedom) are clear
    low, near, far = (Sample(value, 0.2, value, 4) for value in (1.0, 1.3, 1.4))
    found = contest({1: low, 2: low, 3: far, 4: low}, {1: near, 2: far, 3: low})
    assert found == Contest(1, 1, 1)


def test_fewer_than_three_trials_tell_nothing() -> None:
    one, two = Sample(1.0, 0.0, 1.0, 2), Sample(2.0, 0.0, 2.0, 3)
    assert [lower(one, two), lower(two, one), steadier(one, two)] == [None, None, None]
    assert paired({0: 1.0, 1: 1.0, 2: 1.0}, {0: 2.0, 1: 2.0}) is None
    found = contest({1: one, 2: two}, {1: two, 2: two})
    assert found == Contest(0, 1, 0, alike=1, untold=1)
    assert contest({1: one}, {1: one}) == Contest(untold=1)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_neither_higher_nor_lower(value: float) -> None:
    odd, fine = Sample(value, math.nan, value, 3), Sample(1.0, 0.1, 1.0, 3)
    assert [lower(odd, fine), lower(fine, odd), steadier(odd, fine)] == [None, None, None]
    assert paired({0: value, 1: 1.0}, {0: 1.0, 1: 1.0}) is None


def test_chance_alone_is_rarely_clear_and_a_difference_mostly_is() -> None:
    """2,000 contests of three against three normal draws.

    Welch's test is clear in at most 5 % of them, 100 with a standard deviation of 10; 140 is four above: false-positive
    rate below 1e-4. Two standard errors of the difference would be clear in about 12 %. Power is shown at five standard
    deviations.
    """
    draws = np.random.default_rng(1).standard_normal((2000, 2, 3))

    def outcomes(second: float, shift: float) -> list[str | None]:
        pairs = [(Sample.of(a), Sample.of(second * b + shift)) for a, b in draws]
        return [lower(a, b) for a, b in pairs if a is not None and b is not None]

    level = outcomes(1.0, 0.0)
    assert level.count("below") + level.count("above") <= 140
    assert outcomes(1.0, 5.0).count("below") > 1800
    pairs = [(Sample.of(a), Sample.of(20.0 * b)) for a, b in draws]
    spreads = [steadier(a, b) for a, b in pairs if a is not None and b is not None]
    assert spreads.count("below") > 1500
    assert spreads.count("above") == 0


def test_alike_is_what_rules_out_a_difference() -> None:
    calm, noisy = Sample(20.0, 0.1, 20.0, 4), Sample(20.1, 5.0, 20.1, 4)
    assert lower(calm, Sample(20.1, 0.1, 20.1, 4)) == "alike"
    assert lower(calm, noisy) == "level"
    assert lower(Sample(20.0, 0.0, 20.0, 3), Sample(20.0, 0.0, 20.0, 3)) == "alike"
    # pairs tell what means do not: both vary by 5, the second is 1 above the first in every pair
    first = dict(enumerate((10.0, 15.0, 20.0)))
    assert paired(first, {seed: value + 1.0 + 0.01 * seed for seed, value in first.items()}) == "below"
    assert paired(first, dict(first)) == "alike"
