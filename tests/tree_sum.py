"""A method of somebody else's package whose agents sum along a tree: noisy gradients at a public point, as integers.

It is named on the command line as ``--algorithm tests.tree_sum:TreeSum``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from admmnet.holder.answers import Ask, Asking, Released
from admmnet.holder.measurements import NoisyGradient
from admmnet.methods.base import Agent, AgentPlan, Method, filled
from admmnet.methods.settings import Given
from admmnet.privacy.calibrate import Draft, Target, calibrate
from admmnet.privacy.events import Gaussian
from admmnet.types import Integers, Total, Vector

GRID = 2.0**-30
"""What one unit of the integers is worth."""


@dataclass(slots=True)
class Point:
    """Public point, the same at every agent, and how many sums it has seen, void ones and whose."""

    here: Vector
    sums: int = 0
    void: int = 0
    heard: tuple[int, ...] = ()


class TreeSum(Method):
    """Gradient descent on the sum of all agents' mean losses."""

    name = "tree-sum"
    verb = "reduce"
    forms = ("proven",)

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Ten rounds."""
        return filled(settings, rounds=10, regularisation=0.0)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Equal parts of the budget."""
        known = self.known(self.facts.counts[agent])

        def draft(rho: float) -> Draft[float]:
            (unit,) = NoisyGradient(np.zeros(known.width), 1.0).cost(known)
            assert isinstance(unit, Gaussian)
            sigma = unit.sensitivity / math.sqrt(2.0 * rho / self.rounds)
            events = NoisyGradient(np.zeros(known.width), sigma).cost(known)
            return Draft(sigma, tuple((event, self.rounds) for event in events))

        return AgentPlan().calibrated(calibrate(draft, target))

    def start(self, agent: Agent, width: int) -> Point:
        """At zero."""
        return Point(np.zeros(width))

    def propose(self, agent: Agent, round: int) -> Asking[Integers | None]:
        """Noisy gradient on the grid."""
        answer = yield Ask(NoisyGradient(agent.state.here, agent.plan.noise))
        if not isinstance(answer, Released):
            return None
        found: Integers = np.rint(answer.value / GRID).astype(np.int64)
        return found

    def receive(self, agent: Agent, own: Integers | None, total: Total | None) -> None:
        """Step along the mean of the agents that are in the sum."""
        state: Point = agent.state
        if total is None:
            state.void += 1
            return
        state.sums, state.heard = state.sums + 1, total.agents
        state.here = state.here - 2.0 * (total.value * GRID) / len(total.agents)

    def model(self, agent: Agent) -> Vector:
        """The public point."""
        here: Vector = agent.state.here
        return here
