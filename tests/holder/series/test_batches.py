"""Batches have the law that the accounting assumes.

Statistical tests: chi-square on how often each possible batch comes up, threshold at a false-positive rate of 1e-6
(seeded, so the outcome is fixed); what has another law, among it 0.7 and 1.3 times the rate, fails at the same
threshold.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

from admmnet.holder.series.base import SeriesProgress, draw_batches, steps_per_epoch

from .records import rng

N, L, DRAWS = 5, 2, 20_000
ALL = [subset for size in range(N + 1) for subset in itertools.combinations(range(N), size)]


def poisson_law(rate: float) -> dict[tuple[int, ...], float]:
    return {subset: rate ** len(subset) * (1.0 - rate) ** (N - len(subset)) for subset in ALL}


def fixed_law() -> dict[tuple[int, ...], float]:
    return {subset: float(len(subset) == L) / math.comb(N, L) for subset in ALL}


@cache
def counted(sampling: str, ordered: bool) -> Counter[tuple[int, ...]]:
    drawn = draw_batches(sampling, N, L, DRAWS, rng(1), ordered=ordered)
    return Counter(tuple(sorted(batch.tolist())) for batch in drawn)


def plausible(sampling: str, law: dict[tuple[int, ...], float], ordered: bool = False) -> bool:
    counts = counted(sampling, ordered)
    if any(law[subset] == 0.0 for subset in counts):
        return False
    cells = [subset for subset in ALL if law[subset] > 0.0]
    expected = np.array([law[subset] * DRAWS for subset in cells])
    statistic = float(np.sum((np.array([counts[subset] for subset in cells]) - expected) ** 2 / expected))
    return bool(statistic < chi2.isf(1e-6, len(cells) - 1))


def test_poisson_batches_are_independent_coins() -> None:
    assert plausible("poisson", poisson_law(L / N))
    assert not plausible("poisson", poisson_law(0.7 * L / N))
    assert not plausible("poisson", poisson_law(1.3 * L / N))
    assert not plausible("poisson", fixed_law())


@pytest.mark.parametrize("ordered", [False, True])
def test_fixed_batches_are_uniform_subsets(ordered: bool) -> None:
    assert plausible("fixed", fixed_law(), ordered)
    skewed = {subset: p * (0.7 if 0 in subset else 1.2) for subset, p in fixed_law().items()}
    assert not plausible("fixed", skewed, ordered)  # one record in 0.7 times as many batches


def test_a_large_sparse_draw_is_uniform() -> None:
    # numpy draws few of many by another algorithm; each record's count is Bin(DRAWS/100, 1/100)
    counts = np.zeros(20_000)
    for batch in draw_batches("poisson", 20_000, 200, 400, rng(2)):
        counts[batch] += 1.0
    p, trials = 0.01, 400

    def statistic(rate: float) -> float:
        return float(np.sum((counts - trials * rate) ** 2) / (trials * rate * (1.0 - rate)))

    low, high = chi2.ppf(5e-7, 20_000), chi2.isf(5e-7, 20_000)
    assert low < statistic(p) < high
    assert not low < statistic(0.7 * p) < high
    assert not low < statistic(1.3 * p) < high


def test_order_within_an_ordered_batch_is_random() -> None:
    orders = Counter(
        tuple(np.argsort(batch).tolist()) for batch in draw_batches("fixed", 40, 3, 12_000, rng(3), ordered=True)
    )
    expected = 12_000 / 6

    def statistic(counts: list[int]) -> float:
        return sum((count - expected) ** 2 / expected for count in counts)

    assert statistic([orders[key] for key in itertools.permutations(range(3))]) < chi2.isf(1e-6, 5)
    plain = Counter(tuple(np.argsort(b).tolist()) for b in draw_batches("fixed", 40, 3, 12_000, rng(3)))
    assert statistic([plain[key] for key in itertools.permutations(range(3))]) > chi2.isf(1e-6, 5)


def test_shuffled_batches_are_the_parts_of_an_order() -> None:
    drawn = list(draw_batches("shuffled", 23, 6, 10, rng(4)))
    assert [len(batch) for batch in drawn] == [6, 6, 6, 5, 6, 6, 6, 5, 6, 6]
    first, second = np.concatenate(drawn[:4]), np.concatenate(drawn[4:8])
    assert sorted(first) == sorted(second) == list(range(23))
    assert first.tolist() != second.tolist()
    assert steps_per_epoch(23, 6) == 4


@pytest.mark.parametrize("sampling", ["poisson", "fixed", "shuffled"])
def test_batches_go_on_from_a_progress(sampling: str) -> None:
    settings, at, draw = (sampling, 23, 6, 10), SeriesProgress(), rng(7)
    first = list(itertools.islice(draw_batches(*settings, draw, progress=at), 6))
    at = replace(at)  # nothing else is remembered
    rest = list(draw_batches(*settings, draw, progress=at))
    assert at.step == 10
    for one, two in zip([*first, *rest], draw_batches(*settings, rng(7)), strict=True):
        np.testing.assert_array_equal(one, two)
