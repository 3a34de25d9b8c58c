"""Agents over ZeroMQ: one process an agent, on one machine or many; all messages go over the relay (docs/hosts.md)."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from admmnet.errors import AdmmnetError, BudgetError, RequestError, RunError
from admmnet.graph.simple import Graph
from admmnet.transport import Inbox, Outgoing, Transport, Trees, World
from admmnet.transport.begun import Begun
from admmnet.transport.collective import Failed
from admmnet.transport.summing import part_of, total_of
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.topics import ROWS
from admmnet.transport.zmq.wire import BadFrame, Failure, integers, numbers, packed, payload_of, unpacked
from admmnet.types import Integers, Matrix, Total

_Spoken = list[tuple[int, bytes | None]]
"""Agents of a process, and the vector that each broadcasts."""


def figures_of(member: Member) -> dict[str, Any]:
    """Line, bytes, frames and seconds of waiting of a process until now; another thread may ask."""
    since = member.waiting.since
    waited = 0 if since is None else int(time.monotonic() - since)
    figures = {"lines": 1, "lines_up": int(member.up), "bytes_sent": member.bytes_sent, "waiting_seconds": waited}
    return figures | {"frames": {"dropped": member.dropped}}


class ZmqWorld(World):
    """Processes of one start of a run over ZeroMQ, as this one, which has formed it, sees them."""

    name, lasting = "zmq", True

    def __init__(self, member: Member, begun: Begun) -> None:
        self.member, self.shared_folder = member, member.shared_folder
        self.graph: Graph = member.graph
        self.rank, self.size = member.rank, member.size
        self.network, self.identity = member.network, member.identity
        self.start = begun

    @property
    def counts(self) -> dict[str, int]:
        """Frames of the relay that were dropped."""
        return {"dropped": self.member.dropped}

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        """See ``World.gather``."""
        if isinstance(value, Failed):  # of an account others learn nothing
            own = BudgetError.exit_code == value.code and not self.shared_folder
            value = Failure(value.code, "its budget affords no round" if own else value.text[:1000])
        said = self.member.say(topic, value)
        return [Failed(one.code, one.text) if isinstance(one, Failure) else one for one in said]

    def blame(self, agent: int, fault: str, kind: type[AdmmnetError] = RequestError) -> NoReturn:
        """See ``World.blame``: if most say so, the agent is out of the run."""
        if self.shared_folder:
            raise kind(fault).of_all()
        self.member.blame(agent, fault)

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """End every process: the relay tells the others."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.member.abort(code, reason)
        self.member.close()
        sys.exit(code)

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Connect processes whose agents are neighbours; those of two processes without an edge cannot be."""
        return ZmqTransport(self, graph, block)

    def close(self) -> None:
        """Take leave; at the end of the process this happens by itself."""
        self.member.close()


class ZmqTransport(Transport):
    """One part to each neighbour and round."""

    def __init__(self, world: ZmqWorld, graph: Graph, block: int) -> None:
        super().__init__(world, graph, block)
        self._zmq, self._member = world, world.member
        away = world.start.away if world.start is not None else {}
        self.away = {i: since for q, since in away.items() for i in self.layout.owners[q]}
        for i, j in self._crossing:
            if not world.graph.has_edge(world.rank, self._owner[j]):
                raise RequestError(f"agents {i} and {j} are neighbours in the graph, but not in the network file")

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``."""
        vectors: Inbox = {}
        payloads = {i: payload_of(sent) for i, sent in outgoing.items() if sent is not None}
        parts = {peer: packed([(i, payloads.get(i)) for i in agents]) for peer, agents in self._to.items()}
        self._member.round = round
        for peer, part in self._member.exchange(parts).items():
            vectors |= {j: numbers(sent) for j, sent in self._spoken(peer, part) if sent is not None}
        return vectors

    def _spoken(self, peer: int, payload: bytes) -> _Spoken:
        expected = self._from.get(peer, [])
        try:
            spoken: _Spoken = unpacked(payload, _Spoken) if expected else []
        except BadFrame:
            spoken = []
        if [i for i, _ in spoken] != expected or any(len(sent or b"") % 8 for _, sent in spoken):
            self._member.reject(peer, f"agent {peer} sent no vectors in a part")
        return spoken

    def reject(self, agent: int, fault: str) -> NoReturn:
        """See ``Transport.reject``: it ends the start, and the edge."""
        self._member.reject(self._owner[agent], fault)

    def accuse(self, agent: int, fault: str) -> NoReturn:
        """See ``Transport.accuse``."""
        if self._zmq.shared_folder:
            raise RunError(fault)
        self._zmq.blame(self._owner[agent], fault, RunError)

    def reduce(self, outgoing: Mapping[int, Integers | None], trees: Trees, round: int, size: int) -> Total | None:
        """See ``Transport.reduce``: up the tree of the start, whose root says the total to all (Theorem N1)."""
        count, tree = len(self._owner), trees(frozenset(self.away))
        own = part_of(self.agents, outgoing, tree, count, size)
        if tree is None:
            return None
        carrying = self._member.tree
        assert carrying is not None

        def part(children: Mapping[int, bytes]) -> bytes:
            found = own
            for child, payload in children.items():
                found = found + self._part(child, payload, own.size, carrying.branch[child])
            return payload_of(found, "<i8")

        self._member.round = round
        total = self._member.sum_up(part)
        root, found = carrying.root, integers(total) if len(total) == 8 * own.size else own[:0]
        if not len(found) or self._outside(found, tree.agents):
            self._zmq.blame(root, f"agent {root} gives {len(total)} bytes as a total, or speaks for others")
        return total_of(found, count)

    def _part(self, sender: int, payload: bytes, size: int, agents: Sequence[int]) -> Integers:
        """Sum over some agents that a neighbour has sent; it ends the start if it is none."""
        part = integers(payload) if len(payload) == 8 * size else np.zeros(0, dtype=np.int64)
        if not part.size or self._outside(part, agents):
            self.reject(sender, f"it gives {part.size} numbers to a sum of {size}, or speaks for others")
        return part

    def _outside(self, part: Integers, agents: Sequence[int]) -> bool:
        """Whether a part has somebody twice, or agents that are none of these."""
        heads = part[: len(self._owner)].copy()
        wrong = not np.isin(heads, (0, 1)).all()
        heads[list(agents)] = 0
        return wrong or bool(heads.any())

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        everything = np.full((len(self._owner), rows.shape[1]), np.nan)
        for q, said in enumerate(self._member.say(ROWS, payload_of(rows))):
            owners = list(self.layout.owners[q])
            if said is not None and len(said) != 8 * rows.shape[1] * len(owners):
                self._zmq.blame(q, f"agent {q} sent {len(said)} bytes of rows of {rows.shape[1]} numbers")
            if said is not None:
                everything[owners] = numbers(said).reshape(-1, rows.shape[1])
        return everything
