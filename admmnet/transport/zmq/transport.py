"""Agents over ZeroMQ processes: one process an agent as a rule, on one machine or many (docs/hosts.md).

Only processes that share an edge of the network talk. Vectors go straight to neighbours; what everybody must know
travels on from neighbour to neighbour.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NoReturn

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.graph.simple import Graph
from admmnet.graph.tree import spanning_tree
from admmnet.transport import Inbox, Outgoing, Transport, Trees, Words, World
from admmnet.transport.begun import Begun
from admmnet.transport.zmq.membership import Membership
from admmnet.transport.zmq.sums import Sums
from admmnet.transport.zmq.wire import Kind, as_json, check_size, numbers, payload_of
from admmnet.types import Integers, Matrix, Total, Vector


def figures_of(member: Membership) -> dict[str, Any]:
    """Lines, bytes, frames and seconds of waiting of a process until now; another thread may ask."""
    sent, links, since = member.sockets.bytes_sent, member.links.values(), member.waiting.since
    waited, up = 0 if since is None else int(time.monotonic() - since), sum(link.up for link in links)
    frames = member.mailbox.counts | {"turned away": member.sockets.door.turned_away}
    return {"lines": len(links), "lines_up": up, "bytes_sent": sent, "waiting_seconds": waited, "frames": frames}


class ZmqWorld(World):
    """Processes of one start of a run over ZeroMQ, as this one, which has formed it, sees them."""

    name, lasting = "zmq", True

    def __init__(self, member: Membership, begun: Begun) -> None:
        assert member.start is not None
        self.member, self.shared_folder = member, member.shared_folder
        self.graph: Graph = member.graph
        self.rank, self.size = member.rank, member.size
        self.network, self.identity = member.network, member.identity
        self.start = begun
        self._gathers = self._channels = 0

    @property
    def counts(self) -> dict[str, int]:
        """Frames that were not simply wanted, by what became of them, and knocks of those without a right key."""
        counts: dict[str, int] = figures_of(self.member)["frames"]
        return counts

    def gather(self, value: Any) -> list[Any]:
        """See ``World.gather``: JSON that travels on from neighbour to neighbour."""
        mine, turn = as_json(value), self._gathers
        self._gathers += 1
        shares = self.member.share(Kind.SHARE, ("gather", 0), turn, mine) | {self.rank: mine}
        return [self._value(q, shares[q]) for q in range(self.size)]

    def _value(self, process: int, share: bytes | None) -> Any:
        """JSON value that a process has shared; something else ends the start."""
        try:
            return None if share is None else json.loads(share)
        except (ValueError, RecursionError):
            self.member.lose(process, "a value that it shares with all is no JSON")
            self.member.check()
            raise RunError(f"process {process} shares a value that is no JSON") from None

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """End every process: the neighbours hear of it, tell theirs, and end with the same code."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.member.abort(code, reason)
        self.member.leave()
        sys.exit(code)

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Connect processes whose agents are neighbours; those of two processes without a link cannot be."""
        channel = self._channels
        self._channels += 1
        return ZmqTransport(self, graph, block, channel)

    def close(self) -> None:
        """Take leave of the neighbours; at the end of the process this happens by itself."""
        self.member.close()


class ZmqTransport(Transport):
    """One frame an agent and neighbouring process a round: its vector, or its silence.

    Posts go ahead of the next vectors. An agent ends a round with vectors of neighbours that have ended the one before,
    whose posts came first, and so on: it has all posts of a round once it has ended as many more as the diameter.
    """

    prompt = False

    def __init__(self, world: ZmqWorld, graph: Graph, block: int, channel: int) -> None:
        super().__init__(world, graph, block)
        self._member, self._channel = world.member, channel
        self._exchanges = self._collects = self._posts = 0
        self._open: deque[tuple[int, int, Matrix]] = deque()  # turn, round and own rows of posts that are on their way
        away = world.start.away if world.start is not None else {}
        self.away = {i: since for q, since in away.items() for i in self.layout.owners[q]}
        for i, j in self._crossing:
            if self._owner[j] not in self._member.links:
                raise RequestError(
                    f"agents {i} and {j} are neighbours in the graph, but processes {world.rank} and "
                    f"{self._owner[j]}, which host them, have no link in the network file"
                )
        whole = cache(partial(spanning_tree, graph))
        self._sums = Sums(self._member, channel, self._sweep, whole, len(graph), self.away)

    def exchange(self, outgoing: Outgoing, round: int, words: Words | None = None) -> Inbox:
        """See ``Transport.exchange``."""
        member, topic, turn = self._member, ("round", self._channel), self._exchanges
        member.next_round(round)
        # rounds may begin anywhere and come again: frames bear the number of the exchange
        self._exchanges += 1
        box = member.mailbox.begin(topic, turn)
        vectors: dict[int, Vector] = {i: sent for i, sent in outgoing.items() if sent is not None}
        crossing = {i for agents in self._to.values() for i in agents}
        payloads = {i: payload_of(vectors[i]) for i in crossing & vectors.keys()}
        for peer, agents in self._to.items():
            for i in agents:
                payload = payloads.get(i, b"")
                kind = Kind.VECTOR if i in vectors else Kind.SILENCE
                check_size(len(payload), f"the vector of agent {i}", kind)
                said = b"" if words is None else words[i]
                member.send(peer, kind, channel=self._channel, origin=i, round=turn, payload=payload, words=said)
        expected = [(q, j) for q, agents in self._from.items() for j in agents]
        member.take_turn(set(self._to), lambda: {q for q, j in expected if (q, j) not in box})
        member.mailbox.finish(topic, turn)
        sent = {j: box[q, j] for q, j in expected}
        spoken = {j: numbers(frame.payload) for j, frame in sent.items() if frame.kind is Kind.VECTOR}
        if words is not None:
            words = {**words, **{j: frame.words for j, frame in sent.items() if frame.words}}
        return self._deliver(vectors | spoken, words)

    def reduce(self, outgoing: Mapping[int, Integers | None], trees: Trees, round: int, size: int) -> Total | None:
        """See ``Transport.reduce``."""
        self._member.next_round(round)
        return self._sums.reduce(outgoing, trees, size)

    def reject(self, agent: int, fault: str) -> None:
        """See ``Transport.reject``: it ends the start."""
        self._member.lose(self._owner[agent], fault)
        self._member.check()
        raise RunError(fault)

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        turn = self._collects
        self._collects += 1
        shares = self._member.share(Kind.ROWS, ("collect", self._channel), turn, payload_of(rows))
        return self._stacked(rows, shares)

    def post(self, round: int, rows: Matrix) -> None:
        """See ``Transport.post``."""
        payload, member = payload_of(rows), self._member
        check_size(len(payload), "what a process posts", Kind.POST)
        member.mailbox.note(member.say(Kind.POST, self._channel, self._posts, payload))
        self._open.append((self._posts, round, rows))
        self._posts += 1

    def posted(self, *, last: bool = False) -> list[tuple[int, Matrix, Matrix | None]]:
        """See ``Transport.posted``; as many posts stay open as the diameter, so nobody is further ahead than that."""
        member, topic = self._member, ("post", self._channel)
        found: list[tuple[int, Matrix, Matrix | None]] = []
        while len(self._open) > (0 if last else self._member.window):
            turn, round, rows = self._open.popleft()
            shares = member.await_shares(topic, turn, member.mailbox.begin(topic, turn))
            found.append((round, rows, self._stacked(rows, shares)))
        return found

    def _stacked(self, rows: Matrix, shares: Mapping[int, bytes | None]) -> Matrix:
        """Rows of all agents from those of this process and what the others have shared, nan of lost ones."""
        width, owners = rows.shape[1], self.layout.owners
        everything = np.full((len(self._owner), width), np.nan)
        everything[list(self.agents)] = rows
        for q, content in shares.items():
            if content is None:
                continue
            if len(content) != 8 * width * len(owners[q]):
                fault = f"it has sent {len(content)} bytes of rows, where others are {width} numbers wide"
                self.reject(owners[q][0], fault)
            everything[list(owners[q])] = numbers(content).reshape(-1, width)
        return everything

    def close(self) -> None:
        """Take nothing more that belongs to this graph; after a fault what is still missing may come."""
        if self._member.start is None:
            return
        for name in ("round", "collect", "post", "up", "down"):
            self._member.mailbox.forget((name, self._channel))
