"""The joining gate: the largest agents speak from the first round, the others where they are needed.

docs/methods.md, eqs. (80)-(89); docs/proofs.md, Theorem 22.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from admmnet.graph.simple import Graph, parts_of
from admmnet.holder.measurements import GradientNorm, PerturbedMinimiser
from admmnet.methods.agents import AgentPlan, Agents, Asking, Came, Mask, Said, wide
from admmnet.methods.base import Facts
from admmnet.methods.consensus import typical_penalty
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Target
from admmnet.types import Integers, Matrix, Vector

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
class Joining:
    """State of agents where not all speak from the first round; both ends of an edge know what they say of it."""

    joined: Integers
    """Shape (B,). Round of an agent's yes, -1 before."""
    met: Mask
    told: Mask
    """Shape (E,). Whether the neighbour is known to speak, and knows that this agent does."""


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

    def terms(self, agents: Agents) -> tuple[Matrix, Vector]:
        """Eq. (85), and m_i(t) over w_i, eq. (88)."""
        if self.all_speak:
            return super().terms(agents)
        m, weight = self._convexity(agents), agents.plan.weight
        return self._linear(agents, m) / wide(weight), m / weight

    def _convexity(self, agents: Agents, *, records: bool = True) -> Vector:
        """m_i(t), eq. (88): of the penalty around who speaks now, and with records never below that of the plan."""
        plan, own = agents.plan, self.settings.proximal
        m = plan.regularisation + 2.0 * plan.eta * agents.edges.sum(agents.own.met)
        m = m + (0.0 if own == "auto" else float(own))
        return np.maximum(m, plan.convexity * plan.weight) if records else np.asarray(m)

    def start(self, agents: Agents) -> None:
        """Everything at zero; who speaks first is public."""
        super().start(agents)
        if self.all_speak:
            return
        first = np.array([i in self.first for i in agents.ids], dtype=bool)
        met = np.array([j in self.first for j in agents.edges.other.tolist()], dtype=bool)
        agents.own = Joining(np.full(len(agents), -1), met, first[agents.edges.owner])
        agents.said = np.zeros_like(agents.heard)

    def counted(self, agents: Agents, came: Came) -> Mask:
        """Eq. (86): an edge counts once a vector has arrived at either end; who listens keeps a dual of zero."""
        if self.all_speak:
            return super().counted(agents, came)
        own: Joining = agents.own
        own.told, own.met = own.told | came.arrived, own.met | came.came
        return own.met & own.told

    def shared(self, agents: Agents) -> tuple[Matrix, Mask]:
        """Duals of who speaks: who listens has none, and is not in the sum."""
        speaks = [self.all_speak or i in self.first for i in agents.ids]
        return agents.dual, np.array(speaks) | agents.theta.any(axis=1)

    def carry(self, agents: Agents, shifts: Matrix | None) -> None:
        """Eq. (112); who has joined has, and both ends of an edge know who speaks."""
        super().carry(agents, shifts)
        if not self.all_speak:
            own, spoke = agents.own, agents.theta.any(axis=1)
            own.met, own.told = own.met | agents.heard.any(axis=1), own.told | np.asarray(spoke)[agents.edges.owner]

    def around(self, agents: Agents) -> tuple[Matrix, Vector]:
        """Mean of the vectors heard of, shape (B, d), eq. (82), zero before the first; and how many, shape (B,)."""
        heard = agents.heard
        known = agents.own.met & heard.any(axis=1)
        near = agents.edges.sum(known)
        return agents.edges.sum(np.where(known[:, None], heard, 0.0)) / wide(np.maximum(near, 1.0)), near

    def _linear(self, agents: Agents, m: Vector) -> Matrix:
        """Eq. (85), of objectives of convexity m."""
        plan, met = agents.plan, agents.own.met
        proximal = np.maximum(m - plan.regularisation - 2.0 * plan.eta * agents.edges.sum(met), 0.0)
        return self.whole_term(agents, proximal=proximal, met=met)

    def joining(self, agents: Agents, round: int) -> Asking[Said]:
        """Eqs. (81)-(86): a release, a relayed vector, or silence."""
        if self.all_speak:
            told = yield self.minimiser(agents)
            return Said(told.value, told.said)
        own: Joining = agents.own
        core, first = (np.array([i in some for i in agents.ids], dtype=bool) for some in (self.core, self.first))
        listens = ~core & (own.joined < 0)
        centre, near = self.around(agents)
        planned = np.array([plan.noise is not None for plan in agents.plans])
        if round in ASKED_IN and (asked := listens & planned & (near > 0)).any():
            levels = np.array([0.0 if i in self.core else self.threshold(i) for i in agents.ids])
            # the broadcast that a yes would trigger must fit before the question is asked
            reserve = self.minimiser(agents, rows=asked)
            noise = agents.plan.noise.gate
            yes = yield agents.ask(GradientNorm, centre, None, noise, levels, rows=asked, reserve=reserve)
            own.joined = np.where(yes.said, round, own.joined)
            fresh = yes.said & ~first
            agents.theta = np.where(fresh[:, None], yes.used, agents.theta)
            listens &= ~yes.said
        said = Said(np.zeros_like(agents.theta), np.zeros(len(agents), dtype=bool))
        if not listens.all():  # who is never asked has no noise
            told = yield self.minimiser(agents, rows=~listens)
            said = Said(told.value, told.said)
        relays = listens & first
        if not relays.any():
            return said
        # eq. (89): minimisers of objectives without records, made of released vectors alone
        m = self._convexity(agents, records=False)
        relayed = -self._linear(agents, m) / wide(m)
        return Said(np.where(relays[:, None], relayed, said.value), said.said | relays)

    def models(self, agents: Agents) -> Matrix:
        """Last broadcasts; of who only listens, the mean of what it hears."""
        if self.all_speak:
            return super().models(agents)
        around, near = self.around(agents)
        listens = (near > 0) & ~self.in_average(agents)
        return np.where(listens[:, None], around, agents.theta)

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

    def in_average(self, agents: Agents) -> Mask:
        """Whether an agent ever spoke."""
        return np.ones(len(agents), dtype=bool) if self.all_speak else agents.releases > 0

    def entry(self, agents: Agents, row: int) -> dict[str, int | None]:
        """Round in which an agent joined with its records: 0 of the core, None for never."""
        if agents.ids[row] in self.core:
            return {"joined_at": 0}
        joined = int(agents.own.joined[row])
        return {"joined_at": joined if joined >= 0 else None}
