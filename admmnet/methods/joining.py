"""The joining gate: the largest agents speak from the first round, the others where they are needed.

docs/methods.md, eqs. (80)-(89); docs/proofs.md, Theorem 22.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from admmnet.graph.simple import Graph, parts_of
from admmnet.holder.answers import Ask, Asking, Released
from admmnet.holder.measurements import GradientNorm, PerturbedMinimiser
from admmnet.methods.agent import vector_of
from admmnet.methods.base import Agent, AgentPlan, Contact, Facts, Mask
from admmnet.methods.consensus import ConsensusState
from admmnet.methods.convexity import typical_penalty
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Target
from admmnet.types import Vector

SLACK, LEAST_CORE = 0.95, 3
"""Share of the best signal-to-noise that the core keeps, and its fewest agents: eq. (80)."""
ASKED_IN = (1, 4, 8)
"""Rounds in which a listener is asked, until its yes; the first round is 0."""
TAU = 4.0
"""Threshold over the noise of the agent's own releases, eq. (84)."""


def core_of(counts: Mapping[int, int]) -> frozenset[int]:
    """Agents that speak from the first round on, eq. (80): the longest prefix by size near the best signal-to-noise."""
    order = sorted(counts, key=lambda i: (-counts[i], i))
    records, ratios = 0, []
    for size, i in enumerate(order, 1):
        records += counts[i]
        ratios.append(records / math.sqrt(size))
    enough = SLACK * max(ratios)
    longest = max(size for size, ratio in enumerate(ratios, 1) if ratio >= enough)
    return frozenset(order[: max(longest, LEAST_CORE)])


def relays_of(graph: Graph, core: frozenset[int]) -> frozenset[int]:
    """Agents on short paths between the parts of the core, eq. (81), as Mehlhorn (1988) finds a Steiner tree."""
    parts = {i: part for part, own in enumerate(parts_of(graph, core)) for i in own}
    hops, before, waiting = dict.fromkeys(sorted(core), 0), dict[int, int](), deque(sorted(core))
    while waiting:
        i = waiting.popleft()
        for j in sorted(graph[i]):
            if j not in hops:
                hops[j], before[j], parts[j] = hops[i] + 1, i, parts[i]
                waiting.append(j)
    joined, relays = {part: part for part in parts.values()}, set[int]()
    bridges = sorted((hops[i] + hops[j], min(i, j), max(i, j)) for i, j in graph.edges if parts[i] != parts[j])
    for _, *ends in bridges:
        one, other = (joined[parts[i]] for i in ends)
        if one != other:
            joined = {part: one if now == other else now for part, now in joined.items()}
            for i in ends:
                while i in before:
                    relays.add(i)
                    i = before[i]
    return frozenset(relays)


def least_records(width: int, rho: float) -> float:
    """Number of records from which on a question can be answered with yes: a threshold of G, eq. (84)."""
    return 2.0 * TAU * math.sqrt(width / (2.0 * rho))


def reaching(graph: Graph, first: frozenset[int], asked: Sequence[int]) -> frozenset[int]:
    """First speakers, and whoever lies between them and the agents that are asked, one after the other, eq. (81)."""
    speakers = set(first)
    for i in asked:
        before, waiting = {i: i}, deque([i])
        while (j := waiting.popleft()) not in speakers:
            for k in sorted(graph[j]):
                if k not in before:
                    before[k] = j
                    waiting.append(k)
        while (j := before[j]) != i:
            speakers.add(j)
    return frozenset(speakers)


