"""Theorem 23 modulo 4, by enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import networkx as nx
import pytest

from admmnet.masking import partners_of

Words = tuple[int, ...]


def law(graph: nx.Graph, honest: tuple[int, ...], values: dict[int, int], speaking: set[int]) -> Counter[Words]:
    """Messages of the honest agents that speak, the colluders' masks taken off, over all masks modulo 4."""
    pairs = [tuple(sorted(pair)) for pair in graph.subgraph(honest).edges]
    found: Counter[Words] = Counter()
    for masks in product(range(4), repeat=len(pairs)):
        sent = dict(values)
        for (a, b), mask in zip(pairs, masks, strict=True):
            sent[a] += mask
            sent[b] -= mask
        found[tuple(sent[i] % 4 for i in honest if i in speaking)] += 1
    return found


@pytest.mark.parametrize(
    ("size", "colluders"), [(2, 0), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2), (5, 1), (5, 2), (5, 3)]
)
def test_honest_messages_show_their_sum_and_nothing_else(size: int, colluders: int) -> None:
    everybody = tuple(range(size))
    graph = nx.Graph((i, j) for i in everybody for j in partners_of(i, everybody, colluders))
    for out in combinations(everybody, colluders):
        honest = tuple(i for i in everybody if i not in out)
        first = {i: (3 * i + 1) % 4 for i in honest}
        same = first | {honest[0]: first[honest[0]] + 1, honest[1]: first[honest[1]] + 3}  # the same sum
        shown = law(graph, honest, first, set(honest))
        assert shown == law(graph, honest, same, set(honest))
        assert all(sum(words) % 4 == sum(first.values()) % 4 for words in shown)
        assert len(set(shown.values())) == 1
        assert len(shown) == 4 ** (len(honest) - 1)
        for silent in honest:  # one of them was lost, or told something else: nothing is shown at all
            part = law(graph, honest, first, set(honest) - {silent})
            assert len(part) == 4 ** (len(honest) - 1)
            assert len(set(part.values())) == 1
