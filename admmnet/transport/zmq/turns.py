"""Turns of a start as the relay counts them: whose is next, who owes one, and who has broken the order.

Exchanges, gathers and sums share one numbering, in the order of the program. Pure: instants are the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from admmnet.graph.simple import Graph
from admmnet.graph.tree import spanning_tree
from admmnet.transport.zmq.meeting import Start
from admmnet.transport.zmq.wire import Kind

FIRST, LEAST, LONGER = 600.0, 60.0, 20.0
"""Of an automatic deadline: seconds in the first turns, the least afterwards, and how many longest turns."""
EARLY = 10
"""Turns that may take long whatever was seen before: agents read records and plan."""


class Fault(NamedTuple):
    """A member has broken the order."""

    agent: int
    text: str


class Tree(NamedTuple):
    """The tree of a start, in which sums go up."""

    root: int
    parent: dict[int, int]
    children: dict[int, list[int]]
    branch: dict[int, list[int]]
    """Of a member itself and those below it."""


def tree_of(start: Start, agents: int) -> Tree:
    """Spanning tree of a start's members."""
    outside = [i for i in range(agents) if i not in start.here]
    found = spanning_tree(Graph(agents, start.edges), outside)
    assert found is not None  # members are connected
    parent = {i: int(found.parent[i]) for i in start.members}
    children = {i: [j for j in start.members if parent[j] == i] for i in start.members}
    return Tree(found.root, parent, children, {i: found.branch(i).tolist() for i in start.members})


