"""PP-ADMM: every round a perturbed minimiser is broadcast. Ding et al. 2020, Algorithm 1, and its proven form.

docs/methods.md, sec. 2 eqs. (5)-(13) as published; sec. 5 eqs. (16)-(21) proven.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.measurements import PerturbedMinimiser
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks
from admmnet.methods.base import Facts, filled
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.convexity import RADIUS, balanced_convexity, least_convexity
from admmnet.methods.published import PublishedRule
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Draft, Target, calibrate
from admmnet.privacy.published import EPSILON3_SHARE
from admmnet.settings import about
from admmnet.types import Matrix, Vector

ROUNDS, PUBLISHED_ROUNDS = 40, 30
"""T of the proven form, and of the paper."""
INEXACT_SHARE = 1e-3
"""Share of a release's budget for the noise that hides how far the solve is from exact (D20, sec. 5)."""


class PerturbedNoise(NamedTuple):
    """Standard deviations of b1 and b2; b1 is None where all noise goes on the output. The gate's, if there is one."""

    sigma1: float | None
    sigma2: float
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
    """A method whose releases have Gaussian noise in the objective, or on the solution."""

    @property
    def releases(self) -> int:
        """Most broadcasts of an agent."""
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


class PPADMM(PerturbedConsensus):
    """Both forms: the proven one has the convexity of penalty and self-term, and Theorems 3 and 4 or 7."""

    name = "pp-admm"
    Settings = PPSettings
    gated: ClassVar[bool] = False

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        share = None if settings.noise_share == EPSILON3_SHARE else float(settings.noise_share)
        self.noise_share = share
        """epsilon3 / epsilon1 as an event has it: None for the paper's."""
        self.rule = PublishedRule(settings, facts, share, gated=self.gated) if settings.method == "published" else None
        super().__init__(settings, facts)
        self._calibrated = cache(self._calibrate)

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Rounds, tolerance, and where the noise goes."""
        if settings.method == "published":
            paper = {"rounds": PUBLISHED_ROUNDS, "eta": 0.5, "proximal": 0.0, "beta": 10.0**-3.5}
            return filled(settings, inexact_share=INEXACT_SHARE, **paper)
        return filled(settings, inexact_share=INEXACT_SHARE, rounds=ROUNDS, beta=1e-8, release="objective")

    def least_regularisation(self) -> float:
        """What Theorem 3.1 of the paper asks for; the proven form needs none."""
        return 0.0 if self.rule is None else self.rule.regularisation

    def wanted_convexity(self, agent: int) -> float:
        """Eq. (20); noise on the solution costs no curvature."""
        output = self.settings.release == "output"
        return self.balanced(agent) if output else super().wanted_convexity(agent)

    def gate(self, records: int, rho: float) -> tuple[Any, Charges]:
        """Noise of a gate at this budget, and all that its questions can charge: of agents with a share for it."""
        raise NotImplementedError

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent."""
        own = self.objective(agent)
        if self.rule is not None:
            return own.calibrated(self.rule.found(agent))
        n, share = self.facts.counts[agent], self.share(agent)
        return own.calibrated(self._calibrated(n, own.convexity, share, target))

    def _calibrate(self, records: int, m: float, share: float, target: Target) -> Any:
        return calibrate(partial(self._draft, records, m, share), target)

    def _draft(self, records: int, m: float, share: float, rho: float) -> Draft[PerturbedNoise]:
        """Proven form at a nominal budget: the gate gets its share, every release an equal part of the rest."""
        known = self.known(records)
        each, hidden = rho * (1.0 - share) / self.releases, float(self.settings.inexact_share)
        inexact = 2.0 * self.beta / m  # Theorem 4
        G = self.loss.lipschitz()
        if self.settings.release == "output":
            sensitivity = 2.0 * G / (records * m) + inexact  # Theorem 7
            noise = PerturbedNoise(None, sensitivity / math.sqrt(2.0 * each))
        else:
            noise = PerturbedNoise(
                sigma_objective(each * (1.0 - hidden), records, G),  # eq. (18)
                inexact / math.sqrt(2.0 * each * hidden),
            )
        release = PerturbedMinimiser(np.zeros(0), m, self.beta, *noise[:2]).cost(known)
        gate, asked = self.gate(records, rho * share) if share else (None, ())
        return Draft(noise._replace(gate=gate), (*((event, self.releases) for event in release), *asked))

    def minimiser(self, agents: Agents, **more: Any) -> Asks:
        """Release of this round, eqs. (5)-(7), its objective over w_i: (62)."""
        noise, linear, m = agents.plan.noise, self.linear(agents), self.rounds_convexity(agents)
        own: dict[str, Any] = {"tight": not self.published, "noise_share": self.noise_share}
        return agents.ask(PerturbedMinimiser, linear, m, self.beta, noise.sigma1, noise.sigma2, **own, **more)

    def linear(self, agents: Agents) -> Matrix:
        """Linear coefficient of the round's objective over w_i, shape (B, d)."""
        return self.linear_term(agents)

    def rounds_convexity(self, agents: Agents) -> Vector:
        """Convexity of it, shape (B,)."""
        return agents.convexity

    def propose(self, agents: Agents, round: int) -> Asking[Any]:
        """Broadcast, or silence once the budget refuses."""
        return (yield self.minimiser(agents))
