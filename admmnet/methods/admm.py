"""Decentralised consensus ADMM without privacy: docs/algorithms.md, sec. 1, eqs. (3) and (4)."""

from __future__ import annotations

from admmnet.holder.answers import Ask, Asking
from admmnet.holder.measurements import ExactMinimiser
from admmnet.methods.base import Agent
from admmnet.methods.consensus import ConsensusMethod, vector_of
from admmnet.types import Vector


class ADMM(ConsensusMethod):
    """Every round the agent broadcasts its exact local minimiser."""

    name = "admm"
    forms = ("published",)

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eq. (3)."""
        return vector_of((yield Ask(ExactMinimiser(self.linear_term(agent), agent.convexity, self.beta))))
