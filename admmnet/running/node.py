"""One agent in a run: what its method sees, its door and its ledger."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError, RunError
from admmnet.faults.model import RoundFaults
from admmnet.graph.simple import Graph
from admmnet.holder.answers import Ask
from admmnet.holder.door import Door, answer_all
from admmnet.methods.agent import Contact, check_vector
from admmnet.methods.base import Agent, Closing, Method
from admmnet.methods.blame import asking
from admmnet.privacy.ledger.file import Ledger
from admmnet.privacy.ledger.form import shared_total
from admmnet.solvers.radius import MOST, clip, clip_rows
from admmnet.types import Total, Vector

AT_ONCE = 2048
"""Agents whose questions are answered at once: what that takes besides the answers stays in cache."""
MOST_ASKED = 10_000
"""Questions of one agent in a round; a method that asks on after a refusal would never end."""


Proposal = Generator[Ask, Any, NDArray[Any] | None]
"""What is asked in a round, with what is said at the end."""


def proposal(method: Method, agent: Agent, door: Door, round: int) -> Proposal:
    """Ask what a method asks in a round, as the door is to answer it; return the agent's message."""
    steps, asked = method.propose(agent, round), 0
    try:
        ask = next(steps)
        while True:
            asked += 1
            if not isinstance(ask, Ask) or asked > MOST_ASKED:
                what = f"question {asked} of a round" if isinstance(ask, Ask) else type(ask).__name__
                raise RequestError(
                    f"yields {what}: it must yield Ask(measurement), at most {MOST_ASKED:,} times a round"
                )
            answer = yield ask
            agent.answered(ask.measurement, answer)
            ask = steps.send(answer)
    except StopIteration as done:
        vector: NDArray[Any] | None = done.value
    except RequestError as error:
        place = asking(steps)
        raise RequestError(f"{place}: {error}" if place else str(error)) from None
    if door.outbox is not None and door.outbox.silent(round):
        return None  # whatever a method makes of a refusal: the round was another one in an earlier start
    if vector is not None and not asked:
        door.nothing(round)
    return vector


@dataclass(slots=True)
class Node:
    """One agent of a process."""

    agent: Agent
    """Public state; all that its method sees."""
    method: Method
    door: Door
    """What answers for the agent's records."""
    ledger: Ledger
    outgoing: NDArray[Any] | None = None
    """What the agent said in this round."""

    @property
    def id(self) -> int:
        """Number of the agent."""
        return self.agent.id

    def propose(self, round: int) -> NDArray[Any] | None:
        """Carry out a ``proposal`` by this agent alone."""
        return carried_out(self.proposal(round), self.door, round)

    def proposal(self, round: int) -> Proposal:
        """Return this round's broadcast or part of a sum, or None for silence; its cost is in the ledger.

        RunError if a measurement fails; the agent then sends nothing, ever.
        """
        try:
            self.outgoing = yield from proposal(self.method, self.agent, self.door, round)
        except RunError as error:
            raise RunError(f"agent {self.id}, round {round}: {error}") from None
        if self.outgoing is not None:
            self.outgoing = held(self.method, self.outgoing)
            self.agent.releases += self.method.released_in(round)
        elif self.ledger.refused_at is None:
            self.agent.silent += 1
        return self.outgoing

    def absorb(self, inbox: Mapping[int, Vector]) -> None:
        """Take in what was said."""
        if self.outgoing is not None:
            self.count(self.agent.present, self.outgoing.size)
        agent = self.agent
        if agent.contact is not None:  # what simulated trouble has lost, no method sees
            came = dict(zip(agent.neighbours, agent.contact.hears.tolist(), strict=True))
            inbox = {j: vector for j, vector in inbox.items() if came[j]}
        self.method.absorb(agent, self.outgoing, inbox)

    def receive(self, total: Total | None) -> None:
        """Take in the round's sum; an agent that was away has said nothing."""
        self.method.receive(self.agent, self.outgoing, total)

    def count(self, messages: int, size: int) -> None:
        """Book messages of so many numbers each."""
        self.agent.sent += messages
        self.agent.numbers += messages * size

    def closing(self) -> Closing:
        """What the method adds to the summary; in simulations from what the door keeps, too."""
        return self.method.closing(self.agent, self.door.secret.kept if self.door.simulated else None)

    @property
    def spent(self) -> float | None:
        """Epsilon of its charges so far; None if infinite, without a budget, and where no proof covers the method."""
        contract = self.ledger.contract
        if contract.promise is None or not contract.covered:
            return None
        return shared_total(self.ledger.totals, contract)["epsilon_spent"]

    @property
    def theta(self) -> Vector:
        """Model of the agent, made of released vectors."""
        return self.method.model(self.agent)


def held(method: Method, said: Any, *, rows: bool = False) -> NDArray[Any]:
    """Hold what one agent says, or all by rows, to the bound of messages; a part of a sum must be exact as it is."""
    sums = method.verb == "reduce"
    shape = (*((len(said),) if rows else ()), method.sum_size if sums else method.size)
    check_vector(type(method), "propose", said, shape, "int64" if sums else "float64", RunError)
    found: NDArray[Any] = said
    return found if sums else clip_rows(found, MOST) if rows else clip(found, MOST)


def carried_out(steps: Proposal, door: Door, round: int) -> NDArray[Any] | None:
    """What is said at the end of a proposal whose questions a door answers."""
    asked: Any = next_of(steps, None)
    while isinstance(asked, Ask):
        try:
            answer: Any = door.answer(asked, round)
        except Exception as error:  # of the question's place
            answer = error
        asked = next_of(steps, answer)
    return asked.value  # type: ignore[no-any-return]


def propose_all(nodes: Sequence[Node], round: int) -> None:
    """Carry out the proposals of some agents, whose questions are answered together, those of so many at once."""
    for some in (nodes[start : start + AT_ONCE] for start in range(0, len(nodes), AT_ONCE)):
        proposals = [node.proposal(round) for node in some]
        asked: dict[int, Any] = {k: next_of(steps, None) for k, steps in enumerate(proposals)}
        while asked := {k: ask for k, ask in asked.items() if isinstance(ask, Ask)}:
            try:
                found: list[Any] = answer_all([some[k].door for k in asked], list(asked.values()), round)
            except RequestError as error:  # of a question's place: nobody was charged
                found = [error, *[None] * (len(asked) - 1)]
            told = dict(zip(asked, found, strict=True))
            failed = {k: one for k, one in told.items() if isinstance(one, Exception)}
            asked = {k: next_of(proposals[k], one) for k, one in (failed or told).items()}  # or nobody steps on


class Said(NamedTuple):
    """What a proposal ends with."""

    value: Any


def next_of(steps: Proposal, answer: Any) -> Ask | Said:
    """What is asked next, after an answer or an error; or what is said at the end."""
    try:
        return steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
    except StopIteration as done:
        return Said(done.value)


def taking_part(nodes: list[Node], faults: RoundFaults | None, graph: Graph | None = None) -> list[Node]:
    """Agents that are online in a round, with the faults around them, over the edges of a ``graph``."""
    online = [node for node in nodes if faults is None or faults.online[node.id]]
    for node in online if faults is not None or graph is not None else ():
        agent = node.agent
        agent.contact = None if faults is None else faults.contact(node.id, agent.neighbours)
        there = None if graph is None else np.isin(agent.neighbours, graph[node.id])
        if there is not None and not there.all():
            masks = (there,) * 3 if agent.contact is None else (mask & there for mask in agent.contact)
            agent.contact = Contact(*masks)
    return online
