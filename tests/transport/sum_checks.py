"""What every transport must do with sums along trees; each check runs on all processes of a World alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import networkx as nx
import numpy as np

from admmnet.graph.tree import Tree, spanning_tree
from admmnet.transport import Transport, World
from admmnet.types import Integers

from .spoken import connected, exchange_rounds, spoken_at

SUMMED = ("star:7", "ring:6", "complete:5", "path:9", "erdos-renyi:8:0.4", "grid:2x5")


def part_of(round: int, agent: int, size: int = 5) -> Integers:
    """What an agent gives to a sum: any int64, as everybody can compute it."""
    return np.random.default_rng([7, round, agent]).integers(-(2**63), 2**63, size, dtype=np.int64)


def exact_total(vectors: Iterable[Integers]) -> list[int]:
    """Sum by Python's integers, modulo 2^64, as signed numbers."""
    sums = [sum(map(int, column)) for column in zip(*vectors, strict=True)]
    return [(total + 2**63) % 2**64 - 2**63 for total in sums]


def sum_rounds(
    transport: Transport, graph: nx.Graph, trees: Callable[[int], Tree | None], speak: Callable[[int, int], bool]
) -> None:
    for round in range(6):
        size = 1 + 3 * (round % 3)
        outgoing = {i: part_of(round, i, size) if speak(round, i) else None for i in transport.agents}
        before = {i: None if vector is None else vector.tobytes() for i, vector in outgoing.items()}
        tree = trees(round)
        total = transport.reduce(outgoing, lambda lost, tree=tree: None if lost else tree, round, size)  # type: ignore[misc]
        speaking = [i for i in sorted(graph) if speak(round, i)]
        if tree is None or not speaking:
            assert total is None
        else:
            assert total is not None
            assert total.value.dtype == np.int64
            assert total.value.tolist() == exact_total(part_of(round, i, size) for i in speaking)
            assert total.agents == tuple(speaking)
            total.value[:] = -1  # the receiver's own
        assert {i: None if vector is None else vector.tobytes() for i, vector in outgoing.items()} == before


def sums_are_exact_modulo_two_to_the_64(world: World) -> None:
    for spec in SUMMED:
        with connected(world, spec) as (transport, graph):
            tree = spanning_tree(graph)
            sum_rounds(transport, graph, lambda round, tree=tree: tree, lambda round, i: True)  # type: ignore[misc]


def some_agents_say_nothing_to_a_sum(world: World) -> None:
    with connected(world, "erdos-renyi:9:0.4") as (transport, graph):
        tree = spanning_tree(graph)
        sum_rounds(transport, graph, lambda round: tree, lambda round, i: (round + i) % 3 == 0)
        sum_rounds(transport, graph, lambda round: tree, lambda round, i: round == i)
        sum_rounds(transport, graph, lambda round: tree, lambda round, i: False)


def trees_change_from_round_to_round(world: World) -> None:
    """Any spanning tree gives the same total; a round without one is void everywhere."""
    with connected(world, "complete:7") as (transport, graph):
        orders = [np.random.default_rng(seed).permutation(7).tolist() for seed in range(6)]
        paths = [nx.Graph(pairwise(order)) for order in orders]
        trees = [None if round == 3 else spanning_tree(path) for round, path in enumerate(paths)]
        sum_rounds(transport, graph, lambda round: trees[round], lambda round, i: True)


def sums_over_blocks_that_lie_anywhere(world: World) -> None:
    names = np.random.default_rng(5).permutation(23).tolist()
    graph = nx.relabel_nodes(nx.path_graph(23), dict(enumerate(names)))
    graph.add_edges_from([(names[0], names[-1]), (names[3], names[17])])
    tree = spanning_tree(graph)
    for block in (1, 4):
        with connected(world, graph, block) as (transport, _):
            sum_rounds(transport, graph, lambda round: tree, lambda round, i: True)
            sum_rounds(transport, graph, lambda round: tree, lambda round, i: (round * i) % 2 == 0)


def sums_and_exchanges_take_turns(world: World) -> None:
    ballast = np.ones((60, 60))
    with connected(world, "grid:3x3") as (transport, graph):
        tree = spanning_tree(graph)
        for round in range(30):
            for _ in range((round * 5 + world.rank * 11) % 9):  # processes run ahead of each other by turns
                ballast = ballast @ ballast / 60.0
            outgoing = {i: part_of(round, i) for i in transport.agents}
            total = transport.reduce(outgoing, lambda lost: tree, round, 5)
            assert total is not None
            assert total.value.tolist() == exact_total(part_of(round, i) for i in graph)
            exchange_rounds(transport, graph, lambda t, i, round=round: spoken_at(round, i), 1)  # type: ignore[misc]
            if round % 3 == 0:
                assert transport.collect(np.array([[i + 0.5] for i in transport.agents])).shape == (9, 1)


def long_sums(world: World) -> None:
    with connected(world, "ring:5") as (transport, graph):
        tree = spanning_tree(graph)
        for round in range(2):
            vectors = {i: np.full(60_000 + round, 2**62 + i, dtype=np.int64) for i in graph}
            outgoing = {i: vectors[i] for i in transport.agents}
            total = transport.reduce(outgoing, lambda lost: tree, round, 60_000 + round)
            assert total is not None
            assert set(total.value.tolist()) == set(exact_total(v[:1] for v in vectors.values()))
            assert total.value.size == 60_000 + round


SUM_CHECKS = (
    sums_are_exact_modulo_two_to_the_64,
    some_agents_say_nothing_to_a_sum,
    trees_change_from_round_to_round,
    sums_over_blocks_that_lie_anywhere,
    sums_and_exchanges_take_turns,
    long_sums,
)
