"""Batches have the law that the accounting assumes.

Chi-square on how often each possible batch comes up, threshold at a false-positive rate of 1e-6 (seeded, so the
outcome is fixed); what has another law, among it 0.7 and 1.3 times the rate, fails at the same threshold.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from admmnet.holder.series.base import draw_batches, steps_per_epoch

from .records import rng

N, L, DRAWS = 5, 2, 20_000
ALL = [subset for size in range(N + 1) for subset in itertools.combinations(range(N), size)]
Law = dict[tuple[int, ...], float]


def coins(rate: float) -> Law:
    return {subset: rate ** len(subset) * (1.0 - rate) ** (N - len(subset)) for subset in ALL}


UNIFORM: Law = {subset: float(len(subset) == L) / math.comb(N, L) for subset in ALL}
SKEWED = {subset: p * (0.7 if 0 in subset else 1.2) for subset, p in UNIFORM.items()}
"""One record in 0.7 times as many batches."""


def plausible(counts: Counter[tuple[int, ...]], law: Law) -> bool:
    if any(law[subset] == 0.0 for subset in counts):
        return False
    cells, total = [subset for subset in law if law[subset] > 0.0], counts.total()
    statistic = sum((counts[subset] - law[subset] * total) ** 2 / (law[subset] * total) for subset in cells)
    return bool(statistic < chi2.isf(1e-6, len(cells) - 1))


@pytest.mark.parametrize(
    ("sampling", "ordered", "law", "others"),
    [
        ("poisson", False, coins(L / N), [coins(0.7 * L / N), coins(1.3 * L / N), UNIFORM]),
        ("fixed", False, UNIFORM, [coins(L / N), SKEWED]),
        ("fixed", True, UNIFORM, [coins(L / N), SKEWED]),
    ],
)
def test_batches_are_coins_or_uniform_subsets(sampling: str, ordered: bool, law: Law, others: list[Law]) -> None:
    drawn = draw_batches(sampling, N, L, DRAWS, rng(1), ordered=ordered)
    counts = Counter(tuple(sorted(batch.tolist())) for batch in drawn)
    assert plausible(counts, law)
    assert not any(plausible(counts, other) for other in others)


def test_shuffled_batches_are_the_parts_of_an_order() -> None:
    drawn = list(draw_batches("shuffled", 23, 6, 10, rng(4)))
    assert [len(batch) for batch in drawn] == [6, 6, 6, 5, 6, 6, 6, 5, 6, 6]
    first, second = np.concatenate(drawn[:4]), np.concatenate(drawn[4:8])
    assert sorted(first) == sorted(second) == list(range(23))
    assert first.tolist() != second.tolist()
    assert steps_per_epoch(23, 6) == 4
