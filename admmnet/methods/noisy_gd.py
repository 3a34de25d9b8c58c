"""Noisy gradient descent on one public point: docs/methods.md, eqs. (70)-(74).

The agents sum noisy gradients along a spanning tree, and all take the same accelerated step (Nesterov 1983).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admmnet.holder.known import Known
from admmnet.holder.measurements.sums import GradientSum
from admmnet.methods.agents import Agents, Asking, Told
from admmnet.methods.base import Facts, filled
from admmnet.methods.settings import MethodSettings, StepSettings
from admmnet.methods.sums import FINEST, SumMethod, summed_noise
from admmnet.types import Matrix, Total, Vector

REACH = {"binary": 12.0, "classes": 12.0, "real": 2.0}
"""Q of eq. (73), squared distance that the descent is to cover, by task; of K classes K times as much."""
FEWEST, MOST = 10, 300
"""Range of the automatic number of rounds."""
WIDTHS = {"smoothed-hinge": 1.0, "huber": 0.25}
"""Widths of the losses that are taken where the settings leave the loss open."""


@dataclass(slots=True)
class DescentState:
    """Public, and the same at every agent: where the last step led, where the next gradients are, steps so far."""

    theta: Vector
    point: Vector
    steps: int = 0


class NoisyGD(SumMethod):
    """Every round each agent releases the sum of its records' gradients with discrete Gaussian noise."""

    name = "noisy-gd"
    Settings = StepSettings
    losses: ClassVar[dict[str, str]] = {"binary": "smoothed-hinge", "classes": "softmax", "real": "huber"}

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        if settings.loss == "auto":
            settings = filled(settings, loss=(loss := self.losses[facts.task]), loss_width=WIDTHS.get(loss, "auto"))
        super().__init__(settings, facts)
        step = 1.0 / (self.loss.curvature_bound() + float(self.settings.regularisation))
        self.settings = filled(self.settings, step_size=step)
        self.wanted = self._wanted()
        self.settings = filled(self.settings, rounds=round(min(MOST, max(FEWEST, self.wanted))))

    def _wanted(self) -> float:
        """T of eq. (73), not held to its range: how many rounds the noise lets the descent use."""
        vectors = max(1, self.size // self.facts.width)
        noise = summed_noise(self.facts, self.loss.lipschitz(), self.colluders if self.masked else None)
        return math.sqrt(4.0 * REACH[self.facts.task] * vectors / (float(self.settings.step_size) * noise))

    def notes(self) -> tuple[str, ...]:
        """Say where the noise is expected to drown the descent."""
        found = super().notes()
        if self.wanted >= FEWEST:
            return found
        real = self.facts.task == "real"
        wrong, guess = ("squared error", "always the mean") if real else ("errors", "always the larger class")
        return (
            *found,
            f"{self.records} records at {len(self.facts.counts)} agents and a model of {self.size} numbers: at this "
            f"epsilon expect a quarter more {wrong} than without privacy, or as many as {guess} and more; "
            "raise --epsilon, project to fewer features (--project), or find more records",
        )

    def unit(self) -> GradientSum:
        """Sum of gradients at zero."""
        return GradientSum(np.zeros(self.size), 1.0, FINEST)

    def costing(self, known: Known, point: Vector, ratio: float) -> GradientSum:
        """Sum of gradients at the point."""
        return GradientSum.costing(known, point, ratio, self.grid)

    def start(self, agents: Agents) -> None:
        """Everything at zero."""
        agents.own = DescentState(np.zeros(self.size), np.zeros(self.size))

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (70): the agents' noisy sums."""
        return (yield from self.summands(agents, agents.own.point))

    def models(self, agents: Agents) -> Matrix:
        """The same for all."""
        return np.broadcast_to(agents.own.theta, (len(agents), self.size))

    def receive(self, agents: Agents, total: Total | None) -> None:
        """Take the step of eq. (74); a void round takes none."""
        if total is None:
            return
        state: DescentState = agents.own
        gradient = total.value * (self.grid / self.records_of(total.agents))
        gradient += float(self.settings.regularisation) * state.point
        theta = state.point - float(self.settings.step_size) * gradient
        momentum = state.steps / (state.steps + 3.0)
        state.point = theta + momentum * (theta - state.theta)
        state.theta, state.steps = theta, state.steps + 1
