"""M-ADMM, penalty perturbation: Zhang, Khalili, Liu 2018a, as Ding et al. 2020 compare with it.

docs/methods.md, sec. 6 eqs. (25), (26), (29), (30).
"""

from __future__ import annotations

import math
from typing import Annotated

from admmnet.errors import RequestError
from admmnet.methods.agents import AgentPlan, Agents, Asking, Told
from admmnet.methods.base import filled
from admmnet.methods.rivals import Rival
from admmnet.methods.settings import Given, NoisySettings
from admmnet.settings import Auto, about

GROWING = 1.02
"""Growth of the penalty a round, as published; the paper leaves the schedule open."""
LEAST_PENALTY = 1e-100
"""Least penalty, by which the noise is divided."""
MOST_PENALTY = 1e5
"""Largest penalty of any round: rounding errors of a solve grow with it."""


class MSettings(NoisySettings, frozen=True, kw_only=True):
    """Settings of M-ADMM alone."""

    growth: Annotated[float, about(ge=1, le=2)] | Auto = "auto"
    """factor of the penalty every round; auto: 1, 1.02 if published"""


class MADMM(Rival):
    """Every round an agent solves with perturbed centres in a growing penalty; the dual step keeps the first one."""

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
