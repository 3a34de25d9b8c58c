"""DVP, M-ADMM and R-ADMM, as Ding et al. 2020 compare with them: docs/methods.md, sec. 6 eqs. (25)-(33), (107).

Every round that reads records is pure epsilon, plus a little Gaussian noise for the inexact solve. ``published`` takes
what the papers' arithmetic gives; ``proven`` the largest nominal budget whose proven worst case stays within (epsilon,
delta). The Gaussian forms have Gaussian noise in place of K(a), which shows what the noise brings, apart from the
method (docs/proofs.md, Theorem 3): the papers' algorithms with their constants, calibrated by the same proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.measurements import GammaMinimiser, PerturbedMinimiser
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks, Mask, Said, Told, wide
from admmnet.methods.base import Facts, filled
from admmnet.methods.pp_admm import ROUNDS, PerturbedConsensus
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Draft, NothingFound, Target, pure_epsilon
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.events import NoRecords
from admmnet.privacy.proven import LOGISTIC
from admmnet.settings import Auto, about
from admmnet.solvers.losses import Logistic
from admmnet.types import Matrix

ROOM = 1e-9
"""Relative; DVP's ridge exceeds what (L) of Theorem 11 asks for by that much, or rounding could undo it."""
GROWING = 1.02
"""Growth of M-ADMM's penalty a round, as published; the paper leaves the schedule open."""
LEAST_PENALTY, MOST_PENALTY = 1e-100, 1e5
"""Least penalty, by which M-ADMM's noise is divided, and largest of any round: rounding errors of a solve grow with it.
"""


def least_convexity_pure(epsilon: float, records: float, curvature: float, *, logistic: bool) -> float:
    """Convexity at which curvature takes nothing of epsilon (logistic), or half: eq. (27)."""
    kappa = (1.0 - ROOM) * epsilon / 8.0 if logistic else math.expm1(min(0.5 * epsilon, 700.0))
    return curvature / (records * kappa)


class Rival(PerturbedConsensus):
    """A method with a linear term of density ~ exp(-a ||b||)."""

    usual = 6
    """The noise is larger than PP-ADMM's; of R-ADMM as many rounds that read records."""
    radius = 10.7

    @property
    def logistic(self) -> bool:
        """Whether (L) of Theorem 11 may apply."""
        return type(self.loss) is Logistic

    def cheap(self, agent: int) -> float:
        """What keeps curvature cheap, eq. (27)."""
        n, c1 = self.facts.counts[agent] / self.weight(agent), self.loss.curvature_bound()  # eq. (63)
        epsilon = pure_epsilon(self.facts.nominal[agent] / self.releases)
        return least_convexity_pure(epsilon, n, c1, logistic=self.logistic)

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

    def counted_penalty(self, penalty: float) -> float | None:
        """Eq. (P9): the papers of M-ADMM and R-ADMM count the penalty alone."""
        return penalty if self.published else None

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent, and a convexity that includes what the method makes sure of."""
        found = super().plan(agent, target)
        return replace(found, convexity=found.noise.convexity)

    def _calibrate(self, target: Target, *alike: Any) -> Draft[Any]:
        if target.accountant == "published":
            rho = loose_rho(target.epsilon, target.delta)
            if not float(self.settings.inexact_share) * rho / self.releases > 0.0:
                raise BudgetError(
                    f"epsilon = {target.epsilon:g} affords no release at all; raise --epsilon or lower --rounds"
                )
        try:
            return super()._calibrate(target, *alike)
        except NothingFound:
            each = target.nominal_rho() / self.releases
        left = math.sqrt(2.0 * each) if self.published else pure_epsilon(each)
        _, m, _, counted = alike
        convex = "convexity", m, "--eta, --regularisation"
        what, most, remedy = convex if counted is None else ("penalty", counted, "--eta")
        raise RequestError(
            f"{self.name}: epsilon = {target.epsilon:g} leaves {left:.3g} a round, and the loss's curvature alone "
            f"uses it up at a {what} of {most:.3g}: raise {remedy} or --epsilon, or lower --rounds"
        )

    def draft(self, records: int, m: float, share: float, counted: float | None, rho: float) -> Draft[Any] | None:
        """Noise at a nominal budget; None if curvature alone costs a round's."""
        c1, published, each = self.loss.curvature_bound(), self.published, rho / self.releases
        hidden = float(self.settings.inexact_share)
        exact, inexact = each * (1.0 - hidden), each * hidden
        # eq. (26): the papers book epsilon^2/2, Theorem 2 epsilon tanh(epsilon/2)
        epsilon = math.sqrt(2.0 * exact) if published else pure_epsilon(exact)
        m = max(m, self.ridge(epsilon, records, m))
        kappa = c1 / (records * m)
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
        return Draft(release, self.charges(release, records))


