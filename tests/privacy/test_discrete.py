"""Discrete Gaussian noise: its law, by exact probabilities, also where every decision is made by integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from randomgen import ChaCha
from scipy import stats

from admmnet.privacy import discrete
from admmnet.privacy.discrete import LARGEST, discrete_rows, excess, exp_bounds
from admmnet.rng import AgentStreams, Purpose

from . import plain_sampler


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


@pytest.mark.parametrize("s", [0.4, 1.0, 5.3])
def test_the_law(s: float) -> None:
    """A false positive in 1e6; 0.9 and 1.1 times s fail at the same threshold."""
    drawn = discrete_rows([np.random.default_rng(7)], s, 200_000)[0]
    assert p_value(drawn, s) > 1e-6
    assert p_value(drawn, 0.9 * s) < 1e-6 > p_value(drawn, 1.1 * s)


def test_integers_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds that decide nothing, every comparison goes through further bits; the law stays."""
    monkeypatch.setattr(discrete, "_SLACK", 1.0)
    assert p_value(discrete_rows([np.random.default_rng(3)], 1.5, 3000)[0], 1.5) > 1e-6


def test_floating_point_and_integers_agree_where_floating_point_decides() -> None:
    """The same words, decided both ways."""
    rng = np.random.default_rng(0)
    gamma = np.concatenate([rng.random(200) * 3.0, [0.0, 1e-300, 500.0]])
    words = rng.bit_generator.state
    one = np.zeros(len(gamma), dtype=np.int64)
    first = discrete._words([rng], one)
    fast = discrete._with_probability([rng], one, first, gamma, lambda k: Fraction(float(gamma[k])))
    rng.bit_generator.state = words
    np.testing.assert_array_equal(discrete._words([rng], one), first)
    slow = [discrete._Uniform(rng, int(w)).below_exp(Fraction(float(g))) for w, g in zip(first, gamma, strict=True)]
    assert fast.tolist() == slow


@pytest.mark.parametrize("s", [2.0**30 * 1.37, LARGEST])
def test_large_parameters(s: float) -> None:
    """Scaled draws look normal (false positive 1e-6), in all their low bits uniform."""
    drawn = discrete_rows([np.random.default_rng(1)], s, 50_000)[0]
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


def test_out_of_range() -> None:
    for s in (0.0, -1.0, math.nan, math.inf, 2.0 * LARGEST):
        with pytest.raises(ValueError, match="s must be"):
            discrete_rows([np.random.default_rng(0)], s, 1)
    with pytest.raises(ValueError, match="at least 1"):
        excess(3, 1.0, 2)


def seeded(key: int) -> np.random.Generator:
    return AgentStreams(key, 5)[Purpose.OUTPUT]


def private(key: int) -> np.random.Generator:
    return np.random.Generator(ChaCha(key=key, rounds=20))


@pytest.mark.parametrize("kind", [seeded, private])
def test_rows_are_those_of_one_drawn_alone(kind: Callable[[int], np.random.Generator]) -> None:
    """Numbers and next words of 1,500 rows, in chunks of all sizes."""
    draw, rows = np.random.default_rng(11), 0
    while rows < 1_500:
        s = float(2.0 ** draw.uniform(-2.0, 44.0))
        size = int(draw.choice([0, 1, 3, 20, 100, 3000], p=[0.05, 0.2, 0.3, 0.34, 0.1, 0.01]))
        members = int(draw.integers(0, 60)) if size < 3000 else 9
        mine, alone = ([kind(rows + b) for b in range(members)] for _ in range(2))
        expected = [plain_sampler.discrete_gaussian(rng, s, size) for rng in alone]
        found = discrete_rows(mine, s, size)
        assert found.shape == (members, size)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, np.reshape(expected, found.shape))
        assert [rng.bit_generator.random_raw() for rng in mine] == [rng.bit_generator.random_raw() for rng in alone]
        rows += members


class Planted:
    """Generator that reads words off a tape; it counts those that were asked for one by one."""

    def __init__(self, tape: np.ndarray) -> None:
        self.tape, self.place, self.further, self.bit_generator = tape, 0, 0, self

    def random_raw(self, size: int | tuple[int, ...] | None = None) -> Any:
        """Words as a bit generator gives them."""
        self.further += size is None
        begin, self.place = self.place, self.place + (1 if size is None else int(np.prod(size)))
        return int(self.tape[begin]) if size is None else self.tape[begin : self.place].reshape(size)

    def integers(self, low: int, high: int, size: int, dtype: type) -> np.ndarray:
        """The same, as a generator gives them."""
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        return np.array(self.random_raw(size))


@pytest.mark.parametrize("s", [0.7, 6.0, 2.0**20])
def test_words_on_the_bounds_are_decided_by_further_bits(s: float) -> None:
    """First words of e^-k, and of the exponents of small integers, stand on the tapes; so do the words after them."""
    draw, variance, t = np.random.default_rng(2), Fraction(s) ** 2, 2 ** max(0, math.frexp(s)[1])
    exponents = [Fraction(k) for k in range(1, 6)]
    exponents += [Fraction(low, t) for low in range(1, min(t, 8))]
    exponents += [(j - variance / t) ** 2 / (2 * variance) for j in range(8)]
    bounds = [list(islice(exp_bounds(exponent), 2))[1][0] for exponent in exponents]
    words = [int(bound * 2 ** (64 * k)) % 2**64 for bound in bounds for k in (1, 2)]
    pool = np.array([*words, 0, 2**64 - 1, *draw.integers(0, 2**64, 40, dtype=np.uint64)], dtype=np.uint64)
    tapes = pool[draw.integers(0, len(pool), (40, 5000))]
    mine, alone = [Planted(tape) for tape in tapes], [Planted(tape) for tape in tapes]
    found = discrete_rows(mine, s, 12)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, [plain_sampler.discrete_gaussian(rng, s, 12) for rng in alone])
    assert [rng.place for rng in mine] == [rng.place for rng in alone]
    assert sum(rng.further for rng in mine) > 50


@pytest.mark.parametrize(("beside", "happens"), [(-1, True), (0, False), (1, False)])
def test_one_further_word_decides(beside: int, happens: bool) -> None:
    """The first 64 bits are those of 1/e; the next 64 are those, one less, or one more."""
    bound = next(islice(exp_bounds(Fraction(1)), 2, 3))[0]
    first, second = (int(bound * 2 ** (64 * k)) % 2**64 for k in (1, 2))
    tape = np.array([7, first, second + beside, 2**64 - 1, 7], dtype=np.uint64)
    rows, rngs = np.array([0, 1]), [Planted(tape[:1]), Planted(tape[1:])]
    gamma = np.array([500.0, 1.0])
    words = discrete._words(rngs, rows)  # type: ignore[arg-type]
    found = discrete._with_probability(rngs, rows, words, gamma, lambda k: Fraction(gamma[k]))  # type: ignore[arg-type]
    assert found.tolist() == [False, happens]
    assert [rng.place for rng in rngs] == [1, 2 + (beside == 0)]
