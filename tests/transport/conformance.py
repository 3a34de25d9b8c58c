"""What every transport must do. Each check takes a World and runs on all of its processes alike.

In one process: ``test_transport.py``. Over MPI: ``mpirun -n 3 python -m tests.transport.conformance``.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import networkx as nx
import numpy as np

from admmnet.graph import load_topology
from admmnet.graph.tree import Tree, spanning_tree
from admmnet.transport import Inbox, Transport, World, open_world
from admmnet.types import Integers, Vector

Say = Callable[[int, int], Vector | None]
"""What an agent says in a round, as everybody can compute it."""
Speak = Callable[[int, int], bool]
GRAPHS = ("star:7", "ring:6", "complete:5", "path:9", "erdos-renyi:8:0.4", "grid:2x5")
ODD = np.array([-0.0, 5e-324, np.inf, -np.inf, np.nan, 1 / 3, 1e308, 2.0**-1074])
"""Numbers whose bits a careless transport changes."""
TABLE = np.arange(70.0).reshape(14, 5)


@contextmanager
def connected(world: World, graph: nx.Graph | str, block: int = 1) -> Iterator[tuple[Transport, nx.Graph]]:
    """Transport of a graph, given as it is or by its spec."""
    graph = load_topology(graph, seed=3) if isinstance(graph, str) else graph
    transport = world.connect(graph, block)
    yield transport, graph
    transport.close()


def scrambled_path() -> nx.Graph:
    """A path in whose order names say nothing: a process hosts agents that are no range."""
    names = np.random.default_rng(5).permutation(23).tolist()
    return nx.relabel_nodes(nx.path_graph(23), dict(enumerate(names)))


def run_ahead(world: World, round: int) -> None:
    """Compute: processes run ahead of each other by turns."""
    ballast = np.ones((60, 60))
    for _ in range((round * 7 + world.rank * 13) % 11):
        ballast = ballast @ ballast / 60.0


# vectors


def spoken_at(round: int, agent: int) -> Vector | None:
    """A third of the time nothing; lengths differ."""
    if (3 * round + 5 * agent) % 3 == 1:
        return None
    stream = np.random.default_rng([round, agent])
    return np.concatenate([stream.standard_normal(1 + (round + 2 * agent) % 6), np.roll(ODD, agent)])


def exchange_rounds(transport: Transport, graph: nx.Graph, say: Say, rounds: int) -> None:
    for round in range(rounds):
        outgoing = {i: say(round, i) for i in transport.agents}
        assert_inbox(transport.exchange(outgoing, round), transport, graph, {j: say(round, j) for j in graph})


def assert_inbox(inbox: Inbox, transport: Transport, graph: nx.Graph, outgoing: Mapping[int, Vector | None]) -> None:
    elsewhere = sorted({j for i in transport.agents for j in graph[i]} - set(transport.agents))
    assert sorted(inbox) == [j for j in elsewhere if outgoing[j] is not None]
    for j, vector in inbox.items():
        sent = outgoing[j]
        assert sent is not None
        assert vector.dtype == np.float64
        assert vector.shape == sent.shape, j
        assert vector.tobytes() == sent.tobytes(), j


SPOKEN: tuple[tuple[str, Say, int], ...] = (
    *((spec, spoken_at, 6) for spec in (*GRAPHS, "path:5")),
    ("star:6", lambda t, i: np.arange(4.0) + i if t == i else None, 6),  # one speaks at a time
    ("ring:5", lambda t, i: np.full(1 if i == 2 else 60_000 + i, t + i / 7), 3),  # long vectors
    ("complete:5", lambda t, i: TABLE[t::2, i], 3),  # strided ones
    ("ring:6", lambda t, i: None if t < 5 else spoken_at(t, i), 7),  # silence leaves nothing behind
)


def neighbours_are_heard_bit_for_bit(world: World) -> None:
    for spec, say, rounds in SPOKEN:
        with connected(world, spec) as (transport, graph):
            exchange_rounds(transport, graph, say, rounds)


def rounds_do_not_mix(world: World) -> None:
    with connected(world, "erdos-renyi:9:0.5") as (transport, graph):
        for round in range(40):
            run_ahead(world, round)
            outgoing = {i: np.array([float(round), float(i)]) for i in graph}
            mine = {i: outgoing[i] for i in transport.agents}
            assert_inbox(transport.exchange(mine, round), transport, graph, outgoing)


def receivers_own_what_they_hear(world: World) -> None:
    with connected(world, "complete:6") as (transport, graph):
        outgoing = {i: np.full(3, float(i)) for i in transport.agents}
        expected = {j: np.full(3, float(j)) for j in graph}
        first = transport.exchange(outgoing, 0)
        for vector in outgoing.values():
            vector += 100.0  # what the sender does later changes nothing that was heard
        assert_inbox(first, transport, graph, expected)
        for vector in first.values():
            vector[:] = -1.0  # and what a receiver does changes no sender
        assert all((outgoing[i] == 100.0 + i).all() for i in transport.agents)
        assert_inbox(transport.exchange(outgoing, 1), transport, graph, {j: v + 100.0 for j, v in expected.items()})


def processes_without_neighbours(world: World) -> None:
    graph = nx.Graph([(0, 1)] if world.size < 5 else [])  # with five processes no edge crosses at all
    graph.add_nodes_from(range(max(world.size, 2)))
    if world.size == 3:
        graph = nx.Graph([(0, 1), (1, 2), (2, 3), (4, 5)])  # blocks {0, 1}, {2, 3}, {4, 5}
    with connected(world, graph) as (transport, _):
        exchange_rounds(transport, graph, spoken_at, 4)
        numbers = np.array([[float(i)] for i in transport.agents])
        assert transport.collect(numbers)[:, 0].tolist() == sorted(graph)


def two_networks_at_once(world: World) -> None:
    with connected(world, "ring:5") as first, connected(world, "complete:6") as second:
        for round in range(4):
            for (transport, graph), sign in ((first, 1.0), (second, -1.0)):
                said = {i: np.array([sign * (10 * round + i)]) for i in graph}
                heard = transport.exchange({i: said[i] for i in transport.agents}, round)
                assert_inbox(heard, transport, graph, said)


def collect_is_in_agent_order(world: World) -> None:
    with connected(world, "path:9") as (transport, _):
        for width in (1, 4):
            everything = np.random.default_rng(width).standard_normal((9, width))
            everything[2, 0], everything[7, 0] = np.nan, -0.0
            mine = everything[list(transport.agents)]
            collected, before = transport.collect(mine), mine.tobytes()
            assert collected.tobytes() == everything.tobytes()
            collected[:] = 0.0
            assert mine.tobytes() == before


def gather_brings_json_values_in_rank_order(world: World) -> None:
    def value(rank: int) -> object:
        long, numbers = "x" * (40_000 if rank == 1 else 0), [1 / 3, 1e-310, 2**70 + rank, -0.0]
        return [None, rank, True, "ärger \u2028 " * rank, numbers, {"nested": {"rank": [rank] * rank}}, long]

    for mine in (value(world.rank), None, [], {}, "", 0.1 + world.rank):
        answers = world.gather(mine)
        assert len(answers) == world.size
        assert json.dumps(answers[world.rank]) == json.dumps(mine)
    assert json.dumps(world.gather(value(world.rank))) == json.dumps([value(r) for r in range(world.size)])


def agents_may_lie_anywhere(world: World) -> None:
    """Reverse Cuthill-McKee puts a scrambled path in order."""
    for block in (1, 4):
        with connected(world, scrambled_path(), block) as (transport, graph):
            assert all(len(part) <= block for own in transport.layout.blocks for part in own)
            crossing = sum((i in own) != (j in own) for own in transport.layout.owners[:-1] for i, j in graph.edges)
            assert crossing <= 2 * (world.size - 1)
            exchange_rounds(transport, graph, spoken_at, 4)
            everything = np.random.default_rng(1).standard_normal((23, 3))
            assert transport.collect(everything[list(transport.agents)]).tobytes() == everything.tobytes()


# sums along trees


def part_of(round: int, agent: int, size: int = 5) -> Integers:
    """What an agent gives to a sum: any int64, as everybody can compute it."""
    return np.random.default_rng([7, round, agent]).integers(-(2**63), 2**63, size, dtype=np.int64)


def exact_total(vectors: Iterable[Integers]) -> list[int]:
    """Sum by Python's integers, modulo 2^64, as signed numbers."""
    sums = [sum(map(int, column)) for column in zip(*vectors, strict=True)]
    return [(total + 2**63) % 2**64 - 2**63 for total in sums]


