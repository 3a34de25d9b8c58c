"""Starts of a run: what agents sign as they form the next one, and the start that follows from it (docs/starts.md).

Pure: words in, a start out. Everybody who knows the same words of a number finds the same start.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from admmnet.errors import CheckFailed
from admmnet.graph.simple import Graph, parts_of
from admmnet.identity.keys import SIGNATURE, statement

Whole = Annotated[int, Meta(ge=0, lt=2**53)]
Agent = Whole
Edge = tuple[Agent, Agent]
"""Of a pair of neighbours the lower first; an agent itself is a pair with itself."""
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
HISTORY = 4
"""Numbers of which an agent remembers whose AGREE has come."""
FORGIVEN = 2
"""Missing words AGREE among them, from which on an agent is left out of the next number."""


class Word(Struct, frozen=True, forbid_unknown_fields=True, tag_field="word"):
    """What an agent says of a number; the number names the start that is being formed."""

    agent: Agent
    number: Whole


class Certificate(Struct, frozen=True, forbid_unknown_fields=True):
    """A start that was formed: its PROPOSE and the AGREE of every member, as signed."""

    propose: bytes
    agrees: tuple[bytes, ...]


class Ended(Struct, frozen=True, forbid_unknown_fields=True):
    """How a start ended at one of its members; turns are numbers of what is sent, in the order in which it is sent."""

    start: Whole
    cause: Literal["heard", "late", "down", "failed", "anew", "returned", "forged"] = "heard"
    """That others ended it; a turn that did not come; a line that is cut; its own fault; its process is new; an agent
    from outside that asked; what a neighbour sent."""
    sent: dict[Agent, Whole] = {}
    """Last turn that it has sent, by neighbour."""
    lacks: dict[Agent, Whole] = {}
    """Turn that it waited for, by neighbour."""
    late: list[Agent] = []
    """Neighbours whose turn it has lacked for half a deadline."""
    whom: list[Agent] = []
    """Of a line, a frame or a return: at which neighbours, or who asked."""
    busy: bool = False
    """Whether it has owed a turn for half a deadline, and lacked nothing."""


class Signed(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a number before: who was asked for AGREE, and whose came."""

    number: Whole
    asked: list[Agent]
    came: list[Agent]


class Here(Word, frozen=True, forbid_unknown_fields=True, tag="here"):
    """HERE: the signer takes no part in any start below this number, and may take part in this one."""

    nonce: str
    live: list[Agent] = []
    """Neighbours to which its line stands."""
    last: Certificate | None = None
    """Highest start that it knows."""
    ended: Ended | None = None
    lineage: Whole = 0
    """Last start with planned rounds of its own that it has begun."""
    charged: Annotated[int, Meta(ge=-4, lt=2**31)] = -1
    """Last round that its ledger has a charge of."""
    states: list[Annotated[int, Meta(ge=-4, lt=2**31)]] = []
    """Rounds, of this lineage, from which it can replay."""
    staged: tuple[Whole, Digest] | None = None
    """Start and digest of the end whose files it has on its disk."""
    signed: list[Signed] = []
    about: dict[str, Any] = {}
    """Public facts on which a start is planned."""


class Dispute(Word, frozen=True, forbid_unknown_fields=True, tag="dispute"):
    """DISPUTE: a neighbour says that it has sent a turn of the last start, and the signer has not got it."""

    with_: Agent = msgspec.field(name="with")


class Propose(Word, frozen=True, forbid_unknown_fields=True, tag="propose"):
    """PROPOSE: a start, and the words from which it follows."""

    words: list[Digest]
    members: list[Agent]
    edges: list[Edge]
    rule: Literal["finish", "replay", "go on"]
    round: Annotated[int, Meta(ge=-4, lt=2**31)]
    """First round, or of a replay the rounds of the state from which it goes."""
    lineage: Whole
    digest: str = ""
    """Of the end that a rule "finish" takes over."""
    strikes: list[tuple[Agent, Agent, Whole]] = []
    """Of edges, and of agents as pairs with themselves."""


class Agree(Word, frozen=True, forbid_unknown_fields=True, tag="agree"):
    """AGREE: the signer begins this start if all its members sign it."""

    proposal: Digest


class Staged(Word, frozen=True, forbid_unknown_fields=True, tag="staged"):
    """STAGED: the signer has the files of an end on its disk; of the start with this number."""

    digest: Digest


Said = Here | Dispute | Propose | Agree | Staged
_DECODER = msgspec.json.Decoder(Said)


class Rules(NamedTuple):
    """What is the same at all agents of a network."""

    graph: Graph
    quorum: int
    """Fewest members of a start."""
    strikes: int
    """Strikes at which an edge or a member is out."""
    scope: bytes
    """Digest of network file and settings, which all signatures cover."""

    def statement(self, said: bytes) -> bytes:
        """What is signed of a word."""
        return statement("start", self.scope, said)

    def read(self, data: bytes) -> tuple[Said, bytes]:
        """Return a word and its signature, which nobody has verified; CheckFailed if the bytes are none."""
        try:
            found: Said = _DECODER.decode(data[SIGNATURE:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise CheckFailed("what an agent says of a start is not written as such words are") from None
        if written(found) != data[SIGNATURE:]:
            raise CheckFailed("what an agent says of a start is written in another way than such words are")
        if found.agent >= len(self.graph):
            raise CheckFailed(f"there is no agent {found.agent}")
        return found, data[:SIGNATURE]


def written(said: Word) -> bytes:
    """Bytes of a word, without its signature."""
    return msgspec.json.encode(said)


def name_of(data: bytes) -> str:
    """sha256 of a word as signed."""
    return hashlib.sha256(data).hexdigest()


def place_of(said: Said) -> tuple[object, ...]:
    """Whose word of what it is: an honest agent says no two of one place."""
    return type(said), said.number, said.agent, said.with_ if isinstance(said, Dispute) else None


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
        for i in members:
            end = ends.get(i)
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
        """Agents that most know as asked for AGREE, and nobody else has heard: in so many of the last numbers."""
        missing = Counter[int]()
        for number in {signed.number for here in self.here.values() for signed in here.signed}:
            lists = [(i, one) for i, here in self.here.items() for one in here.signed if one.number == number]
            asked = Counter(j for _, one in lists for j in set(one.asked))
            came = {j for i, one in lists for j in one.came if i != j}
            missing.update(j for j, count in asked.items() if 2 * count > len(self.here) and j not in came)
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

    def rule(
        self, members: Sequence[int], edges: Sequence[Edge]
    ) -> tuple[Literal["finish", "replay", "go on"], int, str]:
        """Return how a start with these members and edges goes on, from which round, and the digest of an end."""
        here, base = [self.here[i] for i in members], self.base
        ends = [said.staged for said in here if said.staged is not None]
        if ends:
            return "finish", 0, max(ends)[1]
        if base is None:
            return "go on", 0, ""
        same = (members, edges) == (base.members, base.edges)
        if same and {said.lineage for said in here} == {base.lineage}:
            common = set.intersection(*(set(said.states) for said in here))
            if common:
                return "replay", max(common), ""
        charged = sorted(self.here[i].charged for i in members if i in base.members) or [-1]
        median = charged[(len(charged) - 1) // 2]
        return "go on", 1 + min(charged[-1], median + diameter(base.members, base.edges)), ""


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
