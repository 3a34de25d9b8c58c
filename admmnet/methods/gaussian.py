"""DVP, M-ADMM and R-ADMM with Gaussian noise in place of K(a): docs/methods.md, sec. 6 eq. (107).

What the noise brings, apart from what the method brings. Proof: docs/proofs.md, Theorem 3 (Gaussian forms of the
rivals). The published form is the papers' algorithm with their constants and calibrates by the same proof.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.measurements import PerturbedMinimiser
from admmnet.methods.agents import Agents, Asks
from admmnet.methods.dvp import DVP
from admmnet.methods.m_admm import MADMM
from admmnet.methods.pp_admm import ROUNDS, PerturbedConsensus, sigma_objective
from admmnet.methods.r_admm import RADMM
from admmnet.methods.rivals import Rival
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.calibrate import Draft
from admmnet.privacy.proven import LOGISTIC
from admmnet.types import Matrix


class GaussianNoise(NamedTuple):
    """Standard deviations of b and of the noise on the solution, and the least m over the run, Phi included."""

    sigma1: float
    sigma2: float
    convexity: float


class GaussianRival(PerturbedConsensus, Rival):
    """A rival whose linear term has Gaussian noise, calibrated by Theorems 3 and 4 in either form."""

    usual: ClassVar[int] = ROUNDS

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Also refuse the papers' arithmetic, which has no such noise."""
        super().check_problem(settings)
        if settings.accountant == "published":
            raise RequestError(
                f"accountant = 'published' is not allowed with algorithm = {cls.name!r}: its paper has no Gaussian "
                "noise; add accountant = 'proven', or take the algorithm without -gaussian"
            )

    @property
    def releases(self) -> int:
        """Rounds that read records."""
        return self.reading

    def least(self, rho: float, records: int) -> float:
        """Convexity that the method itself makes sure of at a nominal budget; 0 for none."""
        return 0.0

    def release(self, agents: Agents, linear: Matrix, m: Any, *, booked: Any = None, scale: Any = 1.0) -> Asks:
        """Eq. (107): b is drawn itself, as scale e has its law."""
        noise = agents.plan.noise
        return agents.ask(PerturbedMinimiser, linear, m, self.beta, noise.sigma1, noise.sigma2, booked)

    def _draft(self, records: int, m: float, penalty: float, rho: float) -> Draft[GaussianNoise]:
        """Every round that reads records gets an equal part of a nominal budget, eq. (18)."""
        m, each = max(m, self.least(rho, records)), rho / self.reading
        hidden = float(self.settings.inexact_share)
        sigma1 = sigma_objective(each * (1.0 - hidden), records, self.loss.lipschitz())
        sigma2 = 2.0 * self.beta / m / math.sqrt(2.0 * each * hidden)
        release = PerturbedMinimiser(np.zeros(0), m, self.beta, sigma1, sigma2)
        return Draft(GaussianNoise(sigma1, sigma2, m), self.charges(release, records))


class GaussianDVP(GaussianRival, DVP):
    """Where Phi is 0 and self-terms are those of the proven PP-ADMM, it is that, bit for bit."""

    name = "dvp-gaussian"

    def least(self, rho: float, records: int) -> float:
        """Convexity below which (L) of Theorem 3 holds at no order: the m + Phi of eq. (107)."""
        return self.loss.curvature_bound() / (records * math.sqrt(rho / self.reading / LOGISTIC))


class GaussianMADMM(GaussianRival, MADMM):
    """With a constant penalty it is the proven PP-ADMM, bit for bit."""

    name = "m-admm-gaussian"


class GaussianRADMM(GaussianRival, RADMM):
    """Every other round has the noise of the round before and touches no record."""

    name = "r-admm-gaussian"
