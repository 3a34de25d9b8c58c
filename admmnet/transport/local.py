"""All agents in one process: the reference that every other transport must equal bitwise."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from admmnet.errors import RunError
from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.transport.layout import layout

if TYPE_CHECKING:
    import networkx as nx

    from admmnet.types import Matrix


class LocalWorld:
    """One process."""

    rank = 0
    size = 1
    name = "local"
    shared_folder = True
    graph = None

    def gather(self, value: Any) -> list[Any]:
        """Return the value in a list, as JSON would carry it."""
        return [json.loads(json.dumps(value))]

    def abort(self, code: int) -> NoReturn:
        """Leave."""
        sys.exit(code)

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        """Host all agents here."""
        return LocalTransport(self, graph, block)


class LocalTransport:
    """Messages handed over in memory; a receiver gets a copy, as it would over a wire."""

    def __init__(self, world: World, graph: nx.Graph, block: int = 1) -> None:
        self.world = world
        self.layout = layout(graph, block, 1)
        (self.agents,) = self.layout.owners
        self.lost: dict[int, int] = {}
        self._neighbours = {i: sorted(graph[i]) for i in self.agents}

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``."""
        return {
            i: {j: sent.copy() for j in around if (sent := outgoing[j]) is not None}
            for i, around in self._neighbours.items()
        }

    def reject(self, agent: int, fault: str) -> NoReturn:
        """See ``Transport.reject``: one loss ends all."""
        raise RunError(fault)

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        return rows.copy()

    def close(self) -> None:
        """Nothing is held."""
