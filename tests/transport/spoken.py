"""What agents say to each other in the checks of transports, as everybody can compute it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import networkx as nx
import numpy as np

from admmnet.graph import load_topology
from admmnet.transport import Inbox, Transport, World
from admmnet.types import Vector

Say = Callable[[int, int], Vector | None]
GRAPHS = ("star:7", "ring:6", "complete:5", "path:5", "path:9", "erdos-renyi:8:0.4", "grid:2x5")
ODD = np.array([-0.0, 5e-324, np.inf, -np.inf, np.nan, 1 / 3, 1e308, 2.0**-1074])
"""Numbers whose bits a careless transport changes."""


@contextmanager
def connected(world: World, graph: nx.Graph | str, block: int = 1) -> Iterator[tuple[Transport, nx.Graph]]:
    """Transport of a graph, given as it is or by its spec."""
    graph = load_topology(graph, seed=3) if isinstance(graph, str) else graph
    transport = world.connect(graph, block)
    yield transport, graph
    transport.close()


def spoken_at(round: int, agent: int) -> Vector | None:
    """What an agent says in a round, as everybody can compute it: a third of the time nothing, lengths differ."""
    if (3 * round + 5 * agent) % 3 == 1:
        return None
    stream = np.random.default_rng([round, agent])
    return np.concatenate([stream.standard_normal(1 + (round + 2 * agent) % 6), np.roll(ODD, agent)])


def exchange_rounds(transport: Transport, graph: nx.Graph, say: Say, rounds: int) -> None:
    for round in range(rounds):
        outgoing = {i: say(round, i) for i in transport.agents}
        assert_inbox(transport.exchange(outgoing, round), transport, graph, {j: say(round, j) for j in graph})


def assert_inbox(inbox: Inbox, transport: Transport, graph: nx.Graph, outgoing: Mapping[int, Vector | None]) -> None:
    assert sorted(inbox) == [j for j in elsewhere(transport, graph) if outgoing[j] is not None]
    for j, vector in inbox.items():
        sent = outgoing[j]
        assert sent is not None
        assert vector.dtype == np.float64
        assert vector.shape == sent.shape, (j, vector.shape, sent.shape)
        assert vector.tobytes() == sent.tobytes(), j


def elsewhere(transport: Transport, graph: nx.Graph) -> list[int]:
    """Neighbours of this process's agents in other processes."""
    return sorted({j for i in transport.agents for j in graph[i]} - set(transport.agents))
