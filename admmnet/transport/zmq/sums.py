"""Sums over the members of a start: up a tree of the graph, then down (docs/protocol.md, "Sums")."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from admmnet.errors import RunError
from admmnet.graph.tree import Tree
from admmnet.transport import Trees
from admmnet.transport.sweep import Partial, Sweep, Unfit, check
from admmnet.transport.zmq.membership import Membership
from admmnet.transport.zmq.wire import Kind, check_size, integers, payload_of
from admmnet.types import Integers, Total


class Sums:
    """Sums of one network of the world; ``sweep`` is this process's part of a tree, ``lost`` are no members."""

    def __init__(
        self,
        member: Membership,
        channel: int,
        sweep: Callable[[Tree], Sweep],
        whole: Callable[[frozenset[int]], Tree | None],
        agents: int,
        lost: Mapping[int, int],
    ) -> None:
        self._member, self._channel, self._sweep, self._whole = member, channel, sweep, whole
        self._everybody, self._lost, self._turn = np.arange(agents), lost, 0

    def reduce(self, outgoing: Mapping[int, Integers | None], trees: Trees, size: int) -> Total | None:
        """See ``Transport.reduce``. A void round is a sum in which nobody speaks."""
        member, turn, lost = self._member, self._turn, frozenset(self._lost)
        check(outgoing, size)
        self._turn = turn + 1
        tree = trees(lost)
        if tree is None:
            tree, outgoing = self._whole(lost), {}
        if tree is None:
            raise RunError("the members are not connected: no sum can reach them")
        sweep = self._sweep(tree)
        ups = member.mailbox.begin(("up", self._channel), turn)
        downs = member.mailbox.begin(("down", self._channel), turn)
        first, most = member.step, len(self._everybody)  # who waits for others owes a later turn than they
        found = Partial()
        for piece in sweep.pieces:
            found = Partial.of(piece.agents, outgoing)
            for place in piece.below:
                member.step = first + most - int(tree.depth[place[1]])
                member.wait(lambda place=place: set() if place in ups else {place[0]})  # type: ignore[misc]
                branch = tree.branch(place[1])
                found.join(self._read(place[0], f"agent {place[1]}", ups[place].payload, size, branch))
            if piece.above is not None:
                member.step = first + most - int(tree.depth[piece.top])
                self._send(piece.above, Kind.UP, piece.top, turn, found)
        total = found.whole(tree)
        if sweep.giver is not None:
            giver, place = sweep.giver, (sweep.giver, sweep.giver)
            member.step = first + most + min(int(tree.depth[piece.top]) for piece in sweep.pieces)
            member.wait(lambda: set() if place in downs else {giver})
            total = self._read(giver, f"process {giver}", downs[place].payload, size, self._everybody)
        for process, top in sweep.takers:
            member.step = first + most + int(tree.depth[top])
            self._send(process, Kind.DOWN, member.rank, turn, total)
        member.step = first + 2 * most
        for topic in ("up", "down"):
            member.mailbox.finish((topic, self._channel), turn)
        return total.total(most)

    def _send(self, process: int, kind: Kind, origin: int, turn: int, found: Partial) -> None:
        payload = payload_of(found.words, "<i8")
        check_size(len(payload), f"the sum of agent {origin}", kind)
        self._member.sent[process] = self._member.step
        self._member.send(process, kind, channel=self._channel, origin=origin, round=turn, payload=payload)

    def _read(self, process: int, who: str, payload: bytes, size: int, agents: Integers) -> Partial:
        """Sum that a process has sent, of these agents; it ends the start if it is none."""
        try:
            return Partial.read(integers(payload), size, agents)
        except Unfit as unfit:
            self._member.lose(process, f"{who} sent {unfit}")
            self._member.check()
            raise RunError(f"{who} sent {unfit}") from None
