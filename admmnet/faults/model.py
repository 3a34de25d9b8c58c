"""Simulated trouble: agents that are away, edges that come and go, messages that are lost (docs/simulate.md).

All of it is a public, seeded function of the round, the same at every process, and independent of the records.
The receiver ignores messages that a round's trouble has lost, so every transport carries the same ones. Graphs that
take turns are those of a text file, each line of which gives rounds and their graph.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from admmnet.errors import RequestError, short
from admmnet.graph import network_of
from admmnet.graph.files import fields_of, listed, paired, text_of
from admmnet.graph.simple import Collector, Graph, parts_of
from admmnet.methods.agents import Contact, Mask

MOST_AGENTS_NAMED = 3
"""Agents whose absences a note spells out."""
LOSSES, REPEATS = 1, 5
"""Kinds of random numbers."""
_TROUBLE = 2**31
"""First word of the spawn keys of trouble: streams of agents start with the agent's number, which is smaller."""
SEED_STEP = 1000
"""Between the seeds of random graphs of two lines; a spec tries at most as many seeds."""
Edges = tuple[tuple[int, int], ...]


def fault_stream(seed: int, kind: int, round: int) -> np.random.Generator:
    """Random numbers of one kind of trouble and round; no other part of a run shares them."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_TROUBLE, kind, round))
    return np.random.Generator(np.random.PCG64(sequence))


class Span(NamedTuple):
    """Rounds first to last, inclusive; None for an open end."""

    first: int
    last: int | None

    @classmethod
    def read(cls, text: str) -> Span | None:
        """Rounds such as ``3``, ``3-9`` or ``3-``; None if the text is none of these."""
        match = re.fullmatch(r"([0-9]{1,9})(?:(-)([0-9]{1,9})?)?", text, re.ASCII)
        if match is None:
            return None
        first = int(match[1])
        return cls(first, first if match[2] is None else int(match[3]) if match[3] else None)

    def __str__(self) -> str:
        return f"{self.first}-{'' if self.last is None else self.last}"


class GraphSchedule(Struct, frozen=True):
    """Which graph is there when."""

    source: str
    """Name of the file."""
    spans: tuple[Span, ...]
    """Ascending, without gaps from round 0 on."""
    edges: tuple[Edges, ...]
    """Of the graph of each span, (lower, higher) ends in sorted order."""
    repeat: int | None
    """Rounds after which the schedule starts anew."""
    graph: Graph
    """Union of all graphs: what the run calls its graph."""

    @property
    def digest(self) -> str:
        """sha256 of the schedule, for processes that must agree on it."""
        content = repr((self.spans, self.edges, self.repeat, len(self.graph)))
        return hashlib.sha256(content.encode()).hexdigest()

    def at(self, round: int) -> int:
        """Place of a round's graph in ``edges``."""
        turn = round if self.repeat is None else round % self.repeat
        return bisect_right(self.spans, turn, key=lambda span: span.first) - 1

    def check_rounds(self, rounds: int) -> None:
        """Refuse a run that is longer than the schedule."""
        last = self.spans[-1].last
        if self.repeat is None and last is not None and last < rounds - 1:
            raise RequestError(
                f"{self.source}: the schedule ends with round {last}, but the run has rounds 0 to {rounds - 1}: leave "
                f"the end of the last line open, or add 'repeat {last + 1}'"
            )


class Absence(Struct, frozen=True):
    """Rounds in which an agent is away: first to last, inclusive; None for ever."""

    agent: int
    first: int
    last: int | None


