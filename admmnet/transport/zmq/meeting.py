"""The start that follows from signed words: the same at everybody who has the same words (docs/protocol.md).

A start has fixed members and edges. A fault ends it at all of them, and those that answer form the next one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from admmnet.graph.simple import Graph, parts_of, search
from admmnet.identity.keys import SIGNATURE, Identity, statement, verify
from admmnet.masking import StartKey
from admmnet.transport.zmq.wire import BadFrame, Head, Name, Round, Signed, Whole, Word, packed, read_word, unpacked
from admmnet.types import NEVER

Edge = tuple[Whole, Whole]
"""A pair of neighbours, the lower first."""
Rule = Literal["replay", "go on", "finish"]
LAPSE = 1000
"""Turns without another strike after which one is forgotten."""


class Standing(Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent brings into the next start."""

    run: Name = ""
    """Name of its run; "" where it has begun none."""
    plan: Name = ""
    """Name of the start that its rounds are planned in; "" of none."""
    shape: Name = ""
    """Digest of that start's members and edges."""
    first: Round = NEVER
    """First round of that plan, if it is that of a changed start."""
    at: Round = NEVER
    """Last round from which it can play its rounds in this plan again."""
    c: Round = NEVER
    """Highest round that it has begun, silent ones too."""
    rounds: Whole = 0
    """Rounds of its run; 0 before it knows them."""
    lines: Whole = 0
    head: Head = ""
    """Of its ledger."""


