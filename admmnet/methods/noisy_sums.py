"""Methods of noisy sums along a spanning tree: docs/methods.md, eqs. (70)-(77).

Noisy gradient descent on one public point: all take the same accelerated step (Nesterov 1983). And sufficient
statistics, one noisy sum of moments and a ridge solve, after Wang 2018, "Revisiting differentially private linear
regression" (SSP; AdaSSP chooses its ridge privately, which costs budget; here it follows from the public noise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known
from admmnet.holder.measurements.sums import GradientSum, MomentSum
from admmnet.methods.agents import Agents, Asking, Told
from admmnet.methods.base import Facts, filled
from admmnet.methods.settings import Given, MethodSettings, StepSettings
from admmnet.methods.sums import FINEST, SumMethod, moments
from admmnet.settings import Auto, about
from admmnet.types import Matrix, Total, Vector

REACH = {"binary": 12.0, "classes": 12.0, "real": 2.0}
"""Q of eq. (73), squared distance that the descent is to cover, by task; of K classes K times as much."""
FEWEST, MOST = 10, 300
"""Range of the automatic number of rounds."""
RIDGE = 0.75
"""Ridge over sigma sqrt(d), half the typical norm of the second moments' noise, eq. (77)."""
SENSITIVITY = 2.0
"""Of the moments, docs/proofs.md Theorem 21."""
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
        variance = self.size * self.noise_of(self.facts.nominal)
        noise = 2.0 * self.loss.lipschitz() / self.facts.records * math.sqrt(variance)  # eq. (72)
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
            f"{self.facts.records} records at {len(self.facts.counts)} agents and a model of {self.size} numbers: at "
            f"this epsilon expect a quarter more {wrong} than without privacy, or as many as {guess} and more; "
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


class MomentSettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of its own."""

    ridge: Annotated[float, about(gt=0, le=1e9, tunable=True)] | Auto = "auto"
    """ridge over the norm of its noise; auto: 0.75"""


class SSP(SumMethod):
    """Least squares on the moments of all records; their noisy sum is all that is ever released."""

    name = "ssp"
    Settings = MomentSettings
    losses: ClassVar[dict[str, str]] = dict.fromkeys(("binary", "classes", "real"), "squared")

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        self._solved: tuple[Total, Vector] | None = None  # agents of a process share their total

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """One round."""
        return filled(settings, loss="squared", rounds=1, ridge=RIDGE)

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Squares alone have sufficient statistics, and one message holds them."""
        if settings.loss not in ("auto", "squared"):
            raise RequestError(
                f"loss = {settings.loss!r} does not go with ssp, which solves least squares: leave it out, or take "
                "algorithm = 'noisy-gd'"
            )
        if settings.rounds not in ("auto", 1):
            raise RequestError(
                f"rounds = {settings.rounds} is not allowed with ssp, whose agents speak once: leave it out"
            )

    def memory(self, agents: int) -> float:
        """Some (d, d) matrices, and half of one an agent: measured at d = 800 to 2,400, 5 and 10 agents."""
        return (66.0 + 4.0 * agents) * self.facts.width**2

    def unit(self) -> MomentSum:
        """Moments of the records."""
        return MomentSum(1.0, FINEST)

    def receive(self, agents: Agents, total: Total | None) -> None:
        """Solve, eqs. (76), (77)."""
        if total is None:
            return
        along, values, vectors, least = self._parts(total)
        self._solved = total, ((along / (np.maximum(values, 0.0) + least)) @ vectors.T).ravel()
        agents.theta = np.broadcast_to(self._solved[1], agents.theta.shape)

    def _noise(self, total: Total, numbers: int = 1) -> float:
        """Typical norm of the noise in so many numbers of a total; of one its standard deviation."""
        return SENSITIVITY * math.sqrt(self.noise_of(total.agents) * self.rounds * numbers)

    def _parts(self, total: Total) -> tuple[Matrix, Vector, Matrix, float]:
        """First moments along the eigenvectors of the second, shape (K, d), eigenvalues, eigenvectors, and ridge."""
        width = self.facts.width
        first, second = moments(total.value, self.grid, width, self.size // width)
        least = float(self.settings.ridge) * self._noise(total, width)
        least += float(self.settings.regularisation) * self.records_of(total.agents)
        values, vectors = np.linalg.eigh(second)
        return np.asarray(first @ vectors), values, vectors, least

    def deviation(self) -> Vector | None:
        """Eq. (105): first order of what the noise of both moments does to the solution."""
        if self._solved is None:
            return None
        along, values, vectors, least = self._parts(self._solved[0])
        kept = np.maximum(values, 0.0)
        inverse = 1.0 / (kept + least)
        gap = values[:, None] - values
        rise = np.divide(kept[:, None] - kept, gap, out=np.ones_like(gap) * (values > 0.0), where=gap != 0.0)
        slope = rise * inverse[:, None] * inverse  # of the inverse in the second moments, less its sign
        squares = along**2
        each = inverse**2 + squares @ slope**2 + squares * np.diag(slope) ** 2  # along the eigenvectors
        found = []
        for own, variance in zip(along, each, strict=True):
            mixed = np.outer(own, own) * slope**2
            np.fill_diagonal(mixed, variance)
            found.append(np.einsum("ij,jk,ik->i", vectors, mixed, vectors, optimize=True))
        return np.asarray(self._noise(self._solved[0]) * np.sqrt(np.maximum(np.concatenate(found), 0.0)))
