"""The agents of this process as one, for methods that compute by rows: the same bits as agent by agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from admmnet.errors import RunError
from admmnet.holder.answers import REFUSED, Answer, Ask
from admmnet.holder.door import Door, answer_rows
from admmnet.methods.agent import ReleasedRows
from admmnet.methods.rows import AgentRows, rows_of
from admmnet.running.node import AT_ONCE, Node, carried_out, held, proposal
from admmnet.types import BEFORE, Total, Vector


class Together:
    """Agents of this process that propose, and take in what is said, as one."""

    outbox = None

    def __init__(self, nodes: Sequence[Node], rows: AgentRows, state: Any) -> None:
        self._nodes, self._rows, self._state, self._method = nodes, rows, state, nodes[0].method
        pieces = [slice(start, start + AT_ONCE) for start in range(0, len(nodes), AT_ONCE)]
        self._doors = [(some, [node.door for node in nodes[some]]) for some in pieces]
        self._said: ReleasedRows | None = None

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Together | None:
        """Agents as one; None where the method, or their states, are not such, or a door repeats earlier answers."""
        method: Any = nodes[0].method if nodes else None
        plain = all(type(node.door) is Door and not _repeats(node.door) for node in nodes)
        if not (plain and vars(type(method)).get("by_rows", False)):
            return None
        found = rows_of([node.agent for node in nodes], summing=method.verb == "reduce")
        return None if found is None else cls(nodes, *found)

    def propose(self, round: int) -> None:
        """Let all agents propose; errors as of ``Node.proposal``."""
        method: Any = self._method
        said: Any = carried_out(proposal(method, self._rows, self, round), self, round)  # type: ignore[arg-type]
        if said is not None:
            said = said._replace(value=held(method, said.value, rows=True))
        self._said, released = said, method.released_in(round)
        for node, row, spoke in () if said is None else zip(self._nodes, said.value, said.said.tolist(), strict=True):
            if spoke:
                node.outgoing = row
                node.agent.releases += released

    def answer(self, ask: Ask, round: int) -> ReleasedRows | Answer:
        """Let all doors answer; ``REFUSED`` where nobody is told anything."""
        rows: Any = ask.measurement
        value, said = np.zeros((0, 0)), np.zeros(len(self._rows.agents), dtype=bool)
        for some, doors in self._doors:
            vectors = None if rows.vectors is None else rows.vectors[some]
            told = answer_rows(doors, [Ask(one) for one in rows.questions[some]], round, vectors)
            failed = {part.places[row]: error for part, one in told for row, error in one.failed.items()}
            for place in sorted(failed)[:1]:
                agent, error = self._rows.agents[some][place], failed[place]
                raise RunError(f"agent {agent.id}, round {round}: {error}") if isinstance(error, RunError) else error
            for part, one in told:
                spoke = [row for row, own in enumerate(one.values) if isinstance(own, np.ndarray)]
                if not spoke:
                    continue
                vectors = np.asarray(one.values if len(spoke) == len(part.places) else [one.values[k] for k in spoke])
                value = value if value.size else np.zeros((len(said), vectors.shape[1]), vectors.dtype)
                own = np.add(part.places, some.start)[spoke]
                value[own], said[own] = vectors, True
        return ReleasedRows(value, said) if said.any() else REFUSED

    def nothing(self, round: int) -> None:
        """Note what asked nothing."""
        for node in self._nodes:
            node.door.nothing(round)

    def absorb(self, heard: Mapping[int, Vector]) -> None:
        """Take in what was said, in other processes as ``heard``."""
        for node in self._nodes:
            if node.outgoing is not None:
                node.count(node.agent.degree, node.outgoing.size)
        method: Any = self._method
        method.absorb(self._rows, self._said, heard)
        self._state.give_back(self._rows.agents, whole=False)

    def receive(self, total: Total | None) -> None:
        """Take in a sum."""
        method: Any = self._method
        method.receive(self._rows, None, total)
        self._state.give_back(self._rows.agents, whole=False)

    def settle(self) -> None:
        """Give every agent all of its state."""
        self._state.give_back(self._rows.agents, whole=True)


def _repeats(door: Door) -> bool:
    """Whether a door may repeat answers, or be silent where it has answered."""
    return door.outbox is not None and door.outbox.known(BEFORE + 1)