class DVP(Rival):
    """DVP, dual variable perturbation, Zhang, Zhu 2017: every round an agent solves with a perturbed dual."""

    name = "dvp"

    def check(self, agent: int, own: AgentPlan) -> None:
        """Its paper assumes nothing of the kind."""

    def ridge(self, epsilon: float, records: int, m: float) -> float:
        """Phi, eq. (27)."""
        c1 = self.loss.curvature_bound()
        if not self.published:
            return least_convexity_pure(epsilon, records, c1, logistic=self.logistic)
        if epsilon > 2.0 * math.log1p(c1 / (records * m)):
            return 0.0
        return c1 / (records * math.expm1(0.25 * epsilon))

    def counted_penalty(self, penalty: float) -> float | None:
        """Its accounting goes by the whole convexity."""
        return None

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (28): 2 (dual + e/2) . theta in place of 2 dual . theta; the plan's convexity includes the ridge Phi."""
        return (yield self.release(agents, self.linear_term(agents), agents.plan.convexity))


class MSettings(NoisySettings, frozen=True, kw_only=True):
    """Settings of M-ADMM alone."""

    growth: Annotated[float, about(ge=1, le=2)] | Auto = "auto"
    """factor of the penalty every round; auto: 1, 1.02 if published"""


class MADMM(Rival):
    """M-ADMM, penalty perturbation, Zhang, Khalili, Liu 2018a.

    Every round an agent solves with perturbed centres in a growing penalty; the dual step keeps the first one.
    """

    name = "m-admm"
    Settings = MSettings

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Also the growth."""
        growth = GROWING if settings.method == "published" else 1.0
        return filled(super().fixed(settings), growth=growth)

    def check(self, agent: int, own: AgentPlan) -> None:
        """Also refuse a penalty too small to carry noise, or that grows to where no solve can be certified."""
        super().check(agent, own)
        penalty = 2.0 * own.eta * self.facts.graph.degree(agent) / own.weight
        if penalty < LEAST_PENALTY:
            raise RequestError(
                f"eta = {own.eta:g} makes the penalty 2 eta |B_i| / w_i smaller than {LEAST_PENALTY:g}: m-admm's noise "
                "is perturbed centres in it, which would overflow; raise --eta"
            )
        rounds, growth = self.facts.first + int(self.settings.rounds), float(self.settings.growth)
        log = math.log(penalty) + (rounds - 1) * math.log(growth)
        if log > math.log(MOST_PENALTY):
            raise RequestError(
                f"growth = {growth:g} makes the penalty 2 eta |B_i| / w_i exceed {MOST_PENALTY:g} within {rounds} "
                "rounds, where no solve reaches beta: lower --growth, --rounds or --eta"
            )

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (29), eta sum_j ||(theta_i + theta_j)/2 + e - theta||^2: linear in e up to a constant."""
        plan, degree = agents.plan, agents.degree
        eta = plan.eta * float(self.settings.growth) ** round
        both = 2.0 * eta * degree / plan.weight
        m = agents.convexity + (both - 2.0 * plan.eta * degree / plan.weight)
        linear = self.linear_term(agents, eta=eta)
        return (yield self.release(agents, linear, m, booked=plan.convexity, scale=-both))


class RSettings(NoisySettings, frozen=True, kw_only=True):
    """Settings of R-ADMM alone."""

    gamma: Annotated[float, about(ge=0, le=1e9)] | Auto = "auto"
    """weight that holds even rounds near the last vector; auto: the loss's curvature bound"""


@dataclass(slots=True)
class Recycled:
    """Gradients of f_i + e . theta / w_i at the last vectors, made of released vectors: eq. (32); whose are usable."""

    gradient: Matrix
    usable: Mask


