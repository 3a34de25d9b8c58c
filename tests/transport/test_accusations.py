"""Who is lost by what was signed: the same for all who know the same, never fewer for more, never by one alone."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet.transport.zmq.accusations import Accusations

Accusation = tuple[int, int]


def seen(graph: nx.Graph, rank: int, accusations: list[Accusation], gone: set[int] = frozenset()) -> Accusations:  # type: ignore[assignment]
    evidence = Accusations(graph, rank)
    for accuser, process in accusations:
        evidence.accuse(accuser, process, 3, "it hangs")
    for process in gone:
        evidence.leave(process, 3, "goodbye")
    return evidence


def lost(graph: nx.Graph, rank: int, accusations: list[Accusation], gone: set[int] = frozenset()) -> set[int]:  # type: ignore[assignment]
    return set(graph) - seen(graph, rank, accusations, gone).living()


@st.composite
def networks(draw: st.DrawFn) -> tuple[nx.Graph, list[Accusation], list[int]]:
    """A connected graph, accusations between its neighbours in some order, and some that leave."""
    size = draw(st.integers(2, 9))
    graph = nx.random_labeled_tree(size, seed=draw(st.integers(0, 10**6)))
    pairs = [(i, j) for i in range(size) for j in range(i)]
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), max_size=12)))
    edges = [*graph.edges(), *(edge[::-1] for edge in graph.edges())]
    accusations = draw(st.lists(st.sampled_from(edges), unique=True))
    return graph, accusations, draw(st.lists(st.integers(0, size - 1), unique=True, max_size=2))


@settings(deadline=None, max_examples=100)
@given(networks(), st.data())
def test_more_evidence_brings_nobody_back(
    network: tuple[nx.Graph, list[Accusation], list[int]], data: st.DataObject
) -> None:
    graph, accusations, gone = network
    few = data.draw(st.integers(0, len(accusations)))
    rank = data.draw(st.sampled_from(sorted(graph)))
    assert lost(graph, rank, accusations[:few]) <= lost(graph, rank, accusations, set(gone) - {rank})


@settings(deadline=None, max_examples=100)
@given(networks())
def test_neighbours_that_live_to_each_other_agree(network: tuple[nx.Graph, list[Accusation], list[int]]) -> None:
    graph, accusations, gone = network
    living = {rank: seen(graph, rank, accusations, set(gone) - {rank}).living() for rank in set(graph) - set(gone)}
    for i, j in graph.edges():
        if i in living and j in living and j in living[i] and i in living[j]:
            assert living[i] == living[j]


@settings(deadline=None, max_examples=100)
@given(networks(), st.data())
def test_one_liar_takes_nobody_but_itself_and_those_behind_it(
    network: tuple[nx.Graph, list[Accusation], list[int]], data: st.DataObject
) -> None:
    """Whatever one process says of all its neighbours, those that reach each other without it go on together."""
    graph, _, _ = network
    liar = data.draw(st.sampled_from(sorted(graph)))
    lies = [(liar, process) for process in graph[liar]]
    without = graph.subgraph(set(graph) - {liar})
    for part in nx.connected_components(without):
        for rank in part:
            evidence = seen(graph, rank, lies)
            assert part <= evidence.living() or len(part) == 1
            leaf = set(graph[rank]) == {liar}
            assert bool(evidence.given_up()) == leaf  # whose one neighbour is its majority


RING = nx.cycle_graph(6)


@pytest.mark.parametrize(
    ("graph", "accusations", "expected"),
    [
        (nx.star_graph(4), [(0, 3)], {3}),  # a leaf has one neighbour
        (RING, [(1, 2)], set()),  # one of two is no majority
        (RING, [(1, 2), (3, 2)], {2}),
        (RING, [(2, 3), (5, 4)], {3, 4}),  # both are dead: neither speaks for the other
        (RING, [(2, 3)], set()),
        (nx.complete_graph(5), [(1, 4), (2, 4)], set()),
        (nx.complete_graph(5), [(1, 4), (2, 4), (3, 4)], {4}),
        (nx.complete_graph(5), [(1, q) for q in (0, 2, 3, 4)], set()),
        (nx.path_graph(4), [(2, 3), (3, 2)], {3}),  # from 0 the word of 3 comes by way of 2 alone
        (nx.path_graph(5), [(1, 2)], {2, 3, 4}),  # what is behind a lost one is cut off
    ],
)
def test_majorities_as_process_0_sees_them(graph: nx.Graph, accusations: list[Accusation], expected: set[int]) -> None:
    assert lost(graph, 0, accusations) == expected


def test_a_cut_line_is_a_loss_at_both_ends_only_where_nobody_else_is_there() -> None:
    assert lost(nx.path_graph(2), 0, [(0, 1)]) == {1}
    assert lost(nx.cycle_graph(4), 0, [(0, 1), (1, 0)]) == set()


def test_an_accuser_that_was_lost_counts_on() -> None:
    """A member that cheats its neighbours one by one has a majority of them against it before they are all gone."""
    graph = nx.complete_graph(5)
    one = [(1, 4)]
    assert lost(graph, 0, one, {1}) == {1}
    assert lost(graph, 0, [*one, (2, 4)], {1, 2}) == {1, 2}
    assert lost(graph, 0, [*one, (2, 4)], {1, 2, 3}) == {1, 2, 3, 4}


def test_only_neighbours_accuse_and_once() -> None:
    evidence = Accusations(nx.path_graph(4), 0)
    assert not evidence.accuse(0, 2, 1, "far away")
    assert not evidence.accuse(3, 3, 1, "itself")
    assert not evidence.accuse(7, 9, 1, "who?")
    assert evidence.accuse(2, 3, 4, "first")
    assert not evidence.accuse(2, 3, 5, "second")
    assert evidence.accused == {3: {2: (4, "first")}}
    assert evidence.round_of(3) == 4


def test_the_round_of_a_loss_is_no_single_accuser_s_choice() -> None:
    evidence = Accusations(nx.complete_graph(5), 0)
    for accuser, round in ((0, 7), (1, 2**31 - 1), (2, 8)):
        evidence.accuse(accuser, 4, round, "gone")
    assert evidence.round_of(4) == 8
    assert evidence.round_of(3) is None
    evidence.leave(3, -5, "goodbye")
    assert evidence.round_of(3) == 0
