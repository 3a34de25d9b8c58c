"""Decentralised consensus ADMM without privacy: docs/methods.md, sec. 1, eqs. (3) and (4)."""

from __future__ import annotations

from admmnet.holder.answers import Ask, Asking
from admmnet.holder.measurements import ExactMinimiser
from admmnet.methods.agent import vector_of
from admmnet.methods.base import Agent, AgentPlan, filled
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.settings import Given
from admmnet.privacy.calibrate import Target
from admmnet.types import Vector

ROUNDS, ETA = 100, 1e-3
"""At the paper's 30 and 0.5 it hardly moves from the larger class."""


class ADMM(ConsensusMethod):
    """Every round the agent broadcasts its exact local minimiser."""

    name = "admm"
    forms = ("published",)
    private = False
    by_rows = True

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Rounds, penalty and tolerance."""
        return filled(settings, rounds=ROUNDS, eta=ETA, proximal=0.0, beta=10.0**-3.5)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """There is no noise, and no budget."""
        return self.objective(agent)

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eq. (3)."""
        return vector_of(
            (yield Ask(agent.question(ExactMinimiser, self.linear_term(agent), agent.convexity, self.beta)))
        )
