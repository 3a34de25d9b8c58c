"""What DVP, M-ADMM and R-ADMM share: pure epsilon a round, docs/methods.md, sec. 6 eqs. (25)-(27), (30).

Every round that reads records is pure epsilon, plus a little Gaussian noise for the inexact solve. One degree of
freedom, a nominal zCDP budget that those rounds share equally. ``published`` takes what the papers' arithmetic
gives; ``proven`` the largest whose proven worst case stays within (epsilon, delta).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.measurements import GammaMinimiser, PerturbedMinimiser
from admmnet.methods.agents import AgentPlan, Agents, Asks
from admmnet.methods.base import Facts, filled
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.convexity import PURE_RADIUS, balanced_convexity
from admmnet.methods.pp_admm import INEXACT_SHARE, PUBLISHED_ROUNDS
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Calibrated, Draft, NothingFound, Target, calibrate, pure_epsilon
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.events import NoRecords
from admmnet.solvers.losses import Logistic
from admmnet.types import Matrix

ROUNDS = 6
"""T of the proven forms, whose noise is larger than PP-ADMM's; of R-ADMM as many rounds that read records."""
ROOM = 1e-9
"""Relative; DVP's ridge exceeds what (L) of Theorem 11 asks for by that much, or rounding could undo it."""


class PureNoise(NamedTuple):
    """Rate a of K(a), standard deviation on the minimiser, and the least m over the run, DVP's ridge included.

    ``penalty`` is 2 eta |B_i| of the first round, where the published accounting asks for it.
    """

    rate: float
    sigma2: float
    convexity: float
    penalty: float | None


def least_convexity_pure(epsilon: float, records: float, curvature: float, *, logistic: bool) -> float:
    """Convexity at which curvature takes nothing of epsilon (logistic), or half: eq. (27)."""
    kappa = (1.0 - ROOM) * epsilon / 8.0 if logistic else math.expm1(min(0.5 * epsilon, 700.0))
    return curvature / (records * kappa)


