"""Sums along a tree of processes that may be lost on the way (docs/wire.md, "Sums").

An attempt at a sum belongs to a set of lost processes. Whoever hears of another loss begins the next attempt, along a
tree without them and with the same numbers, unless it has the total already: then it hands that to everybody. News of
a loss comes before anything that is sent because of it, so the number of the lost names an attempt at both ends of a
link. All processes that go on end up with one and the same total.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from admmnet.errors import RunError
from admmnet.graph.simple import Graph
from admmnet.graph.tree import Tree, spanning_tree
from admmnet.transport import Trees
from admmnet.transport.sweep import Partial, Sweep, Unfit, check
from admmnet.transport.zmq.mailbox import Box
from admmnet.transport.zmq.membership import Membership, check_size
from admmnet.transport.zmq.wire import Kind, integers, payload_of_integers
from admmnet.types import Integers, Total


class Sums:
    """Sums of one network of the world, where ``around`` are the processes of neighbouring agents.

    ``sweep`` is this process's part of a tree, ``lost`` maps lost agents to rounds and grows.
    """

    def __init__(
        self,
        member: Membership,
        channel: int,
        sweep: Callable[[Tree], Sweep],
        around: Sequence[int],
        graph: Graph,
        lost: Mapping[int, int],
    ) -> None:
        self._member, self._channel, self._sweep = member, channel, sweep
        self._around, self._graph, self._lost = around, graph, lost
        self._everybody = np.arange(len(graph))
        self._turn, self._size = 0, 0
        self._done: tuple[int, bytes] | None = None  # the last sum's turn and total, for those that may need it
        self._given: set[int] = set()  # processes to which it was sent
        member.watchers.append(lambda process, round: self._give(self._around))

    def reduce(self, outgoing: Mapping[int, Integers | None], trees: Trees, size: int) -> Total | None:
        """See ``Transport.reduce``. A void round is a sum in which nobody speaks, so that all know of it."""
        member, turn = self._member, self._turn
        check(outgoing, size)
        self._turn, self._size = turn + 1, size
        ups = member.mailbox.begin(("up", self._channel), turn)
        downs = member.mailbox.begin(("down", self._channel), turn)
        begun, found = len(member.lost), None
        while found is None:
            found = self._told(downs, begun) or self._attempt(begun, turn, outgoing, trees, ups, downs)
        self._told(downs, begun)  # what was no total has a sender, who is named although nobody took it
        for topic in ("up", "down"):
            member.mailbox.finish((topic, self._channel), turn)
        by, total, takers = found
        self._done, self._given = (turn, _message(by, total)), set()
        # others may be at another attempt, to which what goes down the tree of this one is lost
        calm = begun == by == len(member.lost)
        self._give(takers if calm else self._around)
        return total.total(len(self._graph))

    def _attempt(
        self, begun: int, turn: int, outgoing: Mapping[int, Integers | None], trees: Trees, ups: Box, downs: Box
    ) -> tuple[int, Partial, Sequence[int]] | None:
        """One attempt: its number, the total and who needs it; None when it is over without one.

        ``begun`` processes were lost when the sum began.
        """
        member, lost = self._member, frozenset(self._lost)
        attempt = len(member.lost)
        tree = trees(lost)
        if tree is None:  # void, which has to be agreed upon like any total: others may not know of a loss yet
            tree, outgoing = spanning_tree(self._graph, lost), {}
        if tree is None:
            raise RunError("the agents left are not connected: no sum can reach them")
        sweep = self._sweep(tree)
        takers, giver = [process for process, _ in sweep.takers], sweep.giver
        found = Partial()

        def over() -> bool:
            return len(member.lost) != attempt or any(self._counts(q, begun, giver) for q, _ in downs)

        def told() -> tuple[int, Partial, Sequence[int]] | None:
            return self._told(downs, begun, giver)

        def missing(place: tuple[int, int]) -> set[int]:
            return set() if over() or (place in ups and not _older(ups[place].payload, attempt)) else {place[0]}

        for piece in sweep.pieces:
            found = Partial.of(piece.agents, outgoing)
            for place in piece.below:
                member.wait(partial(missing, place))
                if over():
                    return told()
                fault = self._join(found, place, tree, ups, attempt)
                if fault is not None:
                    member.lose(place[0], f"agent {place[1]} sent {fault}")
                    if over():
                        return told()
                    # until most of its neighbours say so, its branch says nothing
                    found.silent += tree.branch(place[1]).tolist()
            if piece.above is not None:
                payload = _message(attempt, found)
                check_size(len(payload), f"the sum of agent {piece.top}", Kind.UP)
                member.send(piece.above, Kind.UP, channel=self._channel, origin=piece.top, round=turn, payload=payload)
        if giver is None:
            return attempt, found.whole(tree), takers
        member.wait(lambda: set() if over() else {giver})
        total = told()
        return None if total is None else (total[0], total[1], takers)

    def _join(self, found: Partial, place: tuple[int, int], tree: Tree, ups: Box, attempt: int) -> str | None:
        """Take in the sum of a branch from elsewhere; what is wrong if it is none, or not of that branch."""
        words = integers(ups[place].payload)
        if words.size and words[0] != attempt:  # news of a loss would have come before
            return f"a sum of attempt {words[0]}, at which nobody can be"
        try:
            found.join(Partial.read(words[1:], self._size, tree.branch(place[1])))
        except Unfit as unfit:
            return str(unfit)
        return None

    def _counts(self, process: int, begun: int, giver: int | None) -> bool:
        """Whether a total is taken from a process: from above in the tree, after a loss from any neighbour."""
        return process == giver or len(self._member.lost) != begun

    def _told(self, downs: Box, begun: int, giver: int | None = None) -> tuple[int, Partial, Sequence[int]] | None:
        """Total that another process has; the process is lost if it is none."""
        found = None
        for place in sorted(downs):
            words = integers(downs[place].payload)
            try:
                total = Partial.read(words[1:], self._size, self._everybody)
            except Unfit as unfit:
                del downs[place]
                self._member.lose(place[0], f"process {place[0]} sent {unfit}")
                continue
            if found is None and self._counts(place[0], begun, giver):
                found = int(words[0]), total, self._around
        return found

    def forget(self) -> None:
        """Nobody needs the last total any more."""
        self._done = None

    def _give(self, processes: Sequence[int]) -> None:
        """Send the last total to processes that go on and have not had it from this one."""
        if self._done is None:
            return
        member, (turn, payload) = self._member, self._done
        for process in processes:
            if process not in self._given and process not in member.lost:
                self._given.add(process)
                place: dict[str, Any] = {"channel": self._channel, "origin": member.rank, "round": turn}
                member.send(process, Kind.DOWN, **place, payload=payload)


def _message(attempt: int, found: Partial) -> bytes:
    """Payload of an UP or DOWN: the attempt, then the sum."""
    return payload_of_integers(np.concatenate([[attempt], found.words]))


def _older(payload: bytes, attempt: int) -> bool:
    """Whether a message belongs to an attempt before this one."""
    return len(payload) >= 8 and 0 <= int(integers(payload[:8])[0]) < attempt
