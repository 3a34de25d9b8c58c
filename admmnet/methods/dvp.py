"""DVP, dual variable perturbation: Zhang, Zhu 2017, as Ding et al. 2020 compare with it.

docs/methods.md, sec. 6 eqs. (25)-(28).
"""

from __future__ import annotations

import math

from admmnet.holder.answers import Ask, Asking
from admmnet.methods.agent import vector_of
from admmnet.methods.base import Agent, AgentPlan
from admmnet.methods.rivals import Rival, least_convexity_pure
from admmnet.types import Vector


class DVP(Rival):
    """Every round an agent solves with a perturbed dual, and broadcasts."""

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

    def _counted(self, penalty: float) -> float | None:
        """Its accounting goes by the whole convexity."""
        return None

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eq. (28): 2 (dual + e/2) . theta in place of 2 dual . theta; the plan's convexity includes the ridge Phi."""
        return vector_of((yield Ask(self.release(agent, self.linear_term(agent), agent.plan.convexity))))
