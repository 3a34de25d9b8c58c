"""R-ADMM, recycled ADMM: Zhang, Khalili, Liu 2018b, as Ding et al. 2020 compare with it.

docs/methods.md, sec. 6 eqs. (25), (26), (30)-(33).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from admmnet.holder.answers import Ask, Asking, Released
from admmnet.methods.base import Agent, Facts, filled
from admmnet.methods.consensus import ConsensusState
from admmnet.methods.rivals import Rival
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.settings import Auto, about
from admmnet.types import Vector


class RSettings(NoisySettings, frozen=True, kw_only=True):
    """Settings of R-ADMM alone."""

    gamma: Annotated[float, about(ge=0, le=1e9)] | Auto = "auto"
    """weight that holds even rounds near the last vector; auto: the loss's curvature bound"""


@dataclass(slots=True)
class RecycledState(ConsensusState):
    """With the gradient of f_i + e . theta / w_i at the last vector, made of released vectors: eq. (32)."""

    gradient: Vector | None = None


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

    def start(self, agent: Agent, width: int) -> RecycledState:
        """Everything at zero."""
        return RecycledState.zero(agent.degree, width)

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eqs. (31) and (32), or (33)."""
        state, plan = agent.state, agent.plan
        if round % 2:
            return self._recycle(agent)
        state.gradient = None
        answer = yield Ask(self.release(agent, self.linear_term(agent), agent.convexity))
        if not isinstance(answer, Released):
            return None
        theta: Vector = answer.value
        # what the optimality condition says of grad f_i + e, at the released vector
        own = agent.convexity - plan.regularisation / plan.weight
        state.gradient = -(answer.used.linear + own * theta)
        return theta

    def _recycle(self, agent: Agent) -> Vector | None:
        """Step on the recycled gradient, eq. (33): a function of released vectors alone."""
        state, plan, gamma = agent.state, agent.plan, float(self.settings.gamma)
        if state.gradient is None:
            return None
        linear = self.linear_term(agent, proximal=0.0) + state.gradient - gamma * state.theta
        state.gradient = None  # used once: the agent may be offline in the next round that would make another
        step: Vector = -linear / (2.0 * plan.eta * agent.degree / plan.weight + gamma)
        return step