@dataclass(slots=True)
class JoiningState(ConsensusState):
    """State of an agent where not all speak from the first round."""

    joined: int | None = None
    """Round of its yes."""
    met: Mask = None  # type: ignore[assignment]  # fields of the base have defaults
    told: Mask = None  # type: ignore[assignment]
    """Shape (degree,). Whether the neighbour is known to speak, and knows that this agent does: both ends know both."""

    @classmethod
    def among(cls, neighbours: Sequence[int], width: int, first: frozenset[int], *, speaks: bool) -> Self:
        """Everything starts at zero; who speaks first is public."""
        state = cls.zero(len(neighbours), width)
        state.met = np.array([j in first for j in neighbours], dtype=bool)
        state.told = np.full(len(neighbours), speaks)
        state.said = np.zeros_like(state.heard)
        return state

    def around(self) -> Vector | None:
        """Mean of the vectors heard of, shape (d,), eq. (82); None before the first."""
        found = self.heard[self.met & self.heard.any(axis=1)]
        return found.sum(axis=0) / len(found) if len(found) else None

    def linear_term(self, eta: float, proximal: float = 0.0, contact: Contact | None = None) -> Vector:
        """Eq. (85): of the edges to those who speak."""
        met = self.met
        if contact is not None:
            contact = Contact(*(mask[met] for mask in contact))
        found: Vector = ConsensusState(self.theta, self.dual, self.heard[met]).linear_term(eta, proximal, contact)
        return found

    def counted(self, arrives: Mask, came: Mask, spoke: bool) -> Mask:
        """Eq. (86): an edge counts once a vector has arrived at either end; who listens keeps a dual of zero."""
        if spoke:
            self.told = self.told | arrives
        self.met = self.met | came
        return self.met & self.told


