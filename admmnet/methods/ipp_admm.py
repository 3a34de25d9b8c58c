"""IPP-ADMM: a gate decides whether an agent speaks. Ding et al. 2020, Algorithm 2, and its proven form.

docs/methods.md, sec. 3 eqs. (13)-(15) as published; sec. 5 eqs. (22), (23), (80)-(89) proven: docs/proofs.md,
Theorem 22.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from admmnet.errors import RequestError
from admmnet.graph.simple import Graph, parts_of
from admmnet.holder.measurements import (
    GradientNorm,
    HeldNorm,
    PerturbedMinimiser,
    PublishedBroadcast,
    PublishedComparison,
)
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks, Came, Mask, Said, wide
from admmnet.methods.base import Facts, filled
from admmnet.methods.consensus import typical_penalty
from admmnet.methods.pp_admm import PPADMM, PPSettings
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Target, pure_epsilon
from admmnet.settings import Auto, about
from admmnet.types import Integers, Matrix, Vector

JOINING = ("auto", "joining")
"""Values of ``gate`` with which agents join a core."""
SLACK, LEAST_CORE = 0.95, 3
"""Share of the best signal-to-noise that the core keeps, and its fewest agents: eq. (80)."""
ASKED_IN = (1, 4, 8)
"""Rounds in which a listener is asked, until its yes; the first round is 0."""
TAU = 4.0
"""Threshold over the noise of the agent's own releases, eq. (84)."""
LOSS_CLIP, PRINTED = 2.0, "printed"


class IPPSettings(PPSettings, frozen=True, kw_only=True):
    """Settings of the gate."""

    table: ClassVar[str] = "privacy"
    gate: Annotated[str, about(choices=("auto", "joining", "above-threshold", "gaussian", "off"))] = "auto"
    """auto: joining, the paper's if published"""
    gate_share: Annotated[float, about(gt=0, lt=1)] | Auto = "auto"
    """share of the budget; auto: 0.05, 0.1 if published"""
    gate_threshold: Annotated[float, about(ge=-1e9, le=1e9)] | Auto = "auto"
    """auto: norm of the noise that a broadcast adds, less twice the noise of a held threshold; 1e-3 if published"""
    max_releases: Annotated[int, about(ge=1)] | Auto = "auto"
    """most broadcasts of an agent; auto: the rounds, 15 if published"""
    loss_clip: Annotated[float, about(gt=0, le=1e6)] = LOSS_CLIP
    """C, clip of a record's loss in the published gate"""
    gate_sensitivity: Annotated[str, about(choices=(PRINTED, "mean"), tunable=True)] = PRINTED
    """noise of the published gate for 2C as printed, or 2C/n"""

    def check(self) -> None:
        """Check which gate and form a setting goes with."""
        published = self.method == "published"
        if published and self.gate != "auto":
            raise RequestError(f"gate = {self.gate!r} goes with algorithm = 'ipp-admm' and method = 'proven'")
        for name, usual in (("loss_clip", LOSS_CLIP), ("gate_sensitivity", PRINTED)):
            if (given := getattr(self, name)) != usual and not published:
                words = given if isinstance(given, str) else f"{given:g}"
                raise RequestError(f"{name} = {words} goes with algorithm = 'ipp-admm' and method = 'published'")
        for name in ("gate_share", "gate_threshold", "max_releases"):
            if getattr(self, name) != "auto" and self.gate == "off":
                raise RequestError(f"{name} goes with a gate, not gate = 'off'")
        most, rounds = self.max_releases, self.rounds
        if most != "auto" and rounds != "auto" and most > rounds:
            raise RequestError(f"max_releases = {most} is not allowed: it must be at most rounds = {rounds}")
        if self.gate not in JOINING or published:
            return
        if most not in ("auto", rounds):
            raise RequestError(
                f"max_releases = {most} goes with gate = 'gaussian' or 'above-threshold': with {self.gate!r} an agent "
                "that has joined speaks every round"
            )


