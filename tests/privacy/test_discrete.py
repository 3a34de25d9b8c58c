"""Discrete Gaussian noise: its law, by exact probabilities, also where every decision is made by integers."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from randomgen import ChaCha
from scipy import stats

from admmnet.privacy import mechanisms
from admmnet.privacy.conversion import excess
from admmnet.privacy.mechanisms import LARGEST, discrete_rows, exp_bounds
from admmnet.rng import AgentStreams, Purpose


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


@pytest.mark.parametrize("private", [False, True])
def test_rows_are_those_of_one_drawn_alone(private: bool) -> None:
    """Numbers and next words, in chunks of all sizes; what a seed gives stays from version to version."""

    def made(key: int) -> np.random.Generator:
        return np.random.Generator(ChaCha(key=key, rounds=20)) if private else AgentStreams(key, 5)[Purpose.OUTPUT]

    drawn, seen = np.random.default_rng(11), hashlib.sha256()
    for s, size, members in ((0.3, 100, 60), (1.0, 3, 30), (2.7, 20, 60), (2.0**20.5, 0, 4), (2.0**44, 3000, 9)):
        keys = drawn.integers(0, 2**30, members).tolist()
        mine, alone = ([made(key) for key in keys] for _ in range(2))
        found = discrete_rows(mine, s, size)
        np.testing.assert_array_equal(found, [discrete_rows([rng], s, size)[0] for rng in alone])
        assert found.shape == (members, size)
        assert found.dtype == np.int64
        words = [rng.bit_generator.random_raw() for rng in mine]
        assert words == [rng.bit_generator.random_raw() for rng in alone]
        seen.update(found.tobytes() + np.array(words).tobytes())
    assert seen.hexdigest()[:16] == ("df1155486203b4f8" if private else "28fbe68e22a3c184")


class Planted:
    """Generator that reads words off a tape; it counts those that were asked for one by one."""

    def __init__(self, tape: np.ndarray) -> None:
        self.tape, self.place, self.further, self.bit_generator = tape, 0, 0, self

    def random_raw(self, size: int | tuple[int, ...] | None = None) -> Any:
        """Words as a bit generator gives them."""
        self.further += size is None
        begin, self.place = self.place, self.place + (1 if size is None else int(np.prod(size)))
        return int(self.tape[begin]) if size is None else self.tape[begin : self.place].reshape(size)


@pytest.mark.parametrize("s", [0.7, 6.0, 2.0**20])
def test_words_on_the_bounds_are_decided_by_further_bits(s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Floating point and integers agree on tapes full of words of e^-k and of the exponents of small integers."""
    draw, variance, t = np.random.default_rng(2), Fraction(s) ** 2, 2 ** max(0, math.frexp(s)[1])
    exponents = [Fraction(k) for k in range(1, 6)]
    exponents += [Fraction(low, t) for low in range(1, min(t, 8))]
    exponents += [(j - variance / t) ** 2 / (2 * variance) for j in range(8)]
    bounds = [list(islice(exp_bounds(exponent), 2))[1][0] for exponent in exponents]
    words = [int(bound * 2 ** (64 * k)) % 2**64 for bound in bounds for k in (1, 2)]
    pool = np.array([*words, 0, 2**64 - 1, *draw.integers(0, 2**64, 40, dtype=np.uint64)], dtype=np.uint64)
    tapes = pool[draw.integers(0, len(pool), (40, 5000))]
    fast, slow = [Planted(tape) for tape in tapes], [Planted(tape) for tape in tapes]
    found = discrete_rows(fast, s, 12)  # type: ignore[arg-type]
    monkeypatch.setattr(mechanisms, "_SLACK", 1.0)
    np.testing.assert_array_equal(found, discrete_rows(slow, s, 12))  # type: ignore[arg-type]
    assert [rng.place for rng in fast] == [rng.place for rng in slow]
    assert sum(rng.further for rng in fast) > 50


@pytest.mark.parametrize(("beside", "happens"), [(-1, True), (0, False), (1, False)])
def test_one_further_word_decides(beside: int, happens: bool) -> None:
    """The first 64 bits are those of 1/e; the next 64 are those, one less, or one more."""
    bound = next(islice(exp_bounds(Fraction(1)), 2, 3))[0]
    first, second = (int(bound * 2 ** (64 * k)) % 2**64 for k in (1, 2))
    tape = np.array([7, first, second + beside, 2**64 - 1, 7], dtype=np.uint64)
    rows, rngs = np.array([0, 1]), [Planted(tape[:1]), Planted(tape[1:])]
    gamma = np.array([500.0, 1.0])
    words = mechanisms._words(rngs, rows)  # type: ignore[arg-type]
    found = mechanisms._with_probability(rngs, rows, words, gamma, lambda k: Fraction(gamma[k]))  # type: ignore[arg-type]
    assert found.tolist() == [False, happens]
    assert [rng.place for rng in rngs] == [1, 2 + (beside == 0)]
