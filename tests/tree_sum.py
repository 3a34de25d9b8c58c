"""A method of somebody else's package whose agents sum along a tree: noisy gradients at a public point, as integers.

It is named on the command line as ``--algorithm tests.tree_sum:TreeSum``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from admmnet.holder.measurements import NoisyGradient
from admmnet.methods.agents import AgentPlan, Agents, Asking, Said
from admmnet.methods.base import Method, filled
from admmnet.methods.settings import Given
from admmnet.privacy.calibrate import Draft, Target, calibrate
from admmnet.privacy.events import Gaussian
from admmnet.types import Matrix, Total, Vector

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

    def start(self, agents: Agents) -> None:
        """At zero."""
        agents.own = Point(np.zeros(self.size))

    def propose(self, agents: Agents, round: int) -> Asking[Said]:
        """Noisy gradients on the grid."""
        here = np.tile(agents.own.here, (len(agents), 1))
        told = yield agents.ask(NoisyGradient, here, agents.plan.noise)
        return Said(np.rint(told.value / GRID).astype(np.int64), told.said)

    def receive(self, agents: Agents, total: Total | None) -> None:
        """Step along the mean of the agents that are in the sum."""
        state: Point = agents.own
        if total is None:
            state.void += 1
            return
        state.sums, state.heard = state.sums + 1, total.agents
        state.here = state.here - 2.0 * (total.value * GRID) / len(total.agents)

    def models(self, agents: Agents) -> Matrix:
        """The public point."""
        return np.tile(agents.own.here, (len(agents), 1))
