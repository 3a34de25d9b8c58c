"""PP-ADMM: every round a perturbed minimiser is broadcast. Ding et al. 2020, Algorithm 1, and its proven form.

docs/algorithms.md, sec. 2 eqs. (5)-(7) as published; sec. 5 eqs. (16)-(18) proven.
"""

from __future__ import annotations

from admmnet.holder.answers import Ask, Asking
from admmnet.holder.measurements import PerturbedMinimiser
from admmnet.methods.base import Agent
from admmnet.methods.consensus import ConsensusMethod, vector_of
from admmnet.types import Vector


class PPADMM(ConsensusMethod):
    """Both forms: the proven one has the convexity of penalty and self-term, and Theorems 3 and 4 or 7."""

    name = "pp-admm"

    def minimiser(self, agent: Agent) -> PerturbedMinimiser:
        """Release of this round, eqs. (5)-(7)."""
        noise = agent.plan.noise
        return PerturbedMinimiser(
            self.linear_term(agent),
            agent.convexity,
            self.beta,
            noise.sigma1,
            noise.sigma2,
            tight=not self.published,
        )

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Broadcast, or None once the budget refuses."""
        return vector_of((yield Ask(self.minimiser(agent))))