class Here(Standing, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An agent's word that it is in no start and would take part in the next one."""

    agent: Whole
    network: Name
    """Digest of its network file: of graph and keys."""
    settings: dict[Name, Name]
    """Settings as they were given: names and digests."""
    epk: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """X25519 key drawn for this word: it seals this agent's parts, and no earlier start has the name of this one."""
    least: Whole
    """Fewest members of a start that it takes part in: more than half, and more than collude in masked sums."""
    staged: Name = ""
    """Digest of the end that it has signed, if any."""
    signature: Annotated[bytes, Meta(max_length=SIGNATURE)] = b""
    """That signature."""


class Hail(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of HERE: the word behind its signature, and unsigned the newest words that the agent holds."""

    here: Annotated[bytes, Meta(max_length=2**17)]
    words: list[Signed] = []


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of START: HERE of all members, newest words of agents, each in the order of agents.

    ``cut`` are edges left out, ``void`` ends that most members of an earlier start did not sign.
    """

    here: list[bytes]
    words: list[Signed] = []
    cut: list[Edge] = []
    void: list[Name] = []


class Start(NamedTuple):
    """A start."""

    name: str
    """64 hexadecimal digits, which nobody can have known before."""
    run: str
    """Name of the run: of its first start."""
    members: list[int]
    edges: list[Edge]
    rule: Rule
    round: int
    """First round, or of a replay that from which all repeat."""
    plan: str
    """Name of the start in which its rounds are planned."""
    end: str
    """Digest of the end that a finish is about; else ""."""
    here: Mapping[int, Here]

    @property
    def giver(self) -> int:
        """The member that gives the files of the end: the lowest; of a finish, of those that have signed it."""
        return next((i for i in self.members if self.here[i].staged == self.end), self.members[0])


def outdated(one: Standing, word: Word) -> bool:
    """Whether an agent's ledger lacks lines that it has signed in a word: then its run folder is an older copy."""
    return word.lines > one.lines or (word.lines == one.lines and word.head != one.head)


def sign_here(here: Here, identity: Identity) -> bytes:
    """A word behind its signature."""
    content = packed(here)
    return identity.sign(statement("here", content)) + content


def read_here(data: bytes, keys: Sequence[str]) -> Here:
    """Undo ``sign_here``; BadFrame if no agent with one of these keys has said it, or its keys are of no use."""
    here: Here = unpacked(data[SIGNATURE:], Here)
    if here.agent >= len(keys) or not verify(keys[here.agent], data[:SIGNATURE], statement("here", data[SIGNATURE:])):
        raise BadFrame
    said = end_statement(here.network, here.run, here.staged)
    if not seals(here.epk) or (here.staged and not verify(keys[here.agent], here.signature, said)):
        raise BadFrame
    return here


@lru_cache(maxsize=4096)
def seals(epk: bytes) -> bool:
    """Whether a public key hides something: one of low order has the same secret with everybody."""
    try:
        StartKey().derive(epk, b"", b"")
    except ValueError:
        return False
    return True


def end_statement(network: str, run: str, digest: str) -> bytes:
    """What an agent signs of an end whose files it has on its disk: one digest in a run."""
    return statement("end of a run", network, run, digest)


def shape_of(members: Sequence[int], edges: Iterable[Edge]) -> str:
    """Digest of the members and edges of a start."""
    return hashlib.sha256(packed([list(members), sorted(edges)])).hexdigest()


def choose(
    said: Mapping[int, bytes],
    words: Mapping[int, bytes],
    cut: Collection[Edge],
    graph: Graph,
    void: Collection[str] = (),
) -> Call:
    """Words of the largest start that agents who are here can form without some edges."""
    members = largest(said.keys(), {*cut}, graph)
    return Call([said[i] for i in members], [words[i] for i in sorted(words)], sorted(cut), sorted(void))


def largest(there: Collection[int], cut: Collection[Edge], graph: Graph) -> list[int]:
    """Most of these agents that are connected; of several groups that with the lowest agent."""
    edges = [edge for edge in graph.edges if {*edge} <= {*there} and edge not in cut]
    parts = [sorted(part) for part in parts_of(Graph(len(graph), edges), set(there))]
    return min(parts, key=lambda part: (-len(part), part), default=[])


def form(call: Call, keys: Sequence[str], graph: Graph, quorum: int) -> Start:
    """Start that follows from words, at the relay and at every member alike.

    BadFrame if a word is not its agent's, they are not in order, or of no such start, or a ledger is an older copy.
    """
    here = {one.agent: one for one in (read_here(data, keys) for data in call.here)}
    words = {one.agent: one for one in (read_word(data, keys) for data in call.words)}
    members = sorted(here)
    edges = [edge for edge in graph.edges if {*edge} <= here.keys() and edge not in call.cut]
    if (
        [list(here), len(here)] != [members, len(call.here)]
        or [list(words), len(words)] != [sorted(words), len(call.words)]
        or call.cut != sorted({*call.cut} & {*graph.edges})
        or len(members) < quorum
        or largest(members, call.cut, graph) != members
        or len({one.network for one in here.values()}) > 1
    ):
        raise BadFrame
    pairs = [number for edge in call.cut for number in edge]
    content: list[bytes | str | int] = [*call.here, "words", *call.words, "cut", *pairs, "void", *call.void]
    name = hashlib.sha256(statement("start", *content)).hexdigest()
    run = most([one.run for one in here.values()], len(members)) or name
    if any(word.run == run and outdated(here[i], word) for i, word in words.items() if i in here):
        raise BadFrame
    rule, round, plan, end = _rule(name, run, here, edges, words, graph, call.void)
    return Start(name, run, members, edges, rule, round, plan, end, here)


def most(values: Iterable[str], of: int) -> str:
    """Text that more than half of so many say; "" if there is none."""
    ((found, count),) = Counter(filter(None, values)).most_common(1) or [("", 0)]
    return found if 2 * count > of else ""


def charged(here: Iterable[Here], words: Iterable[Word]) -> dict[int, int]:
    """Highest round of agents that they have signed themselves."""
    found = {one.agent: one.round for one in words}
    for one in here:
        found[one.agent] = max(one.c, found.get(one.agent, NEVER))
    return found


def _rule(
    name: str,
    run: str,
    here: Mapping[int, Here],
    edges: Sequence[Edge],
    words: Mapping[int, Word],
    graph: Graph,
    void: Collection[str],
) -> tuple[Rule, int, str, str]:
    """How a start goes on, its first round, the start in which that is planned, and the end that it is about."""
    said = list(here.values())
    plan, shape = said[0].plan, shape_of(list(here), edges)
    # nobody plays rounds of other members again because one says that it needs them
    first, at = most([str(one.first) for one in said], len(said)), min(one.at for one in said)
    at = max(int(first), at) if first and at > NEVER else NEVER
    masked = most([one.settings.get("trust", "") for one in said], len(said)) == setting("masked")
    same = all((one.run, one.plan, one.shape) == (run, plan, shape) for one in said)
    known = charged(said, (one for one in words.values() if one.run == run))
    c = sorted(known.get(i, NEVER) for i in graph)
    second = c[-2] if len(c) > 1 else c[-1]
    round = 0 if c[-1] == NEVER else 1 + min(c[-1], second + 1, c[(len(c) - 1) // 2] + diameter(graph))
    rounds = int(most([str(one.rounds) for one in said if one.rounds], sum(one.rounds > 0 for one in said)) or 0)
    ends = Counter(one.staged for one in said if one.staged and one.run == run and one.staged not in void)
    if rounds and round > rounds - 1 and ends:
        return "finish", round, plan, min(ends, key=lambda digest: (-ends[digest], digest))
    alike = all(one.at == at for one in said)  # stages before round 0 have no state between them
    if plan and same and at > NEVER and (alike or not (masked or at < 0)):
        return "replay", at, plan, ""
    return "go on", round, name, ""


def setting(value: Any) -> str:
    """Digest of a setting's public JSON value, as HERE has it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def diameter(graph: Graph) -> int:
    """Longest of the shortest paths of a graph, part by part."""
    return max(steps for start in graph for _, steps in search(graph, start).values())


class Strikes:
    """Faults of agents: whoever has ``most`` strikes, or one with evidence, is out of the run for good."""

    def __init__(self, most: int, out: Mapping[int, str] | None = None, cut: Mapping[Edge, str] | None = None) -> None:
        self.most, self.out, self.cut = most, dict(out or {}), dict(cut or {})
        self._faults: dict[int, list[int]] = {}

    def strike(self, agent: int, text: str, turns: int) -> None:
        """Hold a fault against an agent, in a run that has gone on for so many turns."""
        faults = self._faults.setdefault(agent, [])
        if faults and turns - faults[-1] > LAPSE:
            faults.clear()
        faults.append(turns)
        if len(faults) >= self.most:
            self.out.setdefault(agent, f"{text}; it is its fault number {len(faults)}")