class RADMM(Rival):
    """R-ADMM, recycled ADMM, Zhang, Khalili, Liu 2018b.

    Rounds 0, 2, 4, ... solve a perturbed problem; the rounds between reuse its gradient and touch no record.
    """

    name = "r-admm"
    Settings = RSettings

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        self.settings = filled(self.settings, gamma=self.loss.curvature_bound())

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Twice the rounds: every other one reads records."""
        if settings.method != "published":
            settings = filled(settings, rounds=2 * cls.usual)
        return super().fixed(settings)

    @property
    def releases(self) -> int:
        """Rounds 0, 2, 4, ... of the start, or one that is never asked."""
        return max((int(self.settings.rounds) + 1 - self.facts.first % 2) // 2, 1)

    def charges(self, release: PerturbedMinimiser | GammaMinimiser, records: int) -> Charges:
        """Rounds between are free."""
        between = int(self.settings.rounds) - self.releases
        return (*super().charges(release, records), *([(NoRecords(), between)] if between else ()))

    def start(self, agents: Agents) -> None:
        """Everything at zero."""
        agents.own = Recycled(np.zeros_like(agents.theta), np.zeros(len(agents), dtype=bool))

    def propose(self, agents: Agents, round: int) -> Asking[Said | Told]:
        """Eqs. (31) and (32), or (33)."""
        plan, own = agents.plan, agents.own
        if round % 2:
            return self._recycle(agents)
        told = yield self.release(agents, self.linear_term(agents), agents.convexity)
        # what the optimality condition says of grad f_i + e, at the released vector
        m = agents.convexity - plan.regularisation / plan.weight
        gradient = -(told.used + wide(m) * told.value)
        own.gradient = np.where(told.said[:, None], gradient, own.gradient)
        own.usable = np.where(agents.online, told.said, own.usable)
        return told

    def _recycle(self, agents: Agents) -> Said:
        """Step on the recycled gradients, eq. (33): a function of released vectors alone."""
        plan, own, gamma = agents.plan, agents.own, float(self.settings.gamma)
        linear = self.linear_term(agents, proximal=0.0) + own.gradient - gamma * agents.theta
        # each is used once: the agent may be offline in the next round that would make another
        known, own.usable = own.usable & agents.online, own.usable & ~agents.online
        return Said(-linear / wide(2.0 * plan.eta * agents.degree / plan.weight + gamma), known)


class GaussianRival(Rival):
    """A rival whose linear term has Gaussian noise, calibrated by Theorems 3 and 4 in either form."""

    usual, radius = ROUNDS, PerturbedConsensus.radius
    noise_norm, cheap, draft = PerturbedConsensus.noise_norm, PerturbedConsensus.cheap, PerturbedConsensus.draft

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Also refuse the papers' arithmetic, which has no such noise."""
        super().check_problem(settings)
        if settings.accountant == "published":
            raise RequestError(
                f"accountant = 'published' is not allowed with algorithm = {cls.name!r}: its paper has no Gaussian "
                "noise; add accountant = 'proven', or take the algorithm without -gaussian"
            )

    def release(self, agents: Agents, linear: Matrix, m: Any, *, booked: Any = None, scale: Any = 1.0) -> Asks:
        """Eq. (107): b is drawn itself, as scale e has its law."""
        noise = agents.plan.noise
        return agents.ask(PerturbedMinimiser, linear, m, self.beta, noise.sigma1, noise.sigma2, booked)


class GaussianDVP(GaussianRival, DVP):
    """Where Phi is 0 and self-terms are those of the proven PP-ADMM, it is that, bit for bit."""

    name = "dvp-gaussian"

    def least(self, rho: float, records: int) -> float:
        """Convexity below which (L) of Theorem 3 holds at no order: the m + Phi of eq. (107)."""
        return self.loss.curvature_bound() / (records * math.sqrt(rho / self.releases / LOGISTIC))


class GaussianMADMM(GaussianRival, MADMM):
    """With a constant penalty it is the proven PP-ADMM, bit for bit."""

    name = "m-admm-gaussian"


class GaussianRADMM(GaussianRival, RADMM):
    """Every other round has the noise of the round before and touches no record."""

    name = "r-admm-gaussian"
