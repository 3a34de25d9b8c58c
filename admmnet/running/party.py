"""The agents of a process in a run: what their method sees, and of each its door and its ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError, RunError
from admmnet.faults.model import RoundFaults
from admmnet.graph.simple import Graph
from admmnet.holder.answers import Ask
from admmnet.holder.door import Door, answer_rows
from admmnet.holder.measurements.gate import GradientNorm, HeldNorm, PublishedComparison
from admmnet.methods.agents import AgentPlan, Asks, Came, Contact, Mask, Said, Told, check_vector, is_mask, placed
from admmnet.methods.base import Closing, Method
from admmnet.methods.blame import asking, defined
from admmnet.privacy.ledger.file import Ledger
from admmnet.solvers.radius import MOST, clip_rows
from admmnet.types import Matrix, Vector

AT_ONCE = 2048
"""Agents whose questions are answered at once: what that takes besides the answers stays in cache."""
GATES = HeldNorm, GradientNorm, PublishedComparison
"""Questions that decide whether an agent speaks."""
MOST_ASKED = 10_000
"""Questions of a round; a method that asks on after a refusal would never end."""


@dataclass(slots=True)
class Node:
    """One agent of a process."""

    id: int
    """Its number."""
    door: Door
    """What answers for its records."""
    ledger: Ledger


class Party:
    """Agents of a process, ascending, and what they have said.

    Attributes
    ----------
    nodes : list of Node
    ids : tuple of int
    plans : mapping of int to AgentPlan
        What each is planned to do: in the present start, else from the first round on.
    method : Method
    agents : Agents
        As the method sees them: those of the present start.
    outgoing : Said or None
        What they said in this round, shape (B, k), a row a node; None for nothing.
    releases, sent, numbers, asked, yes, silent : ndarray, shape (B,)
        Vectors released, messages, numbers of 8 bytes in these, questions that a gate has answered, those with yes, and
        rounds without a release before any refusal.
    """

    def __init__(self, method: Method, plans: Mapping[int, AgentPlan], nodes: Sequence[Node]) -> None:
        self.nodes, self.method, self._planned, self.plans = list(nodes), method, plans, plans
        self.place = {node.id: row for row, node in enumerate(self.nodes)}
        self.ids = tuple(self.place)
        self.agents = method.agents({node.id: plans[node.id] for node in self.nodes})
        self.outgoing: Said | None = None
        counts = (np.zeros(len(self.nodes), dtype=np.int64) for _ in range(6))
        self.releases, self.sent, self.numbers, self.asked, self.yes, self.silent = counts
        self._rows = np.arange(len(self.nodes))  # of the agents of the present start
        self._rest = np.zeros((2, len(self.nodes), method.size))  # vectors and duals of all others

    def models(self) -> Matrix:
        """Models of all its agents, shape (B, size), made of released vectors."""
        found: Matrix = np.asarray(self.method.models(self.agents))
        if len(self._rows) == len(self.nodes):
            return found
        whole: Matrix = self._rest[0].copy()
        whole[self._rows] = found
        return whole

    def in_average(self) -> Mask:
        """Which of its agents the average at the end of a run counts."""
        found = np.zeros(len(self.nodes), dtype=bool)
        found[self._rows] = self.method.in_average(self.agents)
        return found

    def plan_anew(self, method: Method, plans: Mapping[int, AgentPlan]) -> None:
        """Go on with the agents of another start, who keep their vectors and duals; all others keep theirs."""
        old = self.agents
        for kept, own in zip(self._rest, (old.theta, old.dual), strict=True):
            kept[self._rows] = own
        self.method, self.agents, self.plans = method, method.agents(plans), {**self._planned, **plans}
        self._rows = np.array([self.place[i] for i in plans], dtype=np.intp)
        self.agents.theta, self.agents.dual = (kept[self._rows] for kept in self._rest)
        self.agents.releases = self.releases[self._rows]

    def brought(self) -> tuple[Matrix, Matrix, Vector]:
        """What all its agents bring to another start: vectors and duals, shape (B, size), and 1 for who has a dual."""
        theta, duals, whose = self._rest[0].copy(), self._rest[1].copy(), np.zeros(len(self.nodes))
        theta[self._rows], shared = self.agents.theta, self.method.shared(self.agents)
        if shared is not None:
            duals[self._rows], whose[self._rows] = np.where(shared[1][:, None], shared[0], 0.0), shared[1]
        if whose.any():
            away = np.delete(np.arange(len(self.nodes)), self._rows)
            whose[away] = 1.0
        return theta, duals, whose

    def taking_part(self, faults: RoundFaults | None, graph: Graph | None = None) -> Mask:
        """Who is online in a round, shape (B,); faults around the agents are theirs, over the edges of a ``graph``."""
        online = np.ones(len(self.nodes), dtype=bool) if faults is None else faults.online[list(self.place)]
        here = np.zeros_like(online)
        here[self._rows] = online[self._rows]
        agents, edges = self.agents, self.agents.edges
        agents.contact = None if faults is None else faults.contact(np.array(agents.ids)[edges.owner], edges.other)
        if graph is not None and len(edges.other):
            there = np.concatenate([np.isin(near, graph[i]) for i, near in zip(agents.ids, edges.around, strict=True)])
            if not there.all():
                masks = (there,) * 3 if agents.contact is None else (mask & there for mask in agents.contact)
                agents.contact = Contact(*masks)
        return here

    def propose(self, round: int, taking: Mask) -> None:
        """Let those that take part say something; its cost is in the ledgers.

        RunError if a measurement fails; the agent then sends nothing, ever.
        """
        method, agents = self.method, self.agents
        agents.online = taking[self._rows]
        steps, size, told = method.propose(agents, round), len(self._rows), 0
        asked = np.zeros(size, dtype=bool)
        try:
            ask = next(steps)
            while True:
                told += 1
                if not isinstance(ask, Asks) or told > MOST_ASKED:
                    what = f"question {told} of a round" if isinstance(ask, Asks) else type(ask).__name__
                    raise RequestError(
                        f"yields {what}: it must yield agents.ask(...), at most {MOST_ASKED:,} times a round"
                    )
                if not ask.fits(size):
                    raise RequestError(f"yields no question, vector and bool for each of {size} agents")
                rows = agents.online if ask.rows is None else agents.online & ask.rows
                asked |= rows
                ask = steps.send(self._answered(ask, rows, round))
        except StopIteration as done:
            said: Any = done.value
        except RequestError as error:
            place = asking(steps, type(method), error)
            raise RequestError(f"{place}: {error}" if place else str(error)) from None
        self.outgoing = self._held(said, round, asked)

    def _held(self, said: Any, round: int, asked: Mask) -> Said | None:
        """What is sent, held to the bound of messages; a part of a sum must be exact as it is."""
        method, agents, sums, many = self.method, self.agents, self.method.verb == "reduce", len(self._rows)
        if said is None:
            said = Said(np.zeros((many, 0)), np.zeros(many, dtype=bool))
        elif isinstance(said, np.ndarray):
            said = Said(said, np.ones(many, dtype=bool))
        elif not isinstance(said, Said | Told) or not is_mask(said.said, many):
            raise RunError(
                f"{defined(type(method), 'propose')}: returns {type(said).__name__}: it must be None, an array with a "
                f"row for each of {many} agents, or Said of one and as many bools"
            )
        spoke = said.said & agents.online
        nodes = [self.nodes[row] for row in self._rows]
        for row in np.flatnonzero(spoke).tolist():
            outbox = nodes[row].door.outbox
            if outbox is not None and outbox.silent(round):
                spoke[row] = False  # whatever a method makes of a refusal: it was another round in an earlier start
            elif not asked[row]:
                nodes[row].door.nothing(round)
        self.releases[self._rows] += spoke * method.released_in(round)
        refused = np.array([node.ledger.refused_at is not None for node in nodes])
        self.silent[self._rows] += agents.online & ~spoke & ~refused
        agents.releases = self.releases[self._rows]
        if not spoke.any():
            return None
        size, dtype = (method.sum_size, "int64") if sums else (method.size, "float64")
        own = said.value if spoke.all() or not isinstance(said.value, np.ndarray) else said.value[spoke]
        check_vector(type(method), "propose", own, (int(spoke.sum()), size), dtype, RunError)
        own = own if sums else clip_rows(own, MOST)
        if spoke.all():
            return Said(own, spoke)
        whole = np.zeros((many, size), dtype)
        whole[spoke] = own
        return Said(whole, spoke)

    def _answered(self, ask: Asks, rows: Mask, round: int) -> Told:
        """Let the doors of these rows answer."""
        value, used = np.zeros((len(rows), 0)), np.zeros_like(self.agents.theta)
        said, refused = np.zeros(len(rows), dtype=bool), rows.copy()
        places = np.flatnonzero(rows)
        for some in (places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE)):
            doors = [self.nodes[row].door for row in self._rows[some].tolist()]
            questions: Any = ask.questions
            reserves = [() if ask.reserve is None else (placed(ask.reserve, row),) for row in some.tolist()]
            asks = [Ask(questions[row], more) for row, more in zip(some.tolist(), reserves, strict=True)]
            carried = answer_rows(doors, asks, round, None if ask.vectors is None else ask.vectors[some])
            failed = {part.places[row]: error for part, one in carried for row, error in one.failed.items()}
            if failed:
                agent, error = self.agents.ids[some[min(failed)]], failed[min(failed)]
                raise RunError(f"agent {agent}, round {round}: {error}") if isinstance(error, RunError) else error
            for part, one in carried:
                where = some[part.places]
                refused[where], said[where] = False, one.said
                if size := one.values.shape[1]:
                    value = value if value.shape[1] else np.zeros((len(rows), size), dtype=one.values.dtype)
                    value[where] = one.values
                # public vectors of the questions
                shown = getattr(part.question, "here", None) if part.rows is None else part.rows[one.said]
                if shown is not None and np.shape(shown)[-1] == used.shape[1]:  # else it is no model's
                    used[where[one.said]] = shown
        if places.size and isinstance(ask.questions[places[0]], GATES):
            self.asked[self._rows] += rows & ~refused
            self.yes[self._rows] += said
        return Told(value if value.shape[1] else np.zeros_like(self.agents.theta), said, refused, used)

    def absorb(self, vectors: Mapping[int, Vector]) -> Came | None:
        """Take in what was said; ``vectors`` are those of other processes' agents."""
        agents, said = self.agents, self.outgoing
        if said is None:
            said = Said(np.zeros_like(agents.theta), np.zeros(len(agents), dtype=bool))
        contact = agents.contact  # who is there in this round is sent a message
        neighbours = agents.degree if contact is None else agents.edges.sum(contact.present)
        self.count(said.said * neighbours, said.value.shape[1])
        came = agents.absorb(said, vectors)
        self.method.update(agents, came)
        return came

    def count(self, messages: NDArray[Any], size: int) -> None:
        """Book messages, so many of each agent of the start, of so many numbers."""
        self.sent[self._rows] += np.asarray(messages, dtype=np.int64)
        self.numbers[self._rows] += np.asarray(messages, dtype=np.int64) * size

    def said(self) -> dict[int, NDArray[Any] | None]:
        """What every agent said in this round."""
        found: dict[int, NDArray[Any] | None] = dict.fromkeys(self.place)
        if self.outgoing is not None:
            for row in np.flatnonzero(self.outgoing.said).tolist():
                found[self.agents.ids[row]] = self.outgoing.value[row]
        return found

    def closing(self) -> Closing:
        """What the method adds to the summary; in simulations from what the first door keeps, too."""
        door = self.nodes[0].door
        return self.method.closing(self.agents, door.secret.held if door.simulated else None)
