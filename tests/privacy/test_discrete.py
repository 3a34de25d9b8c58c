"""Discrete Gaussian noise: its law, by exact probabilities, also where every decision is made by integers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import islice, pairwise

import numpy as np
import pytest
from scipy import stats

from admmnet.privacy import discrete
from admmnet.privacy.discrete import LARGEST, discrete_gaussian, exp_bounds


def p_value(drawn: np.ndarray, s: float) -> float:
    """Chi-square test of draws against N_Z(0, s^2), cells of 20 expected draws or more."""
    j = np.arange(-math.ceil(12 * s) - 1, math.ceil(12 * s) + 2)
    law = np.exp(-0.5 * (j / s) ** 2)
    law /= law.sum()
    expected = law * len(drawn)
    inner = expected >= 20
    seen = np.array([np.count_nonzero(drawn == k) for k in j[inner]])
    observed = np.append(seen, len(drawn) - seen.sum())
    wanted = np.append(expected[inner], expected[~inner].sum())
    if wanted[-1] < 5:  # the rest joins its neighbour
        observed, wanted = (np.append(observed[:-2], observed[-2:].sum()), np.append(wanted[:-2], wanted[-2:].sum()))
    return float(stats.chisquare(observed, wanted).pvalue)


@pytest.mark.parametrize("s", [0.4, 1.0, 2.0, 5.3])
def test_the_law(s: float) -> None:
    """A false positive in 1e6; 0.9 and 1.1 times s fail at the same threshold."""
    drawn = discrete_gaussian(np.random.default_rng(7), s, 200_000)
    assert p_value(drawn, s) > 1e-6
    assert p_value(drawn, 0.9 * s) < 1e-6 > p_value(drawn, 1.1 * s)


def test_integers_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds that decide nothing, every comparison goes through further bits; the law stays."""
    monkeypatch.setattr(discrete, "_SLACK", 1.0)
    assert p_value(discrete_gaussian(np.random.default_rng(3), 1.5, 3000), 1.5) > 1e-6


def test_floating_point_and_integers_agree_where_floating_point_decides() -> None:
    """The same words, decided both ways."""
    rng = np.random.default_rng(0)
    gamma = np.concatenate([rng.random(200) * 3.0, [0.0, 1e-300, 500.0]])
    words = rng.bit_generator.state
    fast = discrete._with_probability(rng, gamma, lambda k: Fraction(float(gamma[k])))
    rng.bit_generator.state = words
    first = discrete._words(rng, len(gamma))
    slow = [discrete._Uniform(rng, int(w)).below_exp(Fraction(float(g))) for w, g in zip(first, gamma, strict=True)]
    assert fast.tolist() == slow


@pytest.mark.parametrize("s", [2.0**30 * 1.37, LARGEST])
def test_large_parameters(s: float) -> None:
    """Scaled draws look normal (false positive 1e-6), in all their low bits uniform."""
    drawn = discrete_gaussian(np.random.default_rng(1), s, 50_000)
    assert stats.kstest(drawn / s, "norm").pvalue > 1e-6
    assert stats.kstest(drawn / (1.1 * s), "norm").pvalue < 1e-6
    low = np.bincount(drawn % 64, minlength=64)
    assert stats.chisquare(low).pvalue > 1e-6


def test_bounds_enclose_and_close_in() -> None:
    for gamma in (Fraction(1, 3), Fraction(1), Fraction(700), Fraction(10**30 + 1, 10**30), Fraction(5000)):
        pairs = list(islice(exp_bounds(gamma), 4))
        best = sum(pairs[-1]) / 2
        for low, high in pairs:
            assert low <= best <= high
        widths = [high - low for low, high in pairs]
        assert all(b < a * Fraction(1, 10**30) for a, b in pairwise(widths))
    assert float(sum(next(exp_bounds(Fraction(1)))) / 2) == math.exp(-1.0)


@pytest.mark.parametrize("s", [0.0, -1.0, math.nan, math.inf, 2.0 * LARGEST])
def test_out_of_range(s: float) -> None:
    with pytest.raises(ValueError, match="s must be"):
        discrete_gaussian(np.random.default_rng(0), s, 1)


def test_no_draws() -> None:
    assert discrete_gaussian(np.random.default_rng(0), 3.0, 0).shape == (0,)
