"""R-ADMM, recycled ADMM: Zhang, Khalili, Liu 2018b, as Ding et al. 2020 compare with it.

docs/methods.md, sec. 6 eqs. (25), (26), (30)-(33).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from admmnet.methods.agents import Agents, Asking, Mask, Said, Told, wide
from admmnet.methods.base import Facts, filled
from admmnet.methods.rivals import Rival
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.settings import Auto, about
from admmnet.types import Matrix


class RSettings(NoisySettings, frozen=True, kw_only=True):
    """Settings of R-ADMM alone."""

    gamma: Annotated[float, about(ge=0, le=1e9)] | Auto = "auto"
    """weight that holds even rounds near the last vector; auto: the loss's curvature bound"""


@dataclass(slots=True)
class Recycled:
    """Gradients of f_i + e . theta / w_i at the last vectors, made of released vectors: eq. (32); whose are known."""

    gradient: Matrix
    known: Mask


class RADMM(Rival):
    """Rounds 0, 2, 4, ... solve a perturbed problem; the rounds between reuse its gradient and touch no record."""

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
    def reading(self) -> int:
        """Rounds 0, 2, 4, ... of the start, or one that is never asked."""
        return max((int(self.settings.rounds) + 1 - self.facts.first % 2) // 2, 1)

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
        own.known = np.where(agents.online, told.said, own.known)
        return told

    def _recycle(self, agents: Agents) -> Said:
        """Step on the recycled gradients, eq. (33): a function of released vectors alone."""
        plan, own, gamma = agents.plan, agents.own, float(self.settings.gamma)
        linear = self.linear_term(agents, proximal=0.0) + own.gradient - gamma * agents.theta
        # each is used once: the agent may be offline in the next round that would make another
        known, own.known = own.known & agents.online, own.known & ~agents.online
        return Said(-linear / wide(2.0 * plan.eta * agents.degree / plan.weight + gamma), known)
