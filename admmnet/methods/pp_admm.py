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
from admmnet.methods.consensus import RADIUS, ConsensusMethod, balanced_convexity
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.privacy import published
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Draft, Target, calibrate
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.proven import LOGISTIC
from admmnet.privacy.published import EPSILON3_SHARE
from admmnet.settings import about
from admmnet.types import Matrix, Vector

ROUNDS, PUBLISHED_ROUNDS = 40, 30
"""T of the proven form, and of the paper."""
INEXACT_SHARE = 1e-3
"""Share of a release's budget for the noise that hides how far the solve is from exact (D20, sec. 5)."""
MARGIN = 0.8
"""Share of the largest kappa that condition (L) allows."""


class PerturbedNoise(NamedTuple):
    """Standard deviations of b1 and b2, the least m over the run, and the question of a gate, None without one.

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
    radius: ClassVar[float] = RADIUS
    """Of eq. (20)."""

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

    def wanted_convexity(self, agent: int) -> float:
        """Convexity that balances noise and bias, eq. (20), or that keeps curvature cheap."""
        norm = self.noise_norm(agent, self.releases)
        return max(balanced_convexity(norm, self.radius, len(self.facts.graph)), self.cheap(agent))

    def cheap(self, agent: int) -> float:
        """Convexity below which curvature would eat the budget, eq. (20) with n_i / w_i records, (63).

        Condition (L) of docs/proofs.md Theorem 3 at the order where zCDP with this rho is converted, solved for
        kappa, with a margin.
        """
        n, rho = self.facts.counts[agent] / self.weight(agent), self.facts.nominal[agent] * (1.0 - self.share(agent))
        each = rho / self.releases
        linear = math.sqrt(math.log(1.0 / self.settings.budget_of(agent)[1]) / rho) * each
        kappa = (math.sqrt(linear * linear + 4.0 * LOGISTIC * each) - linear) / (2.0 * LOGISTIC)
        return self.loss.curvature_bound() / (n * MARGIN * kappa)

    def check(self, agent: int, own: AgentPlan) -> None:
        """Refuse a convexity or a penalty that the method cannot work with."""

    def least(self, rho: float, records: int) -> float:
        """Convexity that the method itself makes sure of at a nominal budget; 0 for none."""
        return 0.0

    def counted_penalty(self, penalty: float) -> float | None:
        """Penalty by which the published accounting bounds curvature, None where it goes by the convexity."""
        return None

    def gate(self, records: int, rho: float, level: float) -> tuple[Any, Charges]:
        """Question of a gate at this budget, and all that it can charge: of agents with a share for it."""
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
        level = (noise[1] * m if noise[0] is None else noise[0]) * math.sqrt(self.facts.width)
        gate, asked = self.gate(records, rho * share, level) if share else (None, ())
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


class Alike(NamedTuple):
    """Agents alike: number of records, degree, and what they may spend."""

    records: int
    degree: int
    target: Target


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

    def least_regularisation(self) -> float:
        """What Theorem 3.1 of the paper asks for; the proven form needs none."""
        return self.rule[0] if self.published else 0.0

    def cheap(self, agent: int) -> float:
        """Also of noise on the solution, which costs no curvature."""
        return 0.0 if self.settings.release == "output" else super().cheap(agent)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent."""
        if not self.published:
            return super().plan(agent, target)
        return self.objective(agent).calibrated(self.rule[1][self._alike(agent)])

    @cached_property
    def rule(self) -> tuple[float, dict[Alike, Draft[PerturbedNoise]]]:
        """Of the published form: lambda, as asked for or the least of Theorem 3.1, and the noise of agents alike.

        The paper leaves one degree of freedom, rho_total. Its own arithmetic takes epsilon^2/(4 ln(1/delta));
        calibration by the proven accountant takes the largest rho_total whose proven worst case keeps the promise, all
        else as in the paper. Lambda is raised until it holds: the noise depends on it, and the least one on the noise.

        RequestError if what was asked for is too small, or nothing settles. BudgetError if a budget is too small to
        calculate any noise.
        """
        asked = None if self.settings.regularisation == "auto" else float(self.settings.regularisation)
        kinds = list(dict.fromkeys(self._alike(i) for i in sorted(self.facts.graph)))
        weight = asked
        for _ in range(100):
            totals = {kind: self._rho_total(kind, weight) for kind in kinds}
            floor = max(self._split(kind, rho)[0] for kind, rho in totals.items())
            if asked is not None and asked < floor * (1.0 - 1e-9):
                raise RequestError(
                    f"regularisation = {asked:g} is below {floor:.6g}, the least that the published method needs at "
                    "this epsilon (D20, Theorem 3.1); leave it at auto, raise --epsilon or lower --rounds"
                )
            settled = weight is not None and floor <= weight
            weight = floor if weight is None or floor > weight else weight
            found = {kind: self._split(kind, rho, weight)[1] for kind, rho in totals.items()}
            if settled or all(
                kind.target.accountant == "published" or kind.target.allows(kind.target.worst(found[kind].charges))
                for kind in kinds
            ):
                return weight, found
        raise RequestError("regularisation = auto does not settle for these agents; set a larger one by hand")

    def _alike(self, agent: int) -> Alike:
        target = Target(*self.settings.budget_of(agent), str(self.settings.accountant), form="published")
        return Alike(self.facts.counts[agent], self.facts.graph.degree(agent), target)

    def _rho_total(self, kind: Alike, weight: float | None) -> float:
        """rho_total of an agent: eq. (P4), or by bisection on the proven worst case."""
        start = loose_rho(kind.target.epsilon, kind.target.delta)
        if kind.target.accountant == "published":
            return start
        # without a weight the agent's own floor stands in for the network's; ``rule`` checks the end
        return calibrate(lambda rho: self._split(kind, rho, weight)[1], kind.target, start).rho

    def _split(self, kind: Alike, rho_total: float, weight: float | None = None) -> tuple[float, Draft[PerturbedNoise]]:
        """What eq. (12) asks of lambda where rho_total is split as in the paper, and the noise at a lambda.

        Without one at the least. BudgetError if too little is left for a round.
        """
        settings, rounds, n, beta = self.settings, int(self.settings.rounds), kind.records, self.beta
        gate_share, hidden = float(settings.gate_share) if self.gated else 0.0, float(settings.inexact_share)
        each = rho_total * (1.0 - gate_share) / self.releases
        rho1, rho2 = each * (1.0 - hidden), each * hidden  # eq. (8)
        epsilon1 = published.epsilon1(rho1)  # eq. (9)
        epsilon3 = (self.noise_share or published.EPSILON3_SHARE) * epsilon1  # eq. (11)
        gap = epsilon1 - epsilon3
        if not (gap > 0.0 and rho2 > 0.0):
            raise BudgetError(
                f"epsilon = {kind.target.epsilon:g} leaves {epsilon1:g} for a round: too little to calculate any "
                "noise; raise --epsilon or lower --rounds"
            )
        sigma1 = published.sigma1(epsilon3, 2.0 * self.loss.lipschitz() / n)  # eq. (10)
        floor = 2.8 * len(self.facts.graph) * self.loss.curvature_bound() / (gap * n)  # eq. (12)
        share = (floor if weight is None else weight) / len(self.facts.graph)
        m = share + 2.0 * float(settings.eta) * kind.degree
        sigma2 = beta / (math.sqrt(2.0 * rho2) * m)  # eq. (13)
        known, nothing = self.known(n), np.zeros(0)
        common = m, beta, sigma1, sigma2
        if not self.gated:
            asked = PerturbedMinimiser(nothing, *common, tight=False, noise_share=self.noise_share)
            return floor, Draft(PerturbedNoise(sigma1, sigma2, m), self.charges(asked, n))
        c, clip = self.releases, settings.loss_clip
        ratio = (2.0 * c) ** (2.0 / 3.0)
        epsilon = math.sqrt(2.0 * gate_share * rho_total)  # eq. (14), from rho = (epsilon_t + epsilon_q)^2 / 2
        moved = 2.0 * clip / (n if settings.gate_sensitivity == "mean" else 1)
        scales = c * moved / (epsilon / (1.0 + ratio)), 2.0 * c * moved / (epsilon * ratio / (1.0 + ratio))  # eq. (15)
        own = m, beta, sigma1, nothing, share, clip, 0.0
        question = PublishedComparison(nothing, *own, *scales, epsilon, noise_share=self.noise_share)
        objective, first = question.cost(known)
        _, later = replace(question, gate_epsilon=0.0).cost(known)
        (broadcast,) = PublishedBroadcast(*common, self.noise_share).cost(known)
        charges = [(first, 1), (later, rounds - 1), (objective, rounds), (broadcast, c)]
        noise = PerturbedNoise(sigma1, sigma2, m, question)
        return floor, Draft(noise, tuple((event, count) for event, count in charges if count))

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
