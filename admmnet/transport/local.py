"""All agents in one process: the reference that every other transport must equal bitwise."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from admmnet.transport import Inbox, Outgoing, Transport, Trees, World
from admmnet.transport.collective import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admmnet.graph.simple import Graph
    from admmnet.types import Integers, Matrix, Total


class LocalWorld(World):
    """One process."""

    rank, size, name = 0, 1, "local"
    shared_folder = lasting = True

    def __init__(self, *, lasting: bool = True) -> None:
        self.lasting = lasting

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        """Return the value in a list, as JSON would carry it."""
        return [value if isinstance(value, Failed) else json.loads(json.dumps(value))]

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """Leave."""
        sys.exit(code)

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Host all agents here."""
        return LocalTransport(self, graph, block)


class LocalTransport(Transport):
    """All agents are in this process: what they say is there already."""

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``."""
        return {}

    def reduce(self, outgoing: Mapping[int, Integers | None], trees: Trees, round: int, size: int) -> Total | None:
        """See ``Transport.reduce``."""
        from admmnet.transport.summing import part_of, total_of  # here: the command line starts faster

        count = len(self._owner)
        return total_of(part_of(self.agents, outgoing, trees(frozenset()), count, size), count)

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        return rows.copy()