class IPPADMM(PPADMM):
    """An agent speaks when the consensus around it fits its records badly.

    The proven form puts the question to a public point, the average of the neighbours' last vectors; the release has
    noise of its own. By default ``core``, the largest agents, speaks from the first round with its records, and others
    are asked whether they join it; ``first`` has the relays between its parts, too, which speak without. The gates
    ``above-threshold`` and ``gaussian`` ask every agent in every round whether the correction that is left, the
    gradient of its Lagrangian there, exceeds the noise that a broadcast would add (Theorem 22). The published form
    broadcasts what a noisy comparison finds better than the last broadcast.
    """

    name = "ipp-admm"
    Settings = IPPSettings
    gated = True

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        everybody, joining = frozenset(facts.graph), settings.method == "proven" and settings.gate in JOINING
        self.core = core_of(facts.counts) if joining else everybody
        self.all_speak = self.core == everybody
        super().__init__(settings, facts)

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Also the gate's share, threshold and most broadcasts."""
        settings = super().fixed(settings)
        rounds = int(settings.rounds)
        if settings.method == "published":
            return filled(settings, max_releases=min(15, rounds), gate_share=0.1, gate_threshold=1e-3)
        if settings.gate == "off":
            return settings
        return filled(settings, max_releases=rounds, gate_share=0.05)

    @property
    def kind(self) -> str:
        """Gate of the proven form."""
        return "joining" if self.settings.gate in JOINING else str(self.settings.gate)

    @property
    def planned_anew(self) -> bool:
        """Without a gate alone: how often it was asked, and who has joined, is no part of a plan."""
        return self.kind == "off" and super().planned_anew

    @property
    def releases(self) -> int:
        """Most broadcasts of an agent."""
        settings = self.settings
        return int(settings.rounds if settings.gate == "off" else settings.max_releases)

    @cached_property
    def first(self) -> frozenset[int]:
        """Core and relays: between its parts, and to every agent that is asked."""
        graph, counts = self.facts.graph, self.facts.counts
        asked = sorted((i for i in counts if self.asked(i)), key=lambda i: (-counts[i], i))
        return reaching(graph, self.core | relays_of(graph, self.core), asked)

    def penalty(self) -> float:
        """Eta of the first speakers, eq. (87): the same for all and for good, whoever joins."""
        wanted = [self.wanted_convexity(i) for i in sorted(self.core)]
        return typical_penalty(wanted, [sum(j in self.first for j in self.facts.graph[i]) for i in sorted(self.first)])

    def averaged(self) -> frozenset[int]:
        """Core: who else will speak is not known."""
        return self.core

    def share(self, agent: int) -> float:
        """Share of an agent's budget that the gate's questions take."""
        spared = agent in self.core if self.kind == "joining" else self.kind == "off"
        return 0.0 if spared else float(self.settings.gate_share)

    def threshold(self, agent: int) -> float:
        """Norm of the gradient that its own release could carry, eq. (84); from G on it is never asked."""
        if self.settings.gate_threshold != "auto":
            return float(self.settings.gate_threshold)
        # number of records from which on a question can be answered with yes
        least = 2.0 * TAU * math.sqrt(self.facts.width / (2.0 * self.facts.nominal[agent]))
        return self.loss.lipschitz() * least / self.facts.counts[agent]

    def asked(self, agent: int) -> bool:
        """Whether an agent outside the core is ever asked."""
        return agent not in self.core and self.threshold(agent) < self.loss.lipschitz()

    def gate(self, records: int, rho: float, level: float) -> tuple[Any, Charges]:
        """Question of the gate at this budget, at a noise of this norm in a broadcast, and all that it can charge."""
        known, here, auto = self.known(records), np.zeros(self.facts.width), self.settings.gate_threshold == "auto"
        level = level if auto else float(self.settings.gate_threshold)
        if self.kind != "above-threshold":
            asked = len(ASKED_IN) if self.kind == "joining" else int(self.settings.rounds)
            sensitivity = GradientNorm(here, here, 1.0, level).sensitivity(known)
            gate = GradientNorm(here, here, sensitivity / math.sqrt(2.0 * rho / asked), level).within(known)
            (event,) = gate.cost(known)
            return gate, ((event, asked),)
        epsilon = pure_epsilon(rho / self.releases)
        first = epsilon / (1.0 + 2.0 ** (2.0 / 3.0))
        question = HeldNorm(here, here, level, first, epsilon - first).within(known)
        sensitivity, (event,) = question.sensitivity(known), question.cost(known)
        spread = math.sqrt(2.0) * math.hypot(sensitivity / first, 2.0 * sensitivity / (epsilon - first))
        question = replace(question, threshold=level - 2.0 * spread) if auto else question
        return question, ((event, self.releases),)

    def fewest(self, agent: int) -> int:
        """Eq. (88): neighbours that speak in the first round, or one."""
        if self.all_speak:
            return super().fewest(agent)
        return sum(j in self.first for j in self.facts.graph[agent]) if agent in self.first else 1

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent; nothing where it is never asked."""
        if agent in self.core:
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
        if not self.all_speak:
            first = np.array([i in self.first for i in agents.ids], dtype=bool)
            met = np.array([j in self.first for j in agents.edges.other.tolist()], dtype=bool)
            agents.own = Joining(np.full(len(agents), -1), met, first[agents.edges.owner])
        if not self.all_speak or self.kind == "above-threshold":  # both ends of an edge know what the other holds
            agents.said = np.zeros_like(agents.heard)
        if self.published:
            agents.own = np.zeros(len(agents), dtype=bool)  # who has compared: the paper books its gate at the first

    def counted(self, agents: Agents, came: Came) -> Mask:
        """Edges whose duals move where silence lasts: those with a vector of either end, now or, eq. (86), before."""
        if self.all_speak:
            return came.arrived | came.came if self.kind == "above-threshold" else super().counted(agents, came)
        own: Joining = agents.own
        own.acquainted, own.met = own.acquainted | came.arrived, own.met | came.came
        return own.met & own.acquainted

    def shared(self, agents: Agents) -> tuple[Matrix, Mask]:
        """Duals of who speaks: who listens has none, and is not in the sum."""
        speaks = [i in self.first for i in agents.ids]
        return agents.dual, np.array(speaks) | agents.theta.any(axis=1)

    def carry(self, agents: Agents, shifts: Matrix | None) -> None:
        """Eq. (112); who has joined has, and both ends of an edge know who speaks."""
        super().carry(agents, shifts)
        if not self.all_speak:
            own, spoke = agents.own, agents.theta.any(axis=1)
            own.met, own.acquainted = (
                own.met | agents.heard.any(axis=1),
                own.acquainted | np.asarray(spoke)[agents.edges.owner],
            )

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

    def propose(self, agents: Agents, round: int) -> Asking[Any]:
        """Broadcast, or silence."""
        if not self.all_speak:
            return (yield from self.joining(agents, round))
        if agents.plan.noise.gate is None:
            return (yield self.minimiser(agents))
        asked = agents.releases < self.releases
        question, release = self._published(agents) if self.published else self._proven(agents)
        # the broadcast that a yes would trigger must fit before the question is asked
        yes = yield question._replace(rows=asked, reserve=release)
        if self.published:
            agents.own = agents.own | (asked & agents.online & ~yes.refused)
        return (yield release._replace(rows=yes.said))

    def _proven(self, agents: Agents) -> tuple[Asks, Asks]:
        """Question, eqs. (22), (23), and release."""
        plan, gate = agents.plan, agents.plan.noise.gate
        centre = agents.edges.sum(agents.heard) / wide(agents.degree)
        pull = (2.0 * agents.dual + wide(plan.regularisation) * centre) / wide(plan.weight)
        if self.kind == "above-threshold":
            own = gate.threshold, gate.epsilon_threshold, gate.epsilon_query
            return agents.ask(HeldNorm, centre, pull, *own), self.minimiser(agents)
        return agents.ask(GradientNorm, centre, pull, gate.sigma, gate.threshold), self.minimiser(agents)

    def _published(self, agents: Agents) -> tuple[Asks, Asks]:
        """Comparison, eqs. (13)-(15), and broadcast, eq. (7)."""
        noise, m, settings = agents.plan.noise, agents.convexity, self.settings
        level = agents.plan.regularisation, settings.loss_clip, float(settings.gate_threshold)
        gate = noise.gate.threshold_scale, noise.gate.query_scale, np.where(agents.own, 0.0, noise.gate.gate_epsilon)
        own = self.linear_term(agents), m, self.beta, noise.sigma1, agents.theta, *level, *gate, self.noise_share
        broadcast = m, self.beta, noise.sigma1, noise.sigma2, self.noise_share
        return agents.ask(PublishedComparison, *own), agents.ask(PublishedBroadcast, *broadcast)

    def joining(self, agents: Agents, round: int) -> Asking[Said]:
        """Eqs. (81)-(86), where not all speak: a release, a relayed vector, or silence."""
        own: Joining = agents.own
        core, first = (np.array([i in some for i in agents.ids], dtype=bool) for some in (self.core, self.first))
        listens = ~core & (own.joined < 0)
        centre, near = self.around(agents)
        planned = np.array([plan.noise is not None for plan in agents.plans])
        if round in ASKED_IN and (asked := listens & planned & (near > 0)).any():
            levels = np.array([0.0 if i in self.core else self.threshold(i) for i in agents.ids])
            # the broadcast that a yes would trigger must fit before the question is asked
            reserve = self.minimiser(agents, rows=asked)
            sigma = agents.plan.noise.gate.sigma
            yes = yield agents.ask(GradientNorm, centre, None, sigma, levels, rows=asked, reserve=reserve)
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
    acquainted: Mask
    """Shape (E,). Whether the neighbour is known to speak, and knows that this agent does."""
