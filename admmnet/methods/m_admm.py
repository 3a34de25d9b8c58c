"""M-ADMM, penalty perturbation: Zhang, Khalili, Liu 2018a, as Ding et al. 2020 compare with it.

docs/algorithms.md, sec. 6 eqs. (25), (26), (29), (30).
"""

from __future__ import annotations

from admmnet.holder.answers import Ask, Asking
from admmnet.holder.measurements import GammaMinimiser
from admmnet.methods.base import Agent
from admmnet.methods.consensus import ConsensusMethod, vector_of
from admmnet.types import Vector


class MADMM(ConsensusMethod):
    """Every round an agent solves with perturbed centres in a growing penalty; the dual step keeps the first one."""

    name = "m-admm"

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eq. (29), eta sum_j ||(theta_i + theta_j)/2 + e - theta||^2: linear in e up to a constant."""
        plan, noise = agent.plan, agent.plan.noise
        eta = plan.eta * float(self.settings.growth) ** round
        both = 2.0 * eta * agent.degree
        measurement = GammaMinimiser(
            agent.state.linear_term(eta, plan.proximal, agent.contact),
            agent.convexity + (both - 2.0 * plan.eta * agent.degree),
            self.beta,
            noise.rate,
            noise.sigma2,
            booked=noise.convexity,
            scale=-both,
            penalty=noise.release[0].penalty,
        )
        return vector_of((yield Ask(measurement)))
