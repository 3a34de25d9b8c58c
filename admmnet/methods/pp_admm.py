"""PP-ADMM: every round a perturbed minimiser is broadcast. Ding et al. 2020, Algorithm 1, and its proven form.

docs/methods.md, sec. 2 eqs. (5)-(14) as published; sec. 5 eqs. (16)-(21) proven.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.measurements import GammaMinimiser, PerturbedMinimiser, PublishedBroadcast, PublishedComparison
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks
from admmnet.methods.base import Facts, filled
from admmnet.methods.consensus import RADIUS, ConsensusMethod, balanced_convexity, least_convexity
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.privacy import published
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Draft, Target, calibrate
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.published import EPSILON3_SHARE
from admmnet.settings import about
from admmnet.types import Matrix, Vector

ROUNDS, PUBLISHED_ROUNDS = 40, 30
"""T of the proven form, and of the paper."""
INEXACT_SHARE = 1e-3
"""Share of a release's budget for the noise that hides how far the solve is from exact (D20, sec. 5)."""


class PerturbedNoise(NamedTuple):
    """Standard deviations of b1 and b2, the least m over the run, and the noise of a gate, None without one.

    b1 is None where all noise goes on the output.
    """

    sigma1: float | None
    sigma2: float
    convexity: float
    gate: Any = None


def sigma_objective(rho: float, records: float, lipschitz: float) -> float:
    """sigma1 at which the linear part of Theorem 3 costs rho: (2 G / n) / sqrt(2 rho), eq. (18)."""
    return 2.0 * lipschitz / (records * math.sqrt(2.0 * rho))


class PPSettings(NoisySettings, frozen=True, kw_only=True):
    """Settings of PP-ADMM alone."""

    release: Annotated[str, about(choices=("objective", "output"))] | None = None
    """where a proven method's noise goes (default: objective)"""
    noise_share: Annotated[float, about(table="privacy", gt=0, lt=1)] = EPSILON3_SHARE
    """published forms' epsilon3 / epsilon1; the rest pays for curvature"""

    def check(self) -> None:
        """Refuse what the published form does not have."""
        if self.release is not None and self.method == "published":
            raise RequestError(f"release = {self.release!r} goes with pp-admm and ipp-admm, method = 'proven'")
        if self.noise_share != EPSILON3_SHARE and self.method != "published":
            raise RequestError(
                f"noise_share = {self.noise_share:g} goes with method = 'published', which alone splits epsilon1"
            )


