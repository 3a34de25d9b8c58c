"""The start that follows from the words of one number: who is in it, over which edges, and how it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from admmnet.graph.simple import Graph, parts_of
from admmnet.transport.starts import Dispute, Edge, Ended, Here, Propose, Rules, Said

FORGIVEN = 2
"""Missing words AGREE among those remembered, from which on an agent is left out of the next number."""


@dataclass(frozen=True)
class Words:
    """Words of one number, HERE and DISPUTE, as signed, by their hashes."""

    rules: Rules
    said: Mapping[str, Said]
    last: Mapping[str, Propose]
    """Of words HERE with a certificate that holds, the start of it."""

    @cached_property
    def here(self) -> dict[int, Here]:
        """HERE of every agent that has said one."""
        found = [said for said in self.said.values() if isinstance(said, Here)]
        once = Counter(said.agent for said in found)
        return {said.agent: said for said in sorted(found, key=lambda said: said.agent) if once[said.agent] == 1}

    @cached_property
    def base(self) -> Propose | None:
        """Highest start that anybody knows."""
        return max(self.last.values(), key=lambda last: last.number, default=None)

    @cached_property
    def ends(self) -> dict[int, tuple[int, str]]:
        """Start and digest of the ends that agents say they have staged, where that can be.

        The signer knows that start, or a later one; it was in it, and its rule "finish" took over no other end.
        """
        found, starts = dict[int, tuple[int, str]](), {last.number: last for last in self.last.values()}
        for name, last in self.last.items():
            said = self.said[name]
            if isinstance(said, Here) and said.staged is not None and said.staged[0] <= last.number:
                start = starts.get(said.staged[0])
                if start is None or (said.agent in start.members and start.digest in ("", said.staged[1])):
                    found[said.agent] = said.staged
        return found

    @cached_property
    def strikes(self) -> Counter[Edge]:
        """Strikes of edges and agents, with those that the end of the last start brings."""
        found = Counter({(i, j): count for i, j, count in self.base.strikes} if self.base is not None else {})
        disputed = {_edge(said.agent, said.with_) for said in self.said.values() if isinstance(said, Dispute)}
        for culprit in self._culprits() - disputed:
            found[culprit] += 1
        return found | Counter(dict.fromkeys(disputed, self.rules.strikes))

    def _culprits(self) -> set[Edge]:
        """Edges and agents on which complaints about the last start end; every end leads to one of its maker's."""
        base, found = self.base, set[Edge]()
        if base is None:
            return found
        edges, members = set(base.edges), self.here.keys() & set(base.members)
        own = {i: self.here[i].ended for i in members}
        ends = {i: end for i, end in own.items() if end is not None and end.start == base.number}
        most = len(base.members) // 2
        heard = Counter(j for end in ends.values() if end.cause == "heard" for j in set(end.whom))
        # these have ended it by a word, and say now that they have only heard of its end
        found |= {(j, j) for j, count in heard.items() if count > most and j in ends and ends[j].cause == "heard"}
        vain = sum(end.cause == "failed" for end in ends.values()) > most  # it could not be done: nobody's fault
        if vain and base.rule == "finish":  # but of those that have said that they have the files
            said = {i: self.here[i].staged for i in members}
            found |= {(i, i) for i, staged in said.items() if staged is not None and staged[1] == base.digest}
        for i in members:
            end = ends.get(i)
            if end is not None and end.cause == "failed" and vain:
                continue
            if end is None:  # neighbours that have begun this start have sent it all that it needed
                found |= {edge for edge in edges if i in edge and sum(edge) - i in ends}
                continue
            if end.cause in ("failed", "anew") or not (end.late or end.whom):
                found.add((i, i))
                continue
            if end.cause == "returned":
                found |= {(j, j) if j in self.here and j not in members else (i, i) for j in end.whom}
            late = [(j, True) for j in end.late]
            for j, waited in late if end.cause in ("heard", "returned") else late + [(j, False) for j in end.whom]:
                other = ends.get(j)
                if _edge(i, j) not in edges:
                    found.add((i, i))
                elif other is None or other.cause in ("failed", "anew"):
                    continue  # it has a strike already, or when it comes back
                elif waited and other.busy:
                    found.add((j, j))
                elif not (waited and _waits(other, end.lacks.get(j, 0))):
                    found.add(_edge(i, j))
        return found

    @cached_property
    def mute(self) -> set[int]:
        """Agents that most know as asked for AGREE, and no quorum as having said it: in so many of the last numbers.

        An agent's own word counts as any other one: so liars cannot vouch for each other.
        """
        missing = Counter[int]()
        for number in {signed.number for here in self.here.values() for signed in here.signed}:
            once = {i: one for i, here in self.here.items() for one in here.signed if one.number == number}
            asked = Counter(j for one in once.values() for j in set(one.asked))
            came = Counter(j for one in once.values() for j in set(one.came))
            most = {j for j, count in asked.items() if 2 * count > len(self.here)}
            missing.update(j for j in most if came[j] < self.rules.quorum)
        return {j for j, count in missing.items() if count >= FORGIVEN}

    def out(self, edge: Edge) -> bool:
        """Whether an edge or an agent is struck out."""
        return self.strikes[edge] >= self.rules.strikes > 0

    def choose(self, agent: int, number: int) -> Propose | None:
        """Return the start that follows, as proposed by an agent; None where too few would be in it."""
        there = {i for i in self.here.keys() - self.mute if not self.out((i, i))}
        live = {i: set(here.live) for i, here in self.here.items()}
        edges = [
            (i, j)
            for i, j in self.rules.graph.edges
            if i in there and j in there and j in live[i] and i in live[j] and not self.out((i, j))
        ]
        parts = sorted(parts_of(Graph(len(self.rules.graph), edges), there), key=lambda part: (-len(part), min(part)))
        members = sorted(parts[0]) if parts else []
        if len(members) < self.rules.quorum:
            return None
        kept = [(i, j) for i, j in edges if i in members]
        rule, round, digest = self.rule(members, kept)
        lineage = number if rule == "go on" or self.base is None else self.base.lineage
        strikes = [(i, j, count) for (i, j), count in sorted(self.strikes.items())]
        return Propose(agent, number, sorted(self.said), members, kept, rule, round, lineage, digest, strikes)

    def turns(self, number: int) -> list[int]:
        """Agents that are there, in the order in which they may propose."""
        return sorted(self.here, key=lambda i: (i - number) % len(self.rules.graph))

    def foreseen(self, number: int) -> Propose | None:
        """First start of all, once all words of it are there: nobody needs its proposal to agree to it."""
        if self.base is not None or len(self.here) < len(self.rules.graph):
            return None
        choice = self.choose(self.turns(number)[0], number)
        return choice if self.whole(choice) else None

    def whole(self, choice: Propose | None) -> bool:
        """Whether all lines are in a start between agents that are there, but for those that are struck out."""
        there = {i for i in self.here if not self.out((i, i))}
        lines = [(i, j) for i, j in self.rules.graph.edges if {i, j} <= there and not self.out((i, j))]
        return choice is not None and choice.edges == lines

    def rule(
        self, members: Sequence[int], edges: Sequence[Edge]
    ) -> tuple[Literal["finish", "replay", "go on"], int, str]:
        """Return how a start with these members and edges goes on, from which round, and the digest of an end."""
        here, base = [self.here[i] for i in members], self.base
        ends = [self.ends[i] for i in members if i in self.ends]
        if ends:
            last, _ = max(ends)
            named = Counter(digest for number, digest in ends if number == last)
            return "finish", 0, max(named, key=lambda digest: (named[digest], digest))
        if base is None:
            return "go on", 0, ""
        same = (members, edges) == (base.members, base.edges)
        if same and {said.lineage for said in here} == {base.lineage}:
            common = set.intersection(*(set(said.states) for said in here))
            if common:
                return "replay", max(common), ""
        charged = sorted(self.here[i].charged for i in members if i in base.members) or [-1]
        median = charged[(len(charged) - 1) // 2]
        first = 1 + min(charged[-1], median + diameter(base.members, base.edges))
        return "go on", first if base.rule == "finish" else max(base.round, first), ""


def _edge(i: int, j: int) -> Edge:
    return (i, j) if i < j else (j, i)


def _waits(end: Ended, turn: int) -> bool:
    """Whether an agent that owes a turn was itself failed by others, in what comes before it."""
    return any(end.lacks.get(j, turn) < turn for j in end.late)


def diameter(members: Collection[int], edges: Collection[Edge]) -> int:
    """Longest of the shortest paths between members of a connected graph."""
    graph = Graph(1 + max(members, default=0), edges)
    longest = 0
    for start in members:
        seen, front, steps = {start}, {start}, 0
        while front := {j for i in front for j in graph[i]} - seen:
            seen |= front
            steps += 1
        longest = max(longest, steps)
    return longest