def always(round: int, agent: int) -> bool:
    return True


def sum_rounds(transport: Transport, graph: nx.Graph, trees: Sequence[Tree | None], speak: Speak = always) -> None:
    """Sums on a tree a round; a round with None is void."""
    for round, tree in enumerate(trees):
        size = 1 + 3 * (round % 3)
        outgoing = {i: part_of(round, i, size) if speak(round, i) else None for i in transport.agents}
        total = transport.reduce(outgoing, lambda lost, tree=tree: None if lost else tree, round, size)  # type: ignore[misc]
        speaking = [i for i in sorted(graph) if speak(round, i)]
        if tree is None or not speaking:
            assert total is None
            continue
        assert total is not None
        assert total.value.dtype == np.int64
        assert total.agents == tuple(speaking)
        assert total.value.tolist() == exact_total(part_of(round, i, size) for i in speaking)
        total.value[:] = -1  # the receiver's own
        assert all(v is None or v.tobytes() == part_of(round, i, size).tobytes() for i, v in outgoing.items())


def sums_are_exact_modulo_two_to_the_64(world: World) -> None:
    for spec in GRAPHS:
        with connected(world, spec) as (transport, graph):
            sum_rounds(transport, graph, [spanning_tree(graph)] * 6)


def some_agents_say_nothing_to_a_sum(world: World) -> None:
    with connected(world, "erdos-renyi:9:0.4") as (transport, graph):
        for speak in (lambda round, i: (round + i) % 3 == 0, lambda round, i: round == i, lambda round, i: False):
            sum_rounds(transport, graph, [spanning_tree(graph)] * 6, speak)


