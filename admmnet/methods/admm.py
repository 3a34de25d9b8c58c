"""Decentralised consensus ADMM without privacy: docs/methods.md, sec. 1, eqs. (3) and (4)."""

from __future__ import annotations

from admmnet.holder.measurements import ExactMinimiser
from admmnet.methods.agents import AgentPlan, Agents, Asking, Told
from admmnet.methods.base import filled
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.settings import Given
from admmnet.privacy.calibrate import Target

ROUNDS, ETA = 100, 1e-3
"""At the paper's 30 and 0.5 it hardly moves from the larger class."""


class ADMM(ConsensusMethod):
    """Every round the agent broadcasts its exact local minimiser."""

    name = "admm"
    forms = ("published",)
    private = False

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Rounds, penalty and tolerance."""
        return filled(settings, rounds=ROUNDS, eta=ETA, proximal=0.0, beta=10.0**-3.5)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """There is no noise, and no budget."""
        return self.objective(agent)

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (3)."""
        return (yield agents.ask(ExactMinimiser, self.linear_term(agents), agents.convexity, self.beta))