class Rival(ConsensusMethod):
    """A method with a linear term of density ~ exp(-a ||b||)."""

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
    def reading(self) -> int:
        """Rounds that read records."""
        return int(self.settings.rounds)

    @property
    def logistic(self) -> bool:
        """Whether (L) of Theorem 11 may apply."""
        return type(self.loss) is Logistic

    def wanted_convexity(self, agent: int) -> float:
        """Balance of noise and bias, and what keeps curvature cheap, eqs. (20), (27)."""
        n, c1 = self.facts.counts[agent] / self.weight(agent), self.loss.curvature_bound()  # eq. (63)
        epsilon = pure_epsilon(self.facts.nominal[agent] / self.reading)
        norm = self.noise_norm(agent, self.reading)
        least = least_convexity_pure(epsilon, n, c1, logistic=self.logistic)
        return max(balanced_convexity(norm, PURE_RADIUS, len(self.facts.graph)), least)

    def noise_norm(self, agent: int, releases: int) -> float:
        """Mean norm of K(a), where curvature takes nothing."""
        n = self.facts.counts[agent] / self.weight(agent)
        epsilon = pure_epsilon(self.facts.nominal[agent] / releases)
        return self.facts.width * 2.0 * self.loss.lipschitz() / (n * epsilon)

    def ridge(self, epsilon: float, records: int, m: float) -> float:
        """Convexity that the method itself makes sure of, eq. (27); 0 for none."""
        return 0.0

    def check(self, agent: int, own: AgentPlan) -> None:
        """2 c1 < n (lambda/N + 2 eta |B_i|), which the papers of M-ADMM and R-ADMM assume, eq. (30)."""
        n, c1 = self.facts.counts[agent], self.loss.curvature_bound()
        if self.published and not 2.0 * c1 < n * own.convexity:
            raise RequestError(
                f"{self.name} as published needs lambda/N + 2 eta |B_i| above 2 c1/n = {2.0 * c1 / n:.6g}; an agent of "
                f"{n} records has {own.convexity:.6g}: raise --eta or --regularisation"
            )

    def release(self, agents: Agents, linear: Matrix, m: Any, *, booked: Any = None, scale: Any = 1.0) -> Asks:
        """Perturbed minimisers of objectives of convexity m; ``booked``, ``scale`` as in ``GammaMinimiser``."""
        noise = agents.plan.noise
        own: dict[str, Any] = {"booked": booked, "scale": scale, "penalty": noise.penalty}
        return agents.ask(GammaMinimiser, linear, m, self.beta, noise.rate, noise.sigma2, **own)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent."""
        own = self.objective(agent)
        self.check(agent, own)
        penalty = 2.0 * own.eta * self.facts.graph.degree(agent)
        found = self._calibrated(self.facts.counts[agent], own.convexity, penalty, target)
        return replace(own.calibrated(found), convexity=found.noise.convexity)

    def _calibrate(self, records: int, m: float, penalty: float, target: Target) -> Calibrated[Any]:
        if target.accountant == "published":
            rho = loose_rho(target.epsilon, target.delta)
            if not float(self.settings.inexact_share) * rho / self.reading > 0.0:
                raise BudgetError(
                    f"epsilon = {target.epsilon:g} affords no release at all; raise --epsilon or lower --rounds"
                )
        try:
            return calibrate(partial(self._draft, records, m, penalty), target)
        except NothingFound:
            each = target.nominal_rho() / self.reading
        left = math.sqrt(2.0 * each) if self.published else pure_epsilon(each)
        # eq. (P9): the papers of M-ADMM and R-ADMM count the penalty alone
        alone = self._counted(penalty) is not None
        what, remedy = ("penalty", "--eta") if alone else ("convexity", "--eta, --regularisation")
        raise RequestError(
            f"{self.name}: epsilon = {target.epsilon:g} leaves {left:.3g} a round, and the loss's curvature alone "
            f"uses it up at a {what} of {penalty if alone else m:.3g}: raise {remedy} "
            "or --epsilon, or lower --rounds"
        )

    def _counted(self, penalty: float) -> float | None:
        """Penalty by which the published accounting bounds curvature, None where it goes by the convexity."""
        return penalty if self.published else None

    def _draft(self, records: int, m: float, penalty: float, rho: float) -> Draft[Any] | None:
        """Noise at a nominal budget; None if curvature alone costs a round's."""
        c1, reading, published = self.loss.curvature_bound(), self.reading, self.published
        each = rho / reading
        hidden = float(self.settings.inexact_share)
        exact, inexact = each * (1.0 - hidden), each * hidden
        # eq. (26): the papers book epsilon^2/2, Theorem 2 epsilon tanh(epsilon/2)
        epsilon = math.sqrt(2.0 * exact) if published else pure_epsilon(exact)
        m = max(m, self.ridge(epsilon, records, m))
        kappa, counted = c1 / (records * m), self._counted(penalty)
        if counted is not None:
            lost = 2.8 * c1 / (records * counted)  # eq. (P9)
        elif published:
            lost = 2.0 * math.log1p(kappa)
        else:
            lost = 0.0 if self.logistic and 8.0 * kappa <= epsilon else math.log1p(kappa)  # Theorem 11
        rate = (epsilon - lost) / (2.0 * self.loss.lipschitz() / records)
        if not rate > 0.0:
            return None
        moved = 2.0 * self.beta / m  # Theorem 4; the published arithmetic takes half, eq. (13)
        sigma2 = (0.5 if published else 1.0) * moved / math.sqrt(2.0 * inexact)
        release = GammaMinimiser(np.zeros(0), m, self.beta, rate, sigma2, penalty=counted)
        return Draft(PureNoise(rate, sigma2, m, counted), self.charges(release, records))

    def charges(self, release: GammaMinimiser | PerturbedMinimiser, records: int) -> Charges:
        """All that a run of such releases can charge; rounds between them are free."""
        charges = tuple((event, self.reading) for event in release.cost(self.known(records)))
        between = int(self.settings.rounds) - self.reading
        return (*charges, (NoRecords(), between)) if between else charges