def trees_change_from_round_to_round(world: World) -> None:
    """Any spanning tree gives the same total; a round without one is void everywhere."""
    with connected(world, "complete:7") as (transport, graph):
        orders = [np.random.default_rng(seed).permutation(7).tolist() for seed in range(6)]
        paths = [nx.Graph(pairwise(order)) for order in orders]
        sum_rounds(transport, graph, [None if t == 3 else spanning_tree(path) for t, path in enumerate(paths)])


def sums_over_blocks_that_lie_anywhere(world: World) -> None:
    graph = scrambled_path()
    names = list(graph)
    graph.add_edges_from([(names[0], names[-1]), (names[3], names[17])])
    for block in (1, 4):
        with connected(world, graph, block) as (transport, _):
            sum_rounds(transport, graph, [spanning_tree(graph)] * 6)
            sum_rounds(transport, graph, [spanning_tree(graph)] * 6, lambda round, i: (round * i) % 2 == 0)


def sums_and_exchanges_take_turns(world: World) -> None:
    with connected(world, "grid:3x3") as (transport, graph):
        tree = spanning_tree(graph)
        for round in range(30):
            run_ahead(world, round)
            total = transport.reduce({i: part_of(round, i) for i in transport.agents}, lambda lost: tree, round, 5)
            assert total is not None
            assert total.value.tolist() == exact_total(part_of(round, i) for i in graph)
            exchange_rounds(transport, graph, lambda t, i, round=round: spoken_at(round, i), 1)  # type: ignore[misc]
            if round % 3 == 0:
                assert transport.collect(np.array([[i + 0.5] for i in transport.agents])).shape == (9, 1)


def long_sums(world: World) -> None:
    with connected(world, "ring:5") as (transport, graph):
        for size in (60_000, 60_001):
            vectors = {i: np.full(size, 2**62 + i, dtype=np.int64) for i in graph}
            mine = {i: vectors[i] for i in transport.agents}
            total = transport.reduce(mine, lambda lost: spanning_tree(graph), size % 2, size)
            assert total is not None
            assert set(total.value.tolist()) == set(exact_total(v[:1] for v in vectors.values()))
            assert total.value.size == size


SUM_CHECKS: tuple[Callable[[World], None], ...] = (
    sums_are_exact_modulo_two_to_the_64,
    some_agents_say_nothing_to_a_sum,
    trees_change_from_round_to_round,
    sums_over_blocks_that_lie_anywhere,
    sums_and_exchanges_take_turns,
    long_sums,
)
CHECKS: tuple[Callable[[World], None], ...] = (
    neighbours_are_heard_bit_for_bit,
    rounds_do_not_mix,
    receivers_own_what_they_hear,
    processes_without_neighbours,
    two_networks_at_once,
    collect_is_in_agent_order,
    gather_brings_json_values_in_rank_order,
    agents_may_lie_anywhere,
    *SUM_CHECKS,
)


def main() -> None:
    world = open_world("mpi")
    try:
        for check in CHECKS:
            check(world)
    except BaseException:
        traceback.print_exc()
        world.abort(1)
    if world.rank == 0:
        sys.stdout.write(f"{len(CHECKS)} checks hold on {world.size} ranks of {world.name}\n")


if __name__ == "__main__":
    main()
