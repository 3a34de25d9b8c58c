"""What every transport must do. Each check takes a World and runs on all of its processes alike.

In one process: ``test_transport.py``. Over MPI: ``mpirun -n 3 python -m tests.transport.conformance``.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import networkx as nx
import numpy as np

from admmnet.graph import load_topology
from admmnet.graph.simple import Tree, spanning_tree
from admmnet.transport import Transport, World, open_world
from admmnet.types import Integers, Vector

Say = Callable[[int, int], Vector | None]
"""What an agent says in a round, as everybody can compute it."""
Step = Callable[[Transport, nx.Graph, int], None]
"""What all processes do in a round."""
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


def carry_out(world: World, graph: nx.Graph | str, *steps: Step, rounds: int = 6, block: int = 1) -> None:
    """All steps of a round, round by round."""
    with connected(world, graph, block) as (transport, found):
        for round in range(rounds):
            for step in steps:
                step(transport, found, round)


# steps


def spoken_at(round: int, agent: int) -> Vector | None:
    """A third of the time nothing; lengths differ."""
    if (3 * round + 5 * agent) % 3 == 1:
        return None
    stream = np.random.default_rng([round, agent])
    return np.concatenate([stream.standard_normal(1 + (round + 2 * agent) % 6), np.roll(ODD, agent)])


def heard(say: Say = spoken_at) -> Step:
    """Neighbours elsewhere are heard bit for bit; sender and receiver own what they have."""

    def step(transport: Transport, graph: nx.Graph, round: int) -> None:
        outgoing = {i: say(round, i) for i in transport.agents}
        inbox = transport.exchange(outgoing, round)
        for sent in outgoing.values():
            if sent is not None:
                sent += 100.0  # what the sender does later changes nothing that was heard
        elsewhere = {j for i in transport.agents for j in graph[i]} - set(transport.agents)
        expected = {j: sent for j in sorted(elsewhere) if (sent := say(round, j)) is not None}
        assert sorted(inbox) == [*expected]
        for j, vector in inbox.items():
            assert vector.dtype == np.float64
            assert vector.shape == expected[j].shape, j
            assert vector.tobytes() == expected[j].tobytes(), j
            vector[:] = -1.0
        for i, sent in outgoing.items():  # and what a receiver does changes no sender
            assert sent is None or sent.tobytes() == (np.array(say(round, i)) + 100.0).tobytes()

    return step


def collected(width: int) -> Step:
    """Rows of all agents come in their order."""

    def step(transport: Transport, graph: nx.Graph, round: int) -> None:
        everything = np.random.default_rng([round, width]).standard_normal((len(graph), width))
        everything[0, 0], everything[-1, 0] = np.nan, -0.0
        mine = everything[list(transport.agents)]
        found, before = transport.collect(mine), mine.tobytes()
        assert found.tobytes() == everything.tobytes()
        found[:] = 0.0
        assert mine.tobytes() == before

    return step


def part_of(round: int, agent: int, size: int) -> Integers:
    """What an agent gives to a sum: any int64, as everybody can compute it."""
    return np.random.default_rng([7, round, agent]).integers(-(2**63), 2**63, size, dtype=np.int64)


def summed(
    tree: Callable[[nx.Graph, int], Tree | None] = lambda graph, round: spanning_tree(graph),
    speak: Callable[[int, int], bool] = lambda round, agent: True,
    longest: int = 7,
) -> Step:
    """A sum is exact, modulo 2^64; it is void without a tree, or where nobody speaks."""

    def step(transport: Transport, graph: nx.Graph, round: int) -> None:
        size = 1 + (round % 3) * (longest - 1) // 2
        outgoing = {i: part_of(round, i, size) if speak(round, i) else None for i in transport.agents}
        total = transport.reduce(outgoing, lambda lost: None if lost else tree(graph, round), round, size)
        speaking = [i for i in sorted(graph) if speak(round, i)]
        if tree(graph, round) is None or not speaking:
            assert total is None
            return
        assert total is not None
        assert total.value.dtype == np.int64
        assert total.agents == tuple(speaking)
        parts = [part_of(round, i, size).tolist() for i in speaking]
        assert total.value.tolist() == [(sum(column) + 2**63) % 2**64 - 2**63 for column in zip(*parts, strict=True)]
        total.value[:] = -1  # the receiver's own
        assert all(v is None or v.tobytes() == part_of(round, i, size).tobytes() for i, v in outgoing.items())

    return step


def run_ahead(transport: Transport, graph: nx.Graph, round: int) -> None:
    """Compute: processes run ahead of each other by turns."""
    ballast = np.ones((60, 60))
    for _ in range((round * 7 + transport.world.rank * 13) % 11):
        ballast = ballast @ ballast / 60.0


# checks


SPOKEN: tuple[tuple[str, Say, int], ...] = (
    *((spec, spoken_at, 6) for spec in (*GRAPHS, "path:5")),
    ("star:6", lambda t, i: np.arange(4.0) + i if t == i else None, 6),  # one speaks at a time
    ("ring:5", lambda t, i: np.full(1 if i == 2 else 60_000 + i, t + i / 7), 3),  # long vectors
    ("complete:5", lambda t, i: TABLE.copy()[t::2, i], 3),  # strided ones
    ("ring:6", lambda t, i: None if t < 5 else spoken_at(t, i), 7),  # silence leaves nothing behind
)


def neighbours_are_heard_bit_for_bit(world: World) -> None:
    for spec, say, rounds in SPOKEN:
        carry_out(world, spec, heard(say), rounds=rounds)


def rounds_do_not_mix(world: World) -> None:
    carry_out(world, "erdos-renyi:9:0.5", run_ahead, heard(lambda t, i: np.array([float(t), float(i)])), rounds=40)


def processes_without_neighbours(world: World) -> None:
    graph = nx.Graph([(0, 1)] if world.size < 5 else [])  # with five processes no edge crosses at all
    graph.add_nodes_from(range(max(world.size, 2)))
    if world.size == 3:
        graph = nx.Graph([(0, 1), (1, 2), (2, 3), (4, 5)])  # blocks {0, 1}, {2, 3}, {4, 5}
    carry_out(world, graph, heard(), collected(1), rounds=4)


def two_networks_at_once(world: World) -> None:
    with connected(world, "ring:5") as first, connected(world, "complete:6") as second:
        for round in range(4):
            for (transport, graph), sign in ((first, 1.0), (second, -1.0)):
                heard(lambda t, i, sign=sign: np.array([sign * (10 * t + i)]))(transport, graph, round)  # type: ignore[misc]


def collect_is_in_agent_order(world: World) -> None:
    carry_out(world, "path:9", collected(1), collected(4), rounds=2)


def gather_brings_json_values_in_rank_order(world: World) -> None:
    def value(rank: int) -> object:
        long, numbers = "x" * (40_000 if rank == 1 else 0), [1 / 3, 1e-310, 2**70 + rank, -0.0]
        return [None, rank, True, "ärger \u2028 " * rank, numbers, {"nested": {"rank": [rank] * rank}}, long]

    for mine in (value(world.rank), None, [], {}, "", 0.1 + world.rank):
        answers = world.gather(mine)
        assert len(answers) == world.size
        assert json.dumps(answers[world.rank]) == json.dumps(mine)
    assert json.dumps(world.gather(value(world.rank))) == json.dumps([value(r) for r in range(world.size)])


def scrambled_path() -> nx.Graph:
    """A path in whose order names say nothing: a process hosts agents that are no range."""
    names = np.random.default_rng(5).permutation(23).tolist()
    return nx.relabel_nodes(nx.path_graph(23), dict(enumerate(names)))


def agents_may_lie_anywhere(world: World) -> None:
    """Reverse Cuthill-McKee puts a scrambled path in order."""

    def laid_out(transport: Transport, graph: nx.Graph, round: int) -> None:
        owners = transport.owners
        crossing = sum((i in own) != (j in own) for own in owners[:-1] for i, j in graph.edges)
        assert crossing <= 2 * (world.size - 1)
        assert all(len(part) <= block for own in transport.blocks for part in own)

    for block in (1, 4):
        carry_out(world, scrambled_path(), laid_out, heard(), collected(3), rounds=4, block=block)


def sums_are_exact_modulo_two_to_the_64(world: World) -> None:
    for spec in GRAPHS:
        carry_out(world, spec, summed())


def some_agents_say_nothing_to_a_sum(world: World) -> None:
    for speak in (lambda round, i: (round + i) % 3 == 0, lambda round, i: round == i, lambda round, i: False):
        carry_out(world, "erdos-renyi:9:0.4", summed(speak=speak))


def trees_change_from_round_to_round(world: World) -> None:
    """Any spanning tree gives the same total; a round without one is void everywhere."""

    def tree(graph: nx.Graph, round: int) -> Tree | None:
        order = np.random.default_rng(round).permutation(7).tolist()
        return None if round == 3 else spanning_tree(nx.Graph(pairwise(order)))

    carry_out(world, "complete:7", summed(tree))


def sums_over_blocks_that_lie_anywhere(world: World) -> None:
    graph = scrambled_path()
    names = list(graph)
    graph.add_edges_from([(names[0], names[-1]), (names[3], names[17])])
    for block in (1, 4):
        carry_out(world, graph, summed(), summed(speak=lambda round, i: (round * i) % 2 == 0), block=block)


def sums_and_exchanges_take_turns(world: World) -> None:
    carry_out(world, "grid:3x3", run_ahead, summed(), heard(), rounds=30)
    carry_out(world, "grid:3x3", run_ahead, summed(), heard(), collected(1), rounds=10)


def long_sums(world: World) -> None:
    carry_out(world, "ring:5", summed(longest=60_001), rounds=3)


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
