"""What an agent that was evicted leaves in its neighbours' duals, eq. (111): for ``--on-loss continue`` alone."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from admmnet.methods.agent import Agent, Contact
from admmnet.methods.base import Method
from admmnet.methods.consensus import ConsensusState
from admmnet.methods.joining import JoiningState
from admmnet.types import Matrix


def remembering(method: Method, agent: Agent) -> Matrix | None:
    """What has moved the dual along every edge, over eta/2, shape (degree, d): of methods that add noise."""
    noisy = method.private and isinstance(agent.state, ConsensusState)
    return np.zeros_like(agent.state.heard) if noisy else None


def remember(agent: Agent, moved: Matrix) -> None:
    """Add what has moved it in this round, eq. (36)."""
    state: ConsensusState = agent.state
    both = np.ones(agent.degree, dtype=bool)
    if agent.contact is not None:
        both &= agent.contact.arrives & agent.contact.hears
    if isinstance(state, JoiningState):  # edges that count, eq. (86)
        both &= state.met & state.told
    said = np.broadcast_to(state.theta, state.heard.shape) if state.said is None else state.said
    moved[both] += said[both] - state.heard[both]


def evict(agent: Agent, lost: Collection[int], moved: Matrix | None) -> None:
    """Make edges to lost agents absent, and take what moved along them out of the dual, eq. (111)."""
    gone = np.array([j in lost for j in agent.neighbours], dtype=bool)
    if not gone.any():
        return
    agent.contact = Contact(*((~gone,) * 3 if agent.contact is None else (mask & ~gone for mask in agent.contact)))
    if moved is not None:
        agent.state.dual = agent.state.dual - 0.5 * agent.plan.eta * moved[gone].sum(axis=0)
        moved[gone] = 0.0
