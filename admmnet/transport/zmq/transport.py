"""Agents over ZeroMQ: one process an agent, on one machine or many; all messages go over the relay (docs/hosts.md)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.graph.simple import Graph
from admmnet.transport import Inbox, Outgoing, Transport, Trees, Words, World
from admmnet.transport.begun import Begun
from admmnet.transport.summing import part_of, total_of
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.wire import BadFrame, integers, numbers, packed, payload_of, unpacked
from admmnet.types import Integers, Matrix, Total, Vector

_Spoken = list[tuple[int, bytes | None, bytes]]
"""Agents of a process, what each broadcasts, and its words."""


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
        self._gathers = self._channels = 0

    @property
    def counts(self) -> dict[str, int]:
        """Frames of the relay that were dropped."""
        return {"dropped": self.member.dropped}

    def gather(self, value: Any) -> list[Any]:
        """See ``World.gather``."""
        turn = self._gathers
        self._gathers += 1
        said = self.member.say("gather", turn, json.dumps(value).encode())
        return [self._value(agent, words) for agent, words in enumerate(said)]

    def _value(self, agent: int, said: bytes | None) -> Any:
        try:
            return None if said is None else json.loads(said)
        except (ValueError, RecursionError):
            self.reject(agent, "a value that it shares with all is no JSON")

    def reject(self, agent: int, fault: str) -> NoReturn:
        """End the start because of what an agent sent."""
        self.member.lose(agent, fault)
        self.member.check()
        raise RunError(fault)

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """End every process: the relay tells the others."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.member.abort(code, reason)
        self.member.close()
        sys.exit(code)

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Connect processes whose agents are neighbours; those of two processes without an edge cannot be."""
        self._channels += 1
        return ZmqTransport(self, graph, block, self._channels)

    def close(self) -> None:
        """Take leave; at the end of the process this happens by itself."""
        self.member.close()


class ZmqTransport(Transport):
    """One frame a neighbouring process and round: what its agents broadcast."""

    def __init__(self, world: ZmqWorld, graph: Graph, block: int, channel: int) -> None:
        super().__init__(world, graph, block)
        self._zmq, self._member, self._channel = world, world.member, channel
        self._turns = dict.fromkeys(("round", "collect", "sum"), 0)
        away = world.start.away if world.start is not None else {}
        self.away = {i: since for q, since in away.items() for i in self.layout.owners[q]}
        for i, j in self._crossing:
            if not world.graph.has_edge(world.rank, self._owner[j]):
                raise RequestError(
                    f"agents {i} and {j} are neighbours in the graph, but processes {world.rank} and "
                    f"{self._owner[j]}, which host them, are none in the network file"
                )

    def _turn(self, topic: str) -> tuple[str, int]:
        """Rounds may begin anywhere and come again: what is sent bears the number of the exchange."""
        turn = self._turns[topic]
        self._turns[topic] = turn + 1
        return f"{topic} {self._channel}", turn

    def exchange(self, outgoing: Outgoing, round: int, words: Words | None = None) -> Inbox:
        """See ``Transport.exchange``."""
        place = self._turn("round")
        vectors: dict[int, Vector] = {i: sent for i, sent in outgoing.items() if sent is not None}
        payloads = {i: payload_of(vector) for i, vector in vectors.items()}
        for peer, agents in self._to.items():
            spoken: _Spoken = [(i, payloads.get(i), b"" if words is None else words[i]) for i in agents]
            self._member.send(peer, *place, packed(spoken))
        for peer, payload in self._member.take(*place, set(self._from)).items():
            for j, sent, said in self._spoken(peer, payload):
                if sent is not None:
                    vectors[j] = numbers(sent)
                if words is not None:
                    words = {**words, j: said}
        return self._deliver(vectors, words)

    def _spoken(self, peer: int, payload: bytes) -> _Spoken:
        try:
            spoken: _Spoken = unpacked(payload, _Spoken)
        except BadFrame:
            spoken = []
        if [i for i, _, _ in spoken] != self._from[peer] or any(len(sent or b"") % 8 for _, sent, _ in spoken):
            self.reject(self.layout.owners[peer][0], "it sent no vectors of its agents")
        return spoken

    def reject(self, agent: int, fault: str) -> NoReturn:
        """See ``Transport.reject``: it ends the start."""
        self._zmq.reject(self._owner[agent], fault)

    def reduce(self, outgoing: Mapping[int, Integers | None], trees: Trees, round: int, size: int) -> Total | None:
        """See ``Transport.reduce``: up to the root of the tree, and down; nobody sees more than sums of branches."""
        count, tree, (topic, turn) = len(self._owner), trees(frozenset(self.away)), self._turn("sum")
        part = part_of(self.agents, outgoing, tree, count, size)
        if tree is None:
            return None
        (own,) = self.agents
        above, below = int(tree.parent[own]), set(np.flatnonzero(tree.parent == own).tolist())
        for child, payload in self._member.take(f"{topic} up", turn, below).items():
            part += self._part(child, payload, part.size, tree.branch(child))
        if above >= 0:
            self._member.send(above, f"{topic} up", turn, payload_of(part, "<i8"))
            payload = self._member.take(f"{topic} down", turn, {above})[above]
            part = self._part(above, payload, part.size, tree.agents)
        for child in below:
            self._member.send(child, f"{topic} down", turn, payload_of(part, "<i8"))
        return total_of(part, count)

    def _part(self, sender: int, payload: bytes, size: int, agents: Sequence[int] | Integers) -> Integers:
        """Sum over some agents that a neighbour has sent; it ends the start if it is none."""
        part = integers(payload) if len(payload) == 8 * size else np.zeros(0, dtype=np.int64)
        inside = np.zeros(size, dtype=bool)
        inside[list(agents)] = True
        heads = part[: len(self._owner)]
        if not part.size or not np.isin(heads, (0, 1)).all() or heads[~inside[: len(heads)]].any():
            self.reject(sender, f"it gives {part.size} numbers to a sum of {size}, or speaks for others")
        return part

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        everything = np.full((len(self._owner), rows.shape[1]), np.nan)
        for q, said in enumerate(self._member.say(*self._turn("collect"), payload_of(rows))):
            owners = list(self.layout.owners[q])
            if said is not None and len(said) != 8 * rows.shape[1] * len(owners):
                self.reject(owners[0], f"it sent {len(said)} bytes of rows that are {rows.shape[1]} numbers wide")
            if said is not None:
                everything[owners] = numbers(said).reshape(-1, rows.shape[1])
        return everything
