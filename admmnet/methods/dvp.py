"""DVP, dual variable perturbation: Zhang, Zhu 2017, as Ding et al. 2020 compare with it.

docs/algorithms.md, sec. 6 eqs. (25)-(28).
"""

from __future__ import annotations

from admmnet.holder.answers import Ask, Asking
from admmnet.holder.measurements import GammaMinimiser
from admmnet.methods.base import Agent
from admmnet.methods.consensus import ConsensusMethod, vector_of
from admmnet.types import Vector


class DVP(ConsensusMethod):
    """Every round an agent solves with a perturbed dual, and broadcasts."""

    name = "dvp"

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eq. (28): 2 (dual + e/2) . theta in place of 2 dual . theta; the plan's convexity includes the ridge Phi."""
        noise = agent.plan.noise
        linear = self.linear_term(agent)
        return vector_of(
            (yield Ask(GammaMinimiser(linear, noise.convexity, self.beta, noise.rate, noise.sigma2)))
        )
