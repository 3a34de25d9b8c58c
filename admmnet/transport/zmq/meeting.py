"""The start that follows from what agents say: words in, a start out, the same at everybody who has the same words.

A start has fixed members and edges. A fault ends it at all of them, and those that answer form the next one
(docs/protocol.md, "Starts").
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from admmnet.graph.simple import Graph, parts_of
from admmnet.identity.keys import SIGNATURE, Identity, statement, verify
from admmnet.transport.zmq.wire import BadFrame, Whole, packed, unpacked

Edge = tuple[Whole, Whole]
"""A pair of neighbours, the lower first; an agent itself is a pair with itself."""
Round = Annotated[int, Meta(ge=-4, lt=2**31)]
Rule = Literal["replay", "go on"]


class Last(Struct, frozen=True, forbid_unknown_fields=True):
    """The last start in which an agent took part."""

    number: Whole
    members: list[Whole]
    edges: list[Edge]
    round: Round
    lineage: Whole


class Here(Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent says: it is in no start, and would take part in the next one."""

    agent: Whole
    network: str
    """Digest of its network file."""
    nonce: str
    """64 hexadecimal digits drawn for this word: no start that was formed without it bears the same name."""
    run: str = ""
    """Name of its run; "" where it has charged nothing."""
    last: Last | None = None
    lineage: Whole = 0
    """Last start with planned rounds of its own that it has begun."""
    charged: Round = -1
    """Last round that its ledger has a charge of."""
    states: list[Round] = []
    """Rounds, of this lineage, from which it can replay."""
    begun: bool = False
    """Whether it has a folder of the run."""
    away: dict[Whole, Whole] = {}
    """Agents that took no part as far as it knows, and since which round."""


class Start(NamedTuple):
    """A start."""

    name: str
    """64 hexadecimal digits, which nobody can have known before."""
    number: int
    members: list[int]
    edges: list[Edge]
    rule: Rule
    round: int
    """First round, or of a replay the rounds of the state from which it goes."""
    lineage: int
    here: Mapping[int, Here]


def signed(here: Here, identity: Identity) -> bytes:
    """A word with its signature."""
    content = packed(here)
    return identity.sign(statement("here", content)) + content


def read(word: bytes, keys: Sequence[str]) -> Here:
    """Undo ``signed``; BadFrame if no agent with one of these keys has said it."""
    here: Here = unpacked(word[SIGNATURE:], Here)
    if here.agent >= len(keys) or not verify(keys[here.agent], word[:SIGNATURE], statement("here", word[SIGNATURE:])):
        raise BadFrame
    return here


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of START: words HERE, and pairs that are struck out."""

    words: list[bytes]
    out: list[Edge] = []


def form(call: Call, keys: Sequence[str], graph: Graph, quorum: int) -> Start | None:
    """Start that follows from some words, by agents of this graph; None if fewer than a quorum would be in it.

    BadFrame if a word is not its agent's, or they are not of one network and run.
    """
    here = {one.agent: one for one in (read(word, keys) for word in call.words)}
    if len({one.network for one in here.values()}) > 1 or len({one.run for one in here.values()} - {""}) > 1:
        raise BadFrame
    there = {i for i in here if (i, i) not in call.out}
    edges = [edge for edge in graph.edges if there.issuperset(edge) and edge not in call.out]
    parts = sorted(parts_of(Graph(len(graph), edges), there), key=lambda part: (-len(part), min(part)))
    members = sorted(parts[0]) if parts else []
    if len(members) < quorum:
        return None
    edges = [edge for edge in edges if edge[0] in members]
    base = max((one.last for one in here.values() if one.last is not None), key=lambda last: last.number, default=None)
    number = 0 if base is None else base.number + 1
    rule, round = _rule([here[i] for i in members], edges, base)
    lineage = number if rule == "go on" or base is None else base.lineage
    said = [part for edge in sorted(call.out) for part in edge]
    name = hashlib.sha256(statement("start", *(word[SIGNATURE:] for word in sorted(call.words)), *said)).hexdigest()
    return Start(name, number, members, edges, rule, round, lineage, {i: here[i] for i in members})


def _rule(here: Sequence[Here], edges: Sequence[Edge], base: Last | None) -> tuple[Rule, int]:
    """How a start goes on, and from which round."""
    if base is None:
        return "go on", 0
    members = [one.agent for one in here]
    if (members, list(edges)) == (base.members, base.edges) and {one.lineage for one in here} == {base.lineage}:
        common = set.intersection(*(set(one.states) for one in here))
        if common:
            return "replay", max(common)
    charged = sorted(one.charged for one in here if one.agent in base.members) or [-1]
    median = charged[(len(charged) - 1) // 2]  # so that a liar cannot end the run by a false word
    first = 1 + min(charged[-1], median + diameter(base.members, base.edges))
    return "go on", max(base.round, first)


def diameter(members: Collection[int], edges: Collection[Edge]) -> int:
    """Longest of the shortest paths between members of a connected graph."""
    graph, longest = Graph(1 + max(members, default=0), edges), 0
    for start in members:
        seen, front, steps = {start}, {start}, 0
        while front := {j for i in front for j in graph[i]} - seen:
            seen |= front
            steps += 1
        longest = max(longest, steps)
    return longest


def end_statement(network: str, run: str, digest: str) -> bytes:
    """What an agent signs of an end whose files it has on its disk: one digest in a run."""
    return statement("end of a run", network, run, digest)
