"""Agents over ZeroMQ processes: one process an agent as a rule, on one machine or many (docs/hosts.md).

Only processes that share an edge of the network talk. Vectors go straight to neighbours; what everybody must know
travels on from neighbour to neighbour.
"""

from __future__ import annotations

import atexit
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.transport.hosts.network import Keys, Network
from admmnet.transport.layout import layout
from admmnet.transport.zmq.failures import Lost, RunEnded
from admmnet.transport.zmq.node import Post
from admmnet.transport.zmq.sockets import Deadlines
from admmnet.transport.zmq.wire import HEADER, LIMIT, Kind, as_json, numbers, payload_of

if TYPE_CHECKING:
    import networkx as nx

    from admmnet.types import Matrix, Vector

__all__ = ["Deadlines", "Lost", "RunEnded", "ZmqTransport", "ZmqWorld"]


class ZmqWorld:
    """One process of a network of ZeroMQ processes, connected to its neighbours.

    Parameters
    ----------
    network : Network
        Addresses, public keys and edges; a process a peer.
    rank : int
        Which peer this process is, by its place in ``network.peers``.
    settings : mapping
        Public JSON values that must be the same at every process.
    keys : Keys or None
        Key pair of this process; None where the network is without CURVE.
    deadlines : Deadlines
        How long to wait.
    on_loss : str
        "stop" or "continue".
    parent : int, optional
        A pipe's file descriptor: its end of file means that the starter has died, and ends this process.
    shared_folder : bool
        Whether all processes write one run folder, for one user: then one of them reports an error of all.

    Raises
    ------
    RequestError
        If the address cannot be listened at, or a neighbour has other settings or another network file.
    RunError
        If a neighbour does not answer within the connection deadline.
    """

    name = "zmq"

    def __init__(
        self,
        network: Network,
        rank: int,
        *,
        settings: Mapping[str, Any],
        keys: Keys | None,
        deadlines: Deadlines,
        on_loss: str,
        parent: int | None = None,
        shared_folder: bool = False,
    ) -> None:
        if network.curve != (keys is not None):
            raise RequestError(
                f"agent {network.peers[rank].agent}: the network file says curve = {str(network.curve).lower()}, "
                + ("so a key file is needed" if network.curve else "so no key can be used")
            )
        if keys is not None and keys.public != network.peers[rank].public_key:
            raise RequestError(
                f"the key file of agent {network.peers[rank].agent} does not belong to its public key in the "
                "network file; copy network file and key of one `admmnet network init`"
            )
        self.rank, self.size = rank, len(network.peers)
        self.shared_folder, self.graph = shared_folder, network.graph()
        self.post = Post(
            network,
            rank,
            settings=settings,
            keys=keys,
            deadlines=deadlines,
            on_loss=on_loss,
            parent=parent,
            one_voice=shared_folder,
        )
        self._gathers = self._channels = 0
        atexit.register(self.close)
        self.post.connect()

    @property
    def counts(self) -> dict[str, int]:
        """Frames that were not simply wanted, by what became of them, and knocks of those without a right key."""
        door = self.post.lines.sockets.door
        return self.post.mailbox.counts | {"turned away": 0 if door is None else door.turned_away}

    def gather(self, value: Any) -> list[Any]:
        """See ``World.gather``: JSON that travels on from neighbour to neighbour."""
        post, topic, turn = self.post, ("gather", 0), self._gathers
        self._gathers += 1
        mine = as_json(value)
        _check_size(len(mine), "a value of a gather")
        box = post.mailbox.begin(topic, turn)
        post.lines.spread(Kind.SHARE, origin=self.rank, round=turn, payload=mine)
        others = set(range(self.size)) - {self.rank}
        post.wait(lambda: {q for q in others if (-1, q) not in box and q not in post.lost})
        post.mailbox.finish(topic, turn)
        shares = {q: box.get((-1, q)) for q in others} | {self.rank: mine}
        try:
            return [None if (share := shares[q]) is None else json.loads(share) for q in range(self.size)]
        except ValueError:
            raise RunError("a value of a gather is no JSON: processes of different versions?") from None

    def abort(self, code: int) -> NoReturn:
        """End every process: the neighbours hear of it, tell theirs, and end with the same code."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.post.abort(code)
        self.post.leave()
        sys.exit(code)

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        """Connect processes whose agents are neighbours.

        Raises
        ------
        RequestError
            If agents of two processes that have no link are neighbours in the graph.
        """
        channel = self._channels
        self._channels += 1
        return ZmqTransport(self, graph, block, channel)

    def close(self) -> None:
        """Take leave of the neighbours; at the end of the process this happens by itself."""
        self.post.close()
        atexit.unregister(self.close)


class ZmqTransport:
    """One frame an agent and neighbouring process a round: its vector, or its silence."""

    def __init__(self, world: ZmqWorld, graph: nx.Graph, block: int, channel: int) -> None:
        self.world: World = world
        self._post, self._channel = world.post, channel
        self._exchanges = self._collects = 0
        self.layout = layout(graph, block, world.size)
        self._owners = self.layout.owners
        self.agents = self._owners[world.rank]
        owner = {i: rank for rank, own in enumerate(self._owners) for i in own}
        self.lost: dict[int, int] = {}
        for process, round in self._post.lost.items():
            self._mark(process, round)
        self._post.watchers.append(self._mark)
        self._neighbours = {i: sorted(graph[i]) for i in self.agents}
        crossing = [(i, j) for i in self.agents for j in self._neighbours[i] if owner[j] != world.rank]
        for i, j in crossing:
            if owner[j] not in self._post.links:
                raise RequestError(
                    f"agents {i} and {j} are neighbours in the graph, but processes {world.rank} and {owner[j]}, "
                    "which host them, have no link in the network file"
                )
        self._to = sorted({(owner[j], i) for i, j in crossing})
        self._from = sorted({(owner[j], j) for _, j in crossing})
        if len(graph) > world.size:
            for rank, own in enumerate(self._owners):
                self._post.names[rank] = f"process {rank} ({_listed(own)})"

    def _mark(self, process: int, round: int) -> None:
        self.lost |= dict.fromkeys(self._owners[process], round)

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``; nothing is heard of lost agents."""
        post, channel, turn = self._post, self._channel, self._exchanges
        post.round = round
        self._exchanges += (
            1  # rounds may begin anywhere and come again: frames bear the number of the exchange
        )
        box = post.mailbox.begin(("round", channel), turn)
        payloads: dict[int, bytes | None] = {}
        for peer, i in self._to:
            if i not in payloads:
                sent = outgoing[i]
                payloads[i] = None if sent is None else payload_of(sent)
                _check_size(0 if sent is None else 8 * sent.size, f"the vector of agent {i}")
            payload = payloads[i]
            kind = Kind.SILENCE if payload is None else Kind.VECTOR
            post.lines.send(peer, kind, channel=channel, origin=i, round=turn, payload=payload or b"")
        expected, lost = self._from, post.lost
        post.wait(lambda: {q for q, j in expected if (q, j) not in box and q not in lost})
        post.mailbox.finish(("round", channel), turn)
        arrived: dict[int, Vector] = {i: sent for i, sent in outgoing.items() if sent is not None}
        for place in expected:
            if (content := box.get(place)) is not None:
                arrived[place[1]] = numbers(content)
        return {
            i: {j: arrived[j].copy() for j in around if j in arrived}
            for i, around in self._neighbours.items()
        }

    def reject(self, agent: int, fault: str) -> None:
        """See ``Transport.reject``: a neighbour's process is lost, and ``on_loss`` decides what that means."""
        (process,) = (rank for rank, own in enumerate(self._owners) if agent in own)
        if process == self.world.rank:
            raise RunError(fault)
        self._post.lose(process, fault)

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        post, topic, turn = self._post, ("collect", self._channel), self._collects
        self._collects += 1
        rank, size, width = self.world.rank, self.world.size, rows.shape[1]
        _check_size(8 * rows.size, "the rows of one process")
        box = post.mailbox.begin(topic, turn)
        post.lines.spread(Kind.ROWS, channel=self._channel, origin=rank, round=turn, payload=payload_of(rows))
        others = set(range(size)) - {rank}
        post.wait(lambda: {q for q in others if (-1, q) not in box and q not in post.lost})
        post.mailbox.finish(topic, turn)
        everything = np.full((sum(map(len, self._owners)), width), np.nan)
        everything[list(self.agents)] = rows
        for q in others:
            content = box.get((-1, q))
            if content is None:
                continue
            if len(content) != 8 * width * len(self._owners[q]):
                raise RunError(
                    f"{post.names[q]} has sent rows of another width than {width}: "
                    "processes of different versions?"
                )
            everything[list(self._owners[q])] = numbers(content).reshape(-1, width)
        return everything

    def close(self) -> None:
        """Take nothing more that belongs to this graph."""
        for name in ("round", "collect"):
            self._post.mailbox.forget((name, self._channel))


def _check_size(size: int, what: str) -> None:
    if HEADER + size > LIMIT:
        raise RunError(f"{what} has {size} bytes; a message carries at most {LIMIT - HEADER}")


def _listed(agents: tuple[int, ...]) -> str:
    if len(agents) > 4:
        return f"{len(agents)} agents, {agents[0]} to {agents[-1]}"
    return f"agent {agents[0]}" if len(agents) == 1 else "agents " + ", ".join(map(str, agents))
