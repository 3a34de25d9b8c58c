"""DVP, dual variable perturbation: Zhang, Zhu 2017, as Ding et al. 2020 compare with it.

docs/methods.md, sec. 6 eqs. (25)-(28).
"""

from __future__ import annotations

import math

from admmnet.methods.agents import AgentPlan, Agents, Asking, Told
from admmnet.methods.rivals import Rival, least_convexity_pure


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

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (28): 2 (dual + e/2) . theta in place of 2 dual . theta; the plan's convexity includes the ridge Phi."""
        return (yield self.release(agents, self.linear_term(agents), agents.plan.convexity))