class JoiningADMM(PPADMM):
    """PP-ADMM among a public core, which others join where its model fits their records badly.

    Where all are in the core it is PP-ADMM. Whether agents join is settled by ``joins``; ``core`` speaks from the first
    round with its records, ``first`` has the relays between its parts, too, which speak without.
    """

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        everybody = frozenset(facts.graph)
        self.core = core_of(facts.counts) if self.joins(settings) else everybody
        self.all_speak = self.core == everybody
        super().__init__(settings, facts)

    @cached_property
    def first(self) -> frozenset[int]:
        """Core and relays: between its parts, and to every agent that is asked."""
        graph, counts = self.facts.graph, self.facts.counts
        if self.all_speak:
            return self.core
        asked = sorted((i for i in counts if self.asked(i)), key=lambda i: (-counts[i], i))
        return reaching(graph, self.core | relays_of(graph, self.core), asked)

    @classmethod
    def joins(cls, settings: MethodSettings) -> bool:
        """Whether agents outside the core join it."""
        raise NotImplementedError

    def penalty(self) -> float:
        """Eta of the first speakers, eq. (87): the same for all and for good, whoever joins."""
        if self.all_speak:
            return super().penalty()
        wanted = [self.wanted_convexity(i) for i in sorted(self.core)]
        return typical_penalty(wanted, [sum(j in self.first for j in self.facts.graph[i]) for i in sorted(self.first)])

    def averaged(self) -> frozenset[int]:
        """Core: who else will speak is not known."""
        return self.core

    def share(self, agent: int) -> float:
        """Share of an agent's budget for its questions, nothing of the core's."""
        return 0.0 if agent in self.core else float(self.settings.gate_share)

    def threshold(self, agent: int) -> float:
        """Norm of the gradient that its own release could carry, eq. (84); from G on it is never asked."""
        if self.settings.gate_threshold != "auto":
            return float(self.settings.gate_threshold)
        least = least_records(self.facts.width, self.facts.nominal[agent])
        return self.loss.lipschitz() * least / self.facts.counts[agent]

    def asked(self, agent: int) -> bool:
        """Whether an agent outside the core is ever asked."""
        return agent not in self.core and self.threshold(agent) < self.loss.lipschitz()

    def gate(self, records: int, rho: float) -> tuple[float | None, Charges]:
        """Standard deviation of a question's noise, and all that the questions can charge."""
        public, known = (np.zeros(self.facts.width), None, 1.0, 0.0), self.known(records)
        sensitivity = GradientNorm(*public).sensitivity(known)
        sigma = sensitivity / math.sqrt(2.0 * rho / len(ASKED_IN))
        question = replace(GradientNorm(*public), sigma=sigma).within(known)
        (event,) = question.cost(known)
        return sigma, ((event, len(ASKED_IN)),)

    def fewest(self, agent: int) -> int:
        """Eq. (88): neighbours that speak in the first round, or one."""
        if self.all_speak:
            return super().fewest(agent)
        return sum(j in self.first for j in self.facts.graph[agent]) if agent in self.first else 1

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent; nothing where it is never asked."""
        if self.all_speak or agent in self.core:
            return super().plan(agent, target)
        if not self.asked(agent):
            return self.objective(agent)
        plan = super().plan(agent, target)
        release = PerturbedMinimiser(np.zeros(self.facts.width), plan.convexity, self.beta, *plan.noise[:2])
        release.within(self.known(self.facts.counts[agent]))  # refused before the run, not at a yes
        return plan

    def convexity(self, agent: Agent, *, records: bool = True) -> float:
        """m_i(t), eq. (88): of the penalty around who speaks now, and with records never below that of the plan."""
        plan, own = agent.plan, self.settings.proximal
        m = plan.regularisation + 2.0 * plan.eta * int(agent.state.met.sum())
        m += 0.0 if own == "auto" else float(own)
        return max(m, plan.convexity * plan.weight) if records else m

    def start(self, agent: Agent, width: int) -> ConsensusState:
        """Everything at zero."""
        if self.all_speak:
            return super().start(agent, width)
        return JoiningState.among(agent.neighbours, width, self.first, speaks=agent.id in self.first)

    def shared(self, agent: Agent) -> Vector | None:
        """Its dual, of who speaks: who listens has none, and is not in the sum."""
        speaks = self.all_speak or agent.id in self.first or agent.state.theta.any()
        return super().shared(agent) if speaks else None

    def carry(self, agent: Agent, old: Any, shift: Vector | None) -> Any:
        """Eq. (112); who has joined has, and both ends of an edge know who speaks."""
        state = super().carry(agent, old, shift)
        if isinstance(state, JoiningState):
            state.joined, state.said = old.joined, np.tile(state.theta, (agent.degree, 1))
            state.met, state.told = state.met | state.heard.any(axis=1), state.told | state.theta.any()
        return state

    def linear(self, agent: Agent, m: float) -> Vector:
        """Eq. (85), of a round's objective of convexity m."""
        plan, state = agent.plan, agent.state
        proximal = max(m - plan.regularisation - 2.0 * plan.eta * int(state.met.sum()), 0.0)
        found: Vector = state.linear_term(plan.eta, proximal, agent.contact)
        return found

    def minimiser(self, agent: Agent) -> PerturbedMinimiser:
        """Release of this round, eqs. (85), (88)."""
        if self.all_speak:
            return super().minimiser(agent)
        m, w, noise = self.convexity(agent), agent.plan.weight, agent.plan.noise
        return PerturbedMinimiser(self.linear(agent, m) / w, m / w, self.beta, noise.sigma1, noise.sigma2)

    def joining(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eqs. (81)-(86): a release, a relayed vector, or None for silence."""
        state: JoiningState = agent.state
        if agent.id not in self.core and state.joined is None:
            centre, noise = state.around(), agent.plan.noise
            answer = None
            if noise is not None and round in ASKED_IN and centre is not None:
                question = GradientNorm(centre, None, noise.gate, self.threshold(agent.id))
                # the broadcast that a yes would trigger must fit before the question is asked
                answer = yield Ask(question, reserve=(self.minimiser(agent),))
            if not isinstance(answer, Released):
                return self.relayed(agent) if agent.id in self.first else None
            state.joined = round
            if agent.id not in self.first:
                state.theta = answer.used.here
        return vector_of((yield Ask(self.minimiser(agent))))

    def relayed(self, agent: Agent) -> Vector:
        """Eq. (89): the minimiser of an objective without records, made of released vectors alone."""
        m = self.convexity(agent, records=False)
        vector: Vector = -self.linear(agent, m) / m
        return vector

    def model(self, agent: Agent) -> Vector:
        """Last broadcast; of who only listens, the mean of what it hears."""
        if not self.in_average(agent):
            found: Vector | None = agent.state.around()
            if found is not None:
                return found
        return super().model(agent)

    def notes(self) -> tuple[str, ...]:
        """Who speaks, who is asked and who never is."""
        notes = super().notes()
        if self.all_speak:
            return notes
        others = sorted(set(self.facts.graph) - self.core)
        silent = [i for i in others if not self.asked(i)]
        relays = len(self.first - self.core)
        return (
            *notes,
            f"the {len(self.core)} largest of {len(self.facts.graph)} agents speak from the first round on. The other "
            f"{len(others)}: {relays} to pass messages on, {len(others) - len(silent)} to be asked whether they join, "
            f"{len(silent)} with too few records to be asked",
        )

    def in_average(self, agent: Agent) -> bool:
        """Whether the agent ever spoke."""
        return self.all_speak or agent.releases > 0

    def entry(self, agent: Agent) -> dict[str, int | None]:
        """Round in which an agent joined with its records: 0 of the core, None for never."""
        return {"joined_at": 0 if agent.id in self.core else agent.state.joined}