class PerturbedConsensus(ConsensusMethod):
    """A method whose releases have Gaussian noise in the objective, or on the solution.

    It has one degree of freedom, a nominal zCDP budget that the rounds that read records share equally.
    """

    Settings: ClassVar[type[MethodSettings]] = NoisySettings
    usual: ClassVar[int] = ROUNDS
    """Rounds of the proven form that read records."""

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        self._calibrated = cache(self._calibrate)

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Rounds and tolerance, and the papers' penalty."""
        if settings.method == "published":
            settings = filled(settings, rounds=PUBLISHED_ROUNDS, eta=0.5, proximal=0.0)
        return filled(settings, rounds=cls.usual, beta=1e-8, inexact_share=INEXACT_SHARE)

    @property
    def releases(self) -> int:
        """Rounds that read records, or most broadcasts of an agent."""
        return int(self.settings.rounds)

    def share(self, agent: int) -> float:
        """Share of an agent's budget that a gate's questions take."""
        return 0.0

    def noise_norm(self, agent: int, releases: int) -> float:
        """s_i of eq. (19)."""
        n, rho = self.facts.counts[agent] / self.weight(agent), self.facts.nominal[agent]
        each = rho * (1.0 - self.share(agent)) / releases
        return sigma_objective(each, n, self.loss.lipschitz()) * math.sqrt(self.facts.width)

    def balanced(self, agent: int) -> float:
        """Convexity that balances noise and bias, eqs. (19), (20)."""
        return balanced_convexity(self.noise_norm(agent, self.releases), RADIUS, len(self.facts.graph))

    def wanted_convexity(self, agent: int) -> float:
        """And what keeps curvature cheap, eq. (20) with n_i / w_i records, (63)."""
        n, c1 = self.facts.counts[agent] / self.weight(agent), self.loss.curvature_bound()
        rho = self.facts.nominal[agent] * (1.0 - self.share(agent))
        least = least_convexity(rho, self.releases, n, c1, self.settings.budget_of(agent)[1])
        return max(self.balanced(agent), least)

    def check(self, agent: int, own: AgentPlan) -> None:
        """Refuse a convexity or a penalty that the method cannot work with."""

    def least(self, rho: float, records: int) -> float:
        """Convexity that the method itself makes sure of at a nominal budget; 0 for none."""
        return 0.0

    def counted_penalty(self, penalty: float) -> float | None:
        """Penalty by which the published accounting bounds curvature, None where it goes by the convexity."""
        return None

    def gate(self, records: int, rho: float) -> tuple[Any, Charges]:
        """Noise of a gate at this budget, and all that its questions can charge: of agents with a share for it."""
        raise NotImplementedError

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent."""
        own = self.objective(agent)
        self.check(agent, own)
        counted = self.counted_penalty(2.0 * own.eta * self.facts.graph.degree(agent))
        n, share = self.facts.counts[agent], self.share(agent)
        return own.calibrated(self._calibrated(target, n, own.convexity, share, counted))

    def _calibrate(self, target: Target, *alike: Any) -> Draft[Any]:
        return calibrate(partial(self.draft, *alike), target)

    def draft(self, records: int, m: float, share: float, counted: float | None, rho: float) -> Draft[Any] | None:
        """Noise at a nominal budget, an equal part of which each release gets; a rival may have None."""
        m = max(m, self.least(rho, records))
        noise = self.noise(rho * (1.0 - share) / self.releases, records, m)
        gate, asked = self.gate(records, rho * share) if share else (None, ())
        release = PerturbedMinimiser(np.zeros(0), m, self.beta, *noise)
        return Draft(PerturbedNoise(*noise, m, gate), (*self.charges(release, records), *asked))

    def noise(self, each: float, records: int, m: float) -> tuple[float | None, float]:
        """Standard deviations of b1, eq. (18), and of b2, Theorem 4, of a release that may cost so much."""
        hidden = float(self.settings.inexact_share)
        sigma1 = sigma_objective(each * (1.0 - hidden), records, self.loss.lipschitz())
        return sigma1, 2.0 * self.beta / m / math.sqrt(2.0 * each * hidden)

    def charges(self, release: PerturbedMinimiser | GammaMinimiser, records: int) -> Charges:
        """All that a run of such releases can charge."""
        return tuple((event, self.releases) for event in release.cost(self.known(records)))


class PPADMM(PerturbedConsensus):
    """Both forms: the proven one has the convexity of penalty and self-term, and Theorems 3 and 4 or 7."""

    name = "pp-admm"
    Settings = PPSettings
    gated: ClassVar[bool] = False

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Also where the noise goes, and the paper's tolerance."""
        own = {"beta": 10.0**-3.5} if settings.method == "published" else {"release": "objective"}
        return super().fixed(filled(settings, **own))

    @cached_property
    def noise_share(self) -> float | None:
        """epsilon3 / epsilon1 as an event has it: None for the paper's."""
        return None if self.settings.noise_share == EPSILON3_SHARE else float(self.settings.noise_share)

    @cached_property
    def rule(self) -> PublishedRule:
        """Of the published form."""
        return PublishedRule(self)

    def least_regularisation(self) -> float:
        """What Theorem 3.1 of the paper asks for; the proven form needs none."""
        return self.rule.regularisation if self.published else 0.0

    def wanted_convexity(self, agent: int) -> float:
        """Eq. (20); noise on the solution costs no curvature."""
        output = self.settings.release == "output"
        return self.balanced(agent) if output else super().wanted_convexity(agent)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent."""
        return (
            self.objective(agent).calibrated(self.rule.found(agent)) if self.published else super().plan(agent, target)
        )

    def noise(self, each: float, records: int, m: float) -> tuple[float | None, float]:
        """Also of a release whose noise is all on the solution, Theorem 7."""
        if self.settings.release != "output":
            return super().noise(each, records, m)
        sensitivity = 2.0 * self.loss.lipschitz() / (records * m) + 2.0 * self.beta / m
        return None, sensitivity / math.sqrt(2.0 * each)

    def minimiser(self, agents: Agents, **more: Any) -> Asks:
        """Release of this round, eqs. (5)-(7), its objective over w_i: (62)."""
        noise = agents.plan.noise
        own: dict[str, Any] = {"tight": not self.published, "noise_share": self.noise_share}
        return agents.ask(PerturbedMinimiser, *self.terms(agents), self.beta, noise.sigma1, noise.sigma2, **own, **more)

    def terms(self, agents: Agents) -> tuple[Matrix, Vector]:
        """Linear coefficient of the round's objective over w_i, shape (B, d), and its convexity, shape (B,)."""
        return self.linear_term(agents), agents.convexity

    def propose(self, agents: Agents, round: int) -> Asking[Any]:
        """Broadcast, or silence once the budget refuses."""
        return (yield self.minimiser(agents))