class Turns:
    """Turns of a start's members, which begin it ``now``; ``names`` are those of all agents."""

    def __init__(self, start: Start, names: Sequence[str], now: float) -> None:
        self.members, self.tree, self._names = start.members, tree_of(start, len(names)), names
        self.around: dict[int, set[int]] = {i: set() for i in self.members}
        for i, j in start.edges:
            self.around[i].add(j)
            self.around[j].add(i)
        self.turn = dict.fromkeys(self.members, 0)
        """Turn that a member is in: the first that it has not done, or whose parts have not all been passed on to it.
        """
        self.since = dict.fromkeys(self.members, now)
        """Since when a member has all that it needs for its part."""
        self.longest, self.moved = 0.0, now
        self._sent: dict[int, set[int]] = {i: set() for i in self.members}
        self._done: dict[int, bool] = dict.fromkeys(self.members, False)
        self._kinds: dict[int, dict[int, Kind]] = {}
        self._given: dict[int, set[int]] = {i: set() for i in self.members}  # whose parts of its turn, or of the next
        self._early: dict[int, set[int]] = {i: set() for i in self.members}
        self._said: dict[int, set[int]] = {}
        self._open: dict[int, int] = {}  # turns with words to all: how many members wait for them

    @property
    def count(self) -> int:
        """Turns that all have behind them."""
        return min(self.turn.values())

    @property
    def furthest(self) -> int:
        """Turns that some have behind them."""
        return max(self.turn.values())

    def check(self, agent: int, turn: int, kind: Kind, to: int = -1) -> Fault | None:
        """Take in a member's frame of a turn, before it is passed on; a fault is the member's.

        ``kind`` of the total that the root says is SUM, like that of the parts which it sums.
        """
        if turn != self.turn[agent] or self._done[agent]:
            return Fault(agent, f"it sent a part of turn {turn} where its turn was {self.turn[agent]}")
        kinds = self._kinds.setdefault(turn, {})
        if kinds.setdefault(agent, kind) is not kind:
            return Fault(agent, f"it sent parts of two kinds in turn {turn}")
        root = agent == self.tree.root
        right = {Kind.PART: to in self.around[agent], Kind.SUM: to == (-1 if root else self.tree.parent[agent])}
        if not right.get(kind, to == -1) or to in self._sent[agent]:
            return Fault(agent, f"it sent a part of turn {turn} to agent {to}, for which it has none")
        if kind is Kind.SUM and any(
            kinds.get(i) is not kind or not self._has(i, turn) for i in self.tree.children[agent]
        ):
            return Fault(agent, f"it sent a sum in turn {turn} before it had those of its children")
        self._sent[agent].add(to)
        return None

    def odd(self, turn: int) -> Fault | None:
        """A member that sends another kind in a turn than most members."""
        kinds = self._kinds.get(turn, {})
        kind, count = Counter(kinds.values()).most_common(1)[0] if kinds else (Kind.PART, 0)
        if 2 * count <= len(self.members):
            return None
        wrong = [i for i, one in kinds.items() if one is not kind]
        names = {Kind.PART: "an exchange", Kind.SUM: "a sum", Kind.SAY: "a word to all"}
        text = f"it took turn {turn} for {names[kinds[wrong[0]]]}, most for {names[kind]}" if wrong else ""
        return Fault(wrong[0], text) if wrong else None

    def passed(self, agent: int, turn: int, kind: Kind, to: int, now: float) -> bool:
        """Take in that a member's frame was passed on; of words to all, whether those of all are there."""
        self.moved = now
        if kind is Kind.PART or (kind is Kind.SUM and to >= 0):
            if turn == self.turn[to]:
                self._given[to].add(agent)
                if kind is Kind.SUM:
                    self.since[to] = now
                self._move(to, now)
            elif turn == self.turn[to] + 1:
                self._early[to].add(agent)
        whole = {Kind.PART: len(self.around[agent]), Kind.SUM: 1, Kind.SAY: 1}[kind]
        if len(self._sent[agent]) < whole:
            return False
        if turn >= EARLY:
            self.longest = max(self.longest, now - self.since[agent])
        self._done[agent] = True
        if kind is Kind.PART:
            self._move(agent, now)
            return False
        if to >= 0:
            return False
        said = self._said.setdefault(turn, set())
        said.add(agent)
        return kind is Kind.SUM or len(said) == len(self.members)

    def told(self, turn: int, now: float) -> None:
        """Take in that the words of all, or a total, were passed on to all."""
        self._said.pop(turn, None)
        self._open[turn] = len(self.members)
        for agent in self.members:
            self._move(agent, now)

    def _move(self, agent: int, now: float) -> None:
        """Let a member go on to its next turn, if it has done this one and has all parts of it."""
        turn = self.turn[agent]
        if not self._done[agent]:
            return
        if self._kinds[turn][agent] is Kind.PART:
            if not self._given[agent] >= self.around[agent]:
                return
        elif turn not in self._open:
            return
        else:
            self._open[turn] -= 1
            if not self._open[turn]:
                del self._open[turn]
        self.turn[agent], self.since[agent], self._done[agent] = turn + 1, now, False
        self._sent[agent], self._given[agent], self._early[agent] = set(), self._early[agent], set()
        for old in [old for old in self._kinds if old < self.count]:
            del self._kinds[old]

    def late(self, now: float, deadline: float | None, connect: float) -> Fault | None:
        """A member that owes a turn for too long; of several one that needs no other's part of it.

        In a sum a member sends its part when it has those of its children. So nobody is late before its children, and
        in turns of another kind somebody else is late then.
        """
        for i in sorted(self.members, key=lambda i: self.turn[i]):
            if self._done[i]:
                continue
            turn = self.turn[i]
            automatic = FIRST if turn < EARLY or not self.longest else max(LEAST, LONGER * self.longest)
            most = max(connect, deadline or automatic) if not turn else deadline or automatic
            children = self.tree.children[i]
            if now - self.since[i] <= most or not all(self._has(j, turn) for j in children):
                continue
            kinds = self._kinds.get(turn, {})
            others = [j for j in children if kinds.get(j, Kind.SUM) is not Kind.SUM]
            if others:  # it may wait for a part of a sum: a turn of whatever kind most mean
                silent = sum(self.turn[j] == turn and not self._done[j] for j in self.members)
                if 2 * (silent + sum(kind is Kind.SUM for kind in kinds.values())) > len(self.members):
                    return Fault(others[0], f"it took turn {turn}, a sum, for one of another kind")
            return Fault(
                i,
                f"the part of {self._names[i]} did not come within {most:g} s (round deadline), though its line "
                "stands: it hangs, or needs a longer --round-deadline",
            )
        return None

    def _has(self, agent: int, turn: int) -> bool:
        """Whether a member has done its part of a turn."""
        return self.turn[agent] > turn or (self.turn[agent] == turn and self._done[agent])

    def wait(self, now: float) -> None:
        """Take in that members could not do their parts until now."""
        self.since = dict.fromkeys(self.members, now)

    @property
    def stuck(self) -> bool:
        """Whether all have done their part, and wait for parts that nobody owes: they mean turns of several kinds."""
        return all(self._done.values())
