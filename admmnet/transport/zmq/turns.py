"""Turns of a start as the relay counts them: whose is next, who owes one, and who has broken the order.

Exchanges, gathers and sums share one numbering, in the order of the program. Pure: instants are the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from admmnet.graph.simple import Graph, Tree, spanning_tree
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


def tree_of(start: Start, agents: int) -> Tree:
    """Spanning tree of a start's members, in which sums go up."""
    found = spanning_tree(Graph(agents, start.edges), [i for i in range(agents) if i not in start.here])
    assert found is not None  # members are connected
    return found


@dataclass(slots=True)
class _Turn:
    """One turn: of which kind members take it, to whom they have sent (-1: to all), whether all have all words."""

    kinds: dict[int, Kind] = field(default_factory=dict)
    sent: dict[int, set[int]] = field(default_factory=dict)
    complete: bool = False


class Turns:
    """Turns of a start's members, which begin it ``now``; ``names`` are those of all agents."""

    def __init__(self, start: Start, names: Sequence[str], now: float) -> None:
        self.start, self.members, self.tree, self._names = start, start.members, tree_of(start, len(names)), names
        self.around: dict[int, set[int]] = {i: set() for i in self.members}
        for i, j in start.edges:
            self.around[i].add(j)
            self.around[j].add(i)
        self.children = {i: [j for j in self.members if self.tree.parent[j] == i] for i in self.members}
        self.turn = dict.fromkeys(self.members, 0)
        """Turn that a member is in: the first that it has not done, or whose parts have not all been passed on to it.
        """
        self.since = dict.fromkeys(self.members, now)
        """Since when a member has all that it needs for its part."""
        self.longest, self.moved = 0.0, now
        self._turns: dict[int, _Turn] = {}  # those that somebody is in

    @property
    def count(self) -> int:
        """Turns that all have behind them."""
        return min(self.turn.values())

    def take(self, agent: int, turn: int, kind: Kind, to: int, now: float) -> Fault | None:
        """Take in a member's frame of a turn, which is passed on if there is no fault: its own, or another member's.

        ``kind`` of the total that the root says is SUM, like that of the parts which it sums.
        """
        if turn != self.turn[agent] or self._has(agent, turn):
            return Fault(agent, f"it sent a part of turn {turn} where its turn was {self.turn[agent]}")
        one = self._turns.setdefault(turn, _Turn())
        if one.kinds.setdefault(agent, kind) is not kind:
            return Fault(agent, f"it sent parts of two kinds in turn {turn}")
        sent, above = one.sent.setdefault(agent, set()), self.tree.parent[agent] if kind is Kind.SUM else -1
        if to in sent or not (to in self.around[agent] if kind is Kind.PART else to == above):
            return Fault(agent, f"it sent a part of turn {turn} to agent {to}, for which it has none")
        below = self.children[agent] if kind is Kind.SUM else ()
        if any(one.kinds.get(i) is not kind or not self._has(i, turn) for i in below):
            return Fault(agent, f"it sent a sum in turn {turn} before it had those of its children")
        sent.add(to)
        if (odd := self._odd(turn, one.kinds)) is not None:
            return odd
        self.moved = now
        if kind is Kind.SUM and self.turn.get(to) == turn:
            self.since[to] = now
        if turn >= EARLY and self._has(agent, turn):
            self.longest = max(self.longest, now - self.since[agent])
        self._move({agent, to} - {-1}, now)
        return None

    def _odd(self, turn: int, kinds: Mapping[int, Kind]) -> Fault | None:
        """A member that sends another kind in a turn than most members."""
        kind, count = Counter(kinds.values()).most_common(1)[0]
        wrong = [i for i, one in kinds.items() if one is not kind]
        if 2 * count <= len(self.members) or not wrong:
            return None
        names = {Kind.PART: "an exchange", Kind.SUM: "a sum", Kind.SAY: "a word to all"}
        return Fault(wrong[0], f"it took turn {turn} for {names[kinds[wrong[0]]]}, most for {names[kind]}")

    def passed_on(self, turn: int, now: float) -> None:
        """Take in that the words of all, or a total, were passed on to all."""
        self._turns[turn].complete = True
        self._move(self.members, now)

    def _move(self, members: Iterable[int], now: float) -> None:
        """Let members go on to their next turn that have done this one, and have all parts of it."""
        for i in members:
            one = self._turns.get(self.turn[i])
            if one is None or not self._has(i, self.turn[i]):
                continue
            parts = all(i in one.sent.get(j, ()) for j in self.around[i]) if one.kinds[i] is Kind.PART else one.complete
            if parts:
                self.turn[i], self.since[i] = self.turn[i] + 1, now
        for old in [old for old in self._turns if old < self.count]:
            del self._turns[old]

    def late(self, now: float, deadline: float | None, connect: float) -> Fault | None:
        """A member that owes a turn for too long; of several one that needs no other's part of it.

        In a sum a member sends its part when it has those of its children. So nobody is late before its children, and
        in turns of another kind somebody else is late then.
        """
        for i in sorted(self.members, key=lambda i: self.turn[i]):
            turn, children = self.turn[i], self.children[i]
            if self._has(i, turn):
                continue
            automatic = FIRST if turn < EARLY or not self.longest else max(LEAST, LONGER * self.longest)
            most = max(connect, deadline or automatic) if not turn else deadline or automatic
            if now - self.since[i] <= most or not all(self._has(j, turn) for j in children):
                continue
            kinds = self._turns[turn].kinds if turn in self._turns else {}
            others = [j for j in children if kinds.get(j, Kind.SUM) is not Kind.SUM]
            if others:  # it may wait for a part of a sum: a turn of whatever kind most mean
                silent = sum(self.turn[j] == turn and not self._has(j, turn) for j in self.members)
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
        one = self._turns.get(turn)
        if turn != self.turn[agent] or one is None or agent not in one.sent:
            return self.turn[agent] > turn
        return len(one.sent[agent]) == (len(self.around[agent]) if one.kinds[agent] is Kind.PART else 1)

    @property
    def stuck(self) -> bool:
        """Whether all have done their part, and wait for parts that nobody owes: they mean turns of several kinds."""
        return all(self._has(i, turn) for i, turn in self.turn.items())
