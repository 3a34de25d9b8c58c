"""Simulated trouble: agents that are away, edges that come and go, messages that are lost (docs/simulate.md).

All of it is a public, seeded function of the round, the same at every process, and independent of the records.
The receiver ignores messages that a round's trouble has lost, so every transport carries the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.faults.schedule import GraphSchedule, Span
from admmnet.graph.simple import Graph, parts_of
from admmnet.methods.agents import Contact, Mask

MOST_AGENTS_NAMED = 3
"""Agents whose absences a note spells out."""
LOSSES, REPEATS = 1, 5
"""Kinds of random numbers."""
_TROUBLE = 2**31
"""First word of the spawn keys of trouble: streams of agents start with the agent's number, which is smaller."""


def fault_stream(seed: int, kind: int, round: int) -> np.random.Generator:
    """Random numbers of one kind of trouble and round; no other part of a run shares them."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_TROUBLE, kind, round))
    return np.random.Generator(np.random.PCG64(sequence))


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

    def contact(self, agents: Sequence[int], around: Sequence[Sequence[int]]) -> Contact | None:
        """Faults around agents and all or some of their neighbours, by edge; None if there is none."""
        sender = np.repeat(np.array(agents, dtype=np.int64), [len(near) for near in around])
        there = self.links.place(sender, np.array([j for near in around for j in near], dtype=np.int64))
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
        self._away = np.array(
            [(a.agent, a.first, np.iinfo(np.int64).max if a.last is None else a.last) for a in absences], dtype=np.int64
        ).reshape(-1, 3)
        self._members: tuple[tuple[int, ...], Mask] = (), self._everybody

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
        agent, first, last = self._away.T
        away = tuple(np.unique(agent[(first <= round) & (round <= last)]).tolist())
        if away != self._members[0]:
            parts = parts_of(self._graph, set(self._graph).difference(away))
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
