"""The graph of masks: no K agents cut it, and no graph that holds so much has fewer edges."""

from __future__ import annotations

import math
from itertools import combinations

import networkx as nx
import pytest

from admmnet.errors import RequestError
from admmnet.masking import partners_of

SIZES = [(size, colluders) for size in range(2, 10) for colluders in range(size - 1)]


def graph_of(participants: tuple[int, ...], colluders: int) -> nx.Graph:
    graph = nx.Graph((i, j) for i in participants for j in partners_of(i, participants, colluders))
    assert all(set(graph[i]) == set(partners_of(i, participants, colluders)) for i in participants)
    return graph


@pytest.mark.parametrize(("size", "colluders"), SIZES)
def test_no_k_agents_cut_off_others(size: int, colluders: int) -> None:
    participants = tuple(3 * i + 1 for i in range(size))  # numbers are not places
    graph = graph_of(participants, colluders)
    assert set(graph) == set(participants)
    for out in combinations(participants, colluders):
        assert nx.is_connected(graph.subgraph(set(participants) - set(out)))
    least = size - 1 if colluders == 0 else math.ceil((colluders + 1) * size / 2)
    assert graph.number_of_edges() == least


@pytest.mark.parametrize(("participants", "colluders"), [((0, 1), 1), ((0,), 0), ((0, 1, 2), -1), ((2, 1, 0), 1)])
def test_what_hides_nobody_is_refused(participants: tuple[int, ...], colluders: int) -> None:
    with pytest.raises(RequestError):
        partners_of(0, participants, colluders)


def test_who_takes_no_part_has_no_partners() -> None:
    with pytest.raises(RequestError, match="agent 5 takes no part"):
        partners_of(5, (0, 1, 2), 1)
