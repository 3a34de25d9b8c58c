"""Decentralised consensus ADMM without privacy: docs/algorithms.md, sec. 1, eqs. (3) and (4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admmnet.privacy.events import Unprotected
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent
    from admmnet.drive import Steps


@dataclass(frozen=True)
class ADMM:
    """Every round the agent broadcasts its exact local minimiser.

    Parameters
    ----------
    beta : float
        Gradient norm to which the local problem is solved.
    """

    beta: float

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,)."""
        agent.ledger.charge(round, Unprotected())
        return (yield from agent.solve(agent.linear_term(), self.beta))  # eq. (3)