class Alike(NamedTuple):
    """Agents alike: number of records, degree, and what they may spend."""

    records: int
    degree: int
    target: Target


class Allocation(NamedTuple):
    """One agent's published parameters at a given rho_total; ``floor`` is what eq. (12) asks of lambda."""

    rho2: float
    sigma1: float
    floor: float
    epsilon_gate: float


class PublishedGate(NamedTuple):
    """Laplace scales of eq. (15), and what Lemma 4.3 books at the first comparison."""

    threshold_scale: float
    query_scale: float
    epsilon: float


class PublishedRule:
    """Regularisation of the network's problem, as asked for or the least of Theorem 3.1, and the noise of every agent.

    The paper leaves one degree of freedom, rho_total. Its own arithmetic takes epsilon^2/(4 ln(1/delta)); calibration
    by the proven accountant takes the largest rho_total whose proven worst case keeps the promise, all else as in the
    paper.

    RequestError if what was asked for is too small, or nothing settles. BudgetError if a budget is too small to
    calculate any noise.
    """

    def __init__(self, method: PPADMM) -> None:
        self._method, settings = method, method.settings
        self._share = float(settings.gate_share) if method.gated else 0.0
        graph, asked = method.facts.graph, settings.regularisation
        kinds = list(dict.fromkeys(self._kind(i) for i in sorted(graph)))
        self.regularisation, self._found = self._settle(kinds, None if asked == "auto" else float(asked))

    def found(self, agent: int) -> Draft[PerturbedNoise]:
        """Noise of an agent."""
        return self._found[self._kind(agent)]

    def _kind(self, agent: int) -> Alike:
        settings, facts = self._method.settings, self._method.facts
        target = Target(*settings.budget_of(agent), str(settings.accountant), form="published")
        return Alike(facts.counts[agent], facts.graph.degree(agent), target)

    def _settle(self, kinds: list[Alike], asked: float | None) -> tuple[float, dict[Alike, Draft[PerturbedNoise]]]:
        """Raise lambda until it holds: the noise depends on it, and the least one on the noise."""
        weight = asked
        for _ in range(100):
            parts = {kind: self._allocate(self._rho_total(kind, weight), kind) for kind in kinds}
            floor = max(part.floor for part in parts.values())
            if asked is not None and asked < floor * (1.0 - 1e-9):
                raise RequestError(
                    f"regularisation = {asked:g} is below {floor:.6g}, the least that the published method needs at "
                    "this epsilon (D20, Theorem 3.1); leave it at auto, raise --epsilon or lower --rounds"
                )
            settled = weight is not None and floor <= weight
            weight = floor if weight is None or floor > weight else weight
            found = {kind: self._draft(kind, part, weight) for kind, part in parts.items()}
            if settled or all(self._allowed(kind, found[kind]) for kind in kinds):
                return weight, found
        raise RequestError("regularisation = auto does not settle for these agents; set a larger one by hand")

    def _allowed(self, kind: Alike, found: Draft[PerturbedNoise]) -> bool:
        return kind.target.accountant == "published" or kind.target.allows(kind.target.worst(found.charges))

    def _rho_total(self, kind: Alike, weight: float | None) -> float:
        """rho_total of an agent: eq. (P4), or by bisection on the proven worst case."""
        start = loose_rho(kind.target.epsilon, kind.target.delta)
        if kind.target.accountant == "published":
            return start

        def draft(rho: float) -> Draft[PerturbedNoise]:
            part = self._allocate(rho, kind)
            # without a weight the agent's own floor stands in for the network's; `_settle` checks the end
            return self._draft(kind, part, part.floor if weight is None else weight)

        return calibrate(draft, kind.target, start).rho

    def _allocate(self, rho_total: float, kind: Alike) -> Allocation:
        """Split rho_total as the paper does; BudgetError if too little is left for a round."""
        method, hidden = self._method, float(self._method.settings.inexact_share)
        each = rho_total * (1.0 - self._share) / method.releases
        rho1, rho2 = each * (1.0 - hidden), each * hidden  # eq. (8)
        epsilon1 = published.epsilon1(rho1)  # eq. (9)
        epsilon3 = (method.noise_share or published.EPSILON3_SHARE) * epsilon1  # eq. (11)
        gap, n = epsilon1 - epsilon3, kind.records
        if not (gap > 0.0 and rho2 > 0.0):
            raise BudgetError(
                f"epsilon = {kind.target.epsilon:g} leaves {epsilon1:g} for a round: too little to calculate any "
                "noise; raise --epsilon or lower --rounds"
            )
        return Allocation(
            rho2,
            published.sigma1(epsilon3, 2.0 * method.loss.lipschitz() / n),  # eq. (10)
            2.8 * len(method.facts.graph) * method.loss.curvature_bound() / (gap * n),  # eq. (12)
            math.sqrt(2.0 * self._share * rho_total),  # eq. (14), from rho = (epsilon_t + epsilon_q)^2 / 2
        )

    def _draft(self, kind: Alike, part: Allocation, weight: float) -> Draft[PerturbedNoise]:
        """Noise of an agent and all that it can charge, at an allocation and a lambda."""
        method, settings, rounds = self._method, self._method.settings, int(self._method.settings.rounds)
        share, beta = weight / len(method.facts.graph), method.beta
        m = share + 2.0 * float(settings.eta) * kind.degree
        sigma2 = beta / (math.sqrt(2.0 * part.rho2) * m)  # eq. (13)
        known, nothing = method.known(kind.records), np.zeros(0)
        common = m, beta, part.sigma1, sigma2
        if not method.gated:
            asked = PerturbedMinimiser(nothing, *common, tight=False, noise_share=method.noise_share)
            return Draft(PerturbedNoise(part.sigma1, sigma2, m), method.charges(asked, kind.records))
        c, clip = method.releases, settings.loss_clip
        ratio = (2.0 * c) ** (2.0 / 3.0)
        epsilon_t, epsilon_q = part.epsilon_gate / (1.0 + ratio), part.epsilon_gate * ratio / (1.0 + ratio)
        moved = 2.0 * clip / (kind.records if settings.gate_sensitivity == "mean" else 1)
        gate = PublishedGate(c * moved / epsilon_t, 2.0 * c * moved / epsilon_q, part.epsilon_gate)
        own = m, beta, part.sigma1, nothing, share, clip, 0.0
        question = PublishedComparison(nothing, *own, *gate, noise_share=method.noise_share)
        objective, first = question.cost(known)
        _, later = replace(question, gate_epsilon=0.0).cost(known)
        (broadcast,) = PublishedBroadcast(*common, method.noise_share).cost(known)
        charges = [(first, 1), (later, rounds - 1), (objective, rounds), (broadcast, c)]
        noise = PerturbedNoise(part.sigma1, sigma2, m, gate)
        return Draft(noise, tuple((event, count) for event, count in charges if count))
