"""What every transport must do. Each check takes a World and runs on all of its processes alike.

In one process: ``test_transport.py``. Over MPI: ``mpirun -n 3 python -m tests.transport.conformance``.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable

import networkx as nx
import numpy as np

from admmnet.transport import World, open_world

from .spoken import GRAPHS, Say, assert_inbox, connected, elsewhere, exchange_rounds, spoken_at
from .sum_checks import SUM_CHECKS

TABLE = np.arange(70.0).reshape(14, 5)
SPOKEN: tuple[tuple[str, Say, int], ...] = (
    *((spec, spoken_at, 6) for spec in GRAPHS),
    ("star:6", lambda t, i: np.arange(4.0) + i if t == i else None, 6),  # one speaks at a time
    ("ring:5", lambda t, i: np.full(1 if i == 2 else 60_000 + i, t + i / 7), 3),  # long vectors
    ("complete:5", lambda t, i: TABLE[t::2, i], 3),  # strided ones
)


def neighbours_are_heard_bit_for_bit(world: World) -> None:
    for spec, say, rounds in SPOKEN:
        with connected(world, spec) as (transport, graph):
            exchange_rounds(transport, graph, say, rounds)


def rounds_do_not_mix(world: World) -> None:
    ballast = np.ones((60, 60))
    with connected(world, "erdos-renyi:9:0.5") as (transport, graph):
        for round in range(40):
            for _ in range((round * 7 + world.rank * 13) % 11):  # processes run ahead of each other by turns
                ballast = ballast @ ballast / 60.0
            outgoing = {i: np.array([float(round), float(i)]) for i in transport.agents}
            heard = {j: v.tolist() for j, v in transport.exchange(outgoing, round).items()}
            assert heard == {j: [round, j] for j in elsewhere(transport, graph)}


def all_silent(world: World) -> None:
    with connected(world, "ring:6") as (transport, graph):
        for round in range(5):
            assert transport.exchange(dict.fromkeys(transport.agents), round) == {}
        exchange_rounds(transport, graph, spoken_at, 2)  # silence leaves nothing behind


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
    pair = [(0, 1)] if world.size < 5 else []  # with five processes no edge crosses at all
    graph = nx.Graph(pair)
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
                outgoing = {i: np.array([sign * (10 * round + i)]) for i in transport.agents}
                expected = {j: np.array([sign * (10 * round + j)]) for j in graph}
                assert_inbox(transport.exchange(outgoing, round), transport, graph, expected)


def collect_is_in_agent_order(world: World) -> None:
    with connected(world, "path:9") as (transport, _):
        for width in (1, 4):
            everything = np.random.default_rng(width).standard_normal((9, width))
            everything[2, 0], everything[7, 0] = np.nan, -0.0
            mine = everything[list(transport.agents)]
            collected = transport.collect(mine)
            assert collected.tobytes() == everything.tobytes()
            before = mine.tobytes()
            collected[:] = 0.0
            assert mine.tobytes() == before


def gather_brings_json_values_in_rank_order(world: World) -> None:
    def value(rank: int) -> object:
        return [
            None,
            rank,
            True,
            "ärger \u2028 " * rank,
            [1 / 3, 1e-310, 2**70 + rank, -0.0],
            {"nested": {"rank": [rank] * rank}},
            "x" * (40_000 if rank == 1 else 0),
        ]

    for mine in (value(world.rank), None, [], {}, "", 0.1 + world.rank):
        answers = world.gather(mine)
        assert len(answers) == world.size
        assert json.dumps(answers[world.rank]) == json.dumps(mine)
    assert json.dumps(world.gather(value(world.rank))) == json.dumps([value(r) for r in range(world.size)])


def agents_may_lie_anywhere(world: World) -> None:
    """Reverse Cuthill-McKee puts a scrambled path in order: a process hosts agents that are no range."""
    names = np.random.default_rng(5).permutation(23).tolist()
    graph = nx.relabel_nodes(nx.path_graph(23), dict(enumerate(names)))
    for block in (1, 4):
        transport = world.connect(graph, block)
        assert all(len(part) <= block for own in transport.layout.blocks for part in own)
        crossing = sum((i in own) != (j in own) for own in transport.layout.owners[:-1] for i, j in graph.edges)
        assert crossing <= 2 * (world.size - 1)
        exchange_rounds(transport, graph, spoken_at, 4)
        everything = np.random.default_rng(1).standard_normal((23, 3))
        assert transport.collect(everything[list(transport.agents)]).tobytes() == everything.tobytes()
        transport.close()


CHECKS: tuple[Callable[[World], None], ...] = (
    neighbours_are_heard_bit_for_bit,
    rounds_do_not_mix,
    all_silent,
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