class Links:
    """Directed edges of a connected graph with nodes 0..N-1, in the order of senders and receivers.

    Attributes
    ----------
    sender, receiver : ndarray of int, shape (links,)
        Sorted by sender, then receiver.
    back : ndarray of int, shape (links,)
        Place of every link's opposite.
    """

    def __init__(self, graph: Graph) -> None:
        edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
        self._agents = len(graph)
        self._keys = np.sort(np.concatenate([edges, edges[:, ::-1]]) @ (self._agents, 1))
        self.sender, self.receiver = np.divmod(self._keys, self._agents)
        self.back = self.place(self.receiver, self.sender)

    def place(self, sender: NDArray[np.int64], receiver: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of some links."""
        return np.asarray(np.searchsorted(self._keys, sender * self._agents + receiver))

    def mask(self, edges: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
        """Links of some of the graph's edges, both directions, shape (links,)."""
        places = self.place(*np.array(list(edges), dtype=np.int64).reshape(-1, 2).T)
        found = np.zeros(len(self._keys), dtype=bool)
        found[places] = found[self.back[places]] = True
        return found


class RoundFaults(Struct, frozen=True):
    """Faults of one round."""

    online: Mask
    """Agents that take part, shape (N,): the others neither propose nor hear nor charge."""
    present: Mask
    """Whether a link is there, shape (links,)."""
    arrives: Mask
    """Whether what is sent over a link arrives, shape (links,)."""
    links: Links

    def contact(self, sender: NDArray[np.int64], receiver: NDArray[np.int64]) -> Contact | None:
        """Faults of links from agents to some of their neighbours, by edge; None if there is none."""
        there = self.links.place(sender, receiver)
        found = Contact(self.present[there], self.arrives[there], self.arrives[self.links.back[there]])
        return None if all(mask.all() for mask in found) else found


class FaultModel:
    """All that is simulated in a run, on its graph: with a schedule, the union of its graphs.

    A message is lost with probability ``drop``, whatever becomes of others.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        drop: float = 0.0,
        absences: Sequence[Absence] = (),
        schedule: GraphSchedule | None = None,
        seed: int = 0,
    ) -> None:
        self.links, self._graph, self._everybody = Links(graph), graph, np.ones(len(graph), dtype=bool)
        self.drop, self.absences, self.schedule, self.seed = drop, tuple(absences), schedule, seed
        self._masks = [] if schedule is None else [self.links.mask(edges) for edges in schedule.edges]
        self._members: tuple[set[int], Mask] = set(), self._everybody

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """Rounds with which a start of other members begins, ascending."""
        rounds = sorted({a.first for a in self.absences} | {a.last + 1 for a in self.absences if a.last is not None})
        members = [self._everybody, *map(self.members, rounds)]
        return tuple(
            round for round, (before, now) in zip(rounds, pairwise(members), strict=True) if (before != now).any()
        )

    def members(self, round: int) -> Mask:
        """Agents of the start that a round belongs to, shape (N,).

        The largest connected part of those that are not away, of equal ones that with the lowest number; nobody where
        it is one agent.
        """
        away = {a.agent for a in self.absences if a.first <= round and (a.last is None or round <= a.last)}
        if away != self._members[0]:
            parts = parts_of(self._graph, set(self._graph) - away)
            largest = max(parts, key=len, default=set[int]())
            members = np.zeros_like(self._everybody)
            members[list(largest) if len(largest) > 1 else []] = True
            self._members = away, members
        return self._members[1]

    def at(self, round: int) -> RoundFaults:
        """Faults of a round, the same whenever and wherever it is asked for."""
        links = self.links
        online = self.members(round)
        present = online[links.sender] & online[links.receiver]
        if self.schedule is not None:
            present &= self._masks[self.schedule.at(round)]
        return RoundFaults(online, present, present & ~self._lost(round), links)

    def _lost(self, round: int) -> Mask:
        """Whether each link loses what is sent in a round, shape (links,)."""
        size = len(self.links.sender)
        if not self.drop:
            return np.zeros(size, dtype=bool)
        return np.asarray(fault_stream(self.seed, LOSSES, round).random(size) < self.drop)

    def tries(self, round: int) -> NDArray[np.int64]:
        """How often a message is sent over each link until it has arrived, shape (links,): of sums, eq. (92).

        What the round's losses take is repeated, and each repetition is lost with probability ``drop``.
        """
        lost = self._lost(round)
        again = fault_stream(self.seed, REPEATS, round).geometric(1.0 - self.drop, len(lost))
        return 1 + np.where(lost, again, 0)

    def notes(self) -> list[str]:
        """What was simulated, for the summary."""
        parts = []
        if self.schedule is not None:
            parts.append(f"the graphs of {self.schedule.source} take turns")
        if self.absences:
            named = [_words(a) for a in self.absences[:MOST_AGENTS_NAMED]]
            more = len(self.absences) - len(named)
            parts.append("; ".join(named) + (f"; {more} more absences" if more else ""))
        if self.drop:
            parts.append(f"{100 * self.drop:g} % of the messages are lost (seed {self.seed})")
        return [f"simulated trouble: {'; '.join(parts)}"]


def _words(absence: Absence) -> str:
    if absence.last is None:
        return f"agent {absence.agent} is away from round {absence.first} on"
    if absence.first == absence.last:
        return f"agent {absence.agent} is away in round {absence.first}"
    return f"agent {absence.agent} is away in rounds {absence.first} to {absence.last}"


def parse_offline(text: str, agents: int, rounds: int) -> tuple[Absence, ...]:
    """Absences such as ``3:10-19,4:25-``: agent, first and last round, an open end, or one round."""
    absences = []
    for entry in text.split(","):
        number, _, rounds_away = entry.strip().partition(":")
        span = Span.read(rounds_away)
        if span is None or re.fullmatch("[0-9]{1,9}", number, re.ASCII) is None:
            raise RequestError(
                f"offline = {text!r}: {entry.strip()!r} is not AGENT:FIRST-LAST; write 3:10-19 for agent 3 in rounds "
                "10 to 19, 3:10 for round 10 alone, 3:10- for the rest of the run"
            )
        agent, (first, last) = int(number), span
        where = f"offline = {text!r}: {entry.strip()}"
        if agent >= agents:
            raise RequestError(f"{where}: there is no agent {agent}; they are numbered 0 to {agents - 1}")
        if first >= rounds:
            raise RequestError(f"{where}: there is no round {first}; they are numbered 0 to {rounds - 1}")
        if last is not None and last < first:
            raise RequestError(f"{where}: the last round must be at least the first, {first}")
        absences.append(Absence(agent, first, last))
    return tuple(absences)


def read_schedule(path: Path, *, agents: int | None = None, seed: int = 0) -> GraphSchedule:
    """Schedule in a file, for a network of ``agents`` if given.

    Lines are ``FIRST-LAST GRAPH``, rounds inclusive, ``FIRST-`` with an open end, ``FIRST`` for one round; a graph is
    a spec, a file (relative to the schedule's folder), ``edges 0-1 2-3 ...`` or ``none``; at most one line ``repeat
    ROUNDS``; ``#`` comments. The k-th graph, if random, is tried with seed + 1000 k first.
    """
    lines, repeat = _lines(path)
    graphs = [_edges(path, number, words, seed + SEED_STEP * k) for k, (number, _, words) in enumerate(lines)]
    sizes = {size: number for (number, _, _), (_, size) in zip(lines, graphs, strict=True) if size is not None}
    count = agents if agents is not None else max(sizes, default=None)
    wrong = [size for size in sizes if size != count]
    if wrong:
        other = "--agents says" if agents is not None else f"line {sizes[max(sizes)]} has"
        raise RequestError(
            f"{path}, line {sizes[wrong[0]]}: a graph of {wrong[0]} agents where {other} {count}: all graphs of a "
            "schedule need the same agents; list single edges with 'edges 0-1 2-3'"
        )
    collector = Collector(f"{path}: union of its graphs")
    for i in range(count or 0):
        collector.agent(i)
    for edge in sorted({edge for edges, _ in graphs for edge in edges}):
        if count is not None and edge[1] >= count:
            raise RequestError(
                f"{path}: agent {edge[1]} is beyond the {count} agents of the other graphs or of --agents"
            )
        collector.edge(*edge)
    spans = tuple(span for _, span, _ in lines)
    return GraphSchedule(str(path), spans, tuple(edges for edges, _ in graphs), repeat, collector.graph())


def _lines(path: Path) -> tuple[list[tuple[int, Span, list[str]]], int | None]:
    """Number, rounds and graph of each line, and after how many rounds they begin anew."""
    found, repeat, expected = list[tuple[int, Span, list[str]]](), None, 0
    for number, (head, *words) in fields_of(text_of(path)):
        line, where = short(" ".join((head, *words))), f"{path}, line {number}"
        if head == "repeat":
            if repeat is not None or len(words) != 1 or not re.fullmatch(r"[1-9][0-9]{0,8}", words[0], re.ASCII):
                raise RequestError(
                    f"{where}: expected one line 'repeat ROUNDS' with a whole number of at least 1, got {line}"
                )
            repeat = int(words[0])
            continue
        span = Span.read(head)
        if span is None or not words:
            raise RequestError(
                f"{where}: expected rounds and a graph such as '0-9 ring:5', '10- mine.edges', '3 edges 0-1 2-3' or "
                f"'4 none', got {line}"
            )
        if found and found[-1][1].last is None:
            where = f"{path}, line {found[-1][0]}: rounds {found[-1][1]}"
            raise RequestError(f"{where} have an open end, which only the last line may have")
        if span.first != expected:
            told = "overlap with the line before" if span.first < expected else "leave a gap"
            raise RequestError(
                f"{where}: rounds {span} {told}: expected them to start with {expected}; '{expected} none' is a round "
                "without edges"
            )
        if span.last is not None and span.last < span.first:
            raise RequestError(f"{where}: rounds {span}: the last round must be at least the first, {span.first}")
        expected = (span.first if span.last is None else span.last) + 1
        found.append((number, span, words))
    if not found:
        raise RequestError(f"{path}: no graph in it; write lines such as '0-9 ring:5'")
    last = found[-1][1].last
    if repeat is not None and last != repeat - 1:
        end = "are open-ended" if last is None else f"end with round {last}"
        raise RequestError(
            f"{path}: 'repeat {repeat}' repeats rounds 0 to {repeat - 1}, but the lines {end}: end them with round "
            f"{repeat - 1}" + ("" if last is None else f", or write 'repeat {last + 1}'")
        )
    return found, repeat


def _edges(path: Path, number: int, words: list[str], seed: int) -> tuple[Edges, int | None]:
    """Edges of one line's graph, and its number of agents if it has one."""
    where = f"{path}, line {number}"
    if words[0] == "edges":
        if not words[1:]:
            raise RequestError(f"{where}: expected edges such as 'edges 0-1 2-3', or 'none', got no edge")
        return paired(words[1:], where).edges, None
    if len(words) != 1:
        raise RequestError(f"{where}: expected one graph, got {short(' '.join(words))}")
    if words[0] == "none":
        return (), None
    file = path.parent / words[0]
    try:
        if file.suffix.lower() == ".edges":  # need not join all agents
            return listed(text_of(file), str(file)).edges, None
        graph = network_of(file if file.exists() else words[0], seed=seed)
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
    return tuple(graph.edges), len(graph)
