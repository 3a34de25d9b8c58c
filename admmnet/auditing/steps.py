"""Single-site methods as mechanisms to audit: every step is seen, as Theorems 10, 12 and 13 let it be.

The canary is e2. The score is the logarithm of the likelihood ratio of all steps; where nothing tells which steps had
the canary, the mixture over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import cached_property
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from admmnet.auditing.audit import Reading, Trial, World
from admmnet.auditing.methods import Trials, normal
from admmnet.errors import RequestError
from admmnet.graph.simple import Graph
from admmnet.holder.problem import Problem
from admmnet.holder.series.base import Rngs
from admmnet.holder.series.coordinate import DualSteps, SequentialSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.methods import METHODS, fixed
from admmnet.methods.agents import AgentPlan
from admmnet.methods.base import Facts, Method, filled
from admmnet.methods.single_site.base import SingleSite, regularisation_of
from admmnet.methods.single_site.coordinate import DPSCD, SeqDPSCD
from admmnet.methods.single_site.descent import BANCO
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract
from admmnet.running.plan import decide
from admmnet.transport import World as Hosts
from admmnet.types import Vector

CUT = 1e-3
"""Clip of a dual step over lambda N, where it is left open: a tenth of the default, so that every step is cut."""


class StepTrials(Trials):
    """A run of a single-site method."""

    @property
    def name(self) -> str:
        """Algorithm and steps."""
        assert isinstance(self.method, SingleSite)
        steps = self.method.steps
        return f"{self.algorithm}, {steps} step{'s' * (steps > 1)}"

    @cached_property
    def decided(self) -> tuple[Method, AgentPlan, Contract]:
        """As the entrance of a run decides, of what the auditor can read."""
        kind = METHODS[self.algorithm]
        strange = RequestError(f"the auditor cannot read the epochs of {self.algorithm}: name another method")
        if not issubclass(kind, SingleSite):
            raise strange
        settings = filled(self.config.sections.method, loss="hinge")  # full slope at zero
        if issubclass(kind, DPSCD | SeqDPSCD):
            settings = filled(settings, clip=CUT * regularisation_of(settings) * self.records)
        graph, width = Graph(1), 1 if kind is BANCO else 2
        facts = Facts(graph, {0: self.records}, width)
        method, plans, contracts, _ = decide(fixed(settings), Hosts(), [[0]], facts)
        if type(plans[0].noise) not in LOOKS:
            raise strange
        if self.canary == "mirror" and contracts[0].adjacency != "replace-one":
            raise RequestError(
                f"canary = 'mirror' tests replace-one, but {settings.algorithm} is proven for "
                f"{contracts[0].adjacency}: take --canary zeros"
            )
        return method, plans[0], contracts[0]

    @property
    def series(self) -> Any:
        """Its steps with calibrated noise."""
        return self.decided[1].noise

    @cached_property
    def claimed(self) -> Totals:
        """What all steps are booked with."""
        return Totals.of([(self.series.event(self.method.known(self.records)), 1)], str(self.method.settings.method))

    @property
    def shown(self) -> bool:
        """Whether it is seen which steps had the canary: its dual variable has noise in these alone, or all know it."""
        return isinstance(self.series, SequentialSteps | OnlineSteps) or getattr(self.series, "dual_noise", False)

    @property
    def reading(self) -> Reading:
        """Gaussian where the canary is known to be in as many steps in every trial."""
        series = self.series
        every = getattr(series, "batch", 0) == self.records
        known = self.shown and getattr(series, "sampling", "") == "shuffled"
        if isinstance(series, OnlineSteps):
            return "none" if series.sigma is None else "scores"
        gaussian = isinstance(series, DualSteps | SequentialSteps | GradientSteps)
        return "scores" if gaussian and (every or known) else "none"

    @property
    def worlds(self) -> tuple[Vector, Vector]:
        """The record in the canary's place, and the canary: e2, or 1 where there is one feature."""
        unit = np.eye(2)[1] if not isinstance(self.method, BANCO) else np.ones(1)
        zeros = self.canary == "zeros" or self.adjacency != "replace-one"
        return (0.0 if zeros else -1.0) * unit, unit

    def problem(self, world: World) -> Problem:
        """Records with labels +1: others are rows of zeros, or e1 where all must have norm 1."""
        row = self.worlds[world]
        rows = np.zeros((self.records, len(row)))
        if isinstance(self.series, SequentialSteps):
            rows[:, 0] = 1.0
        rows[0] = row
        return Problem(rows, np.ones(len(rows)), self.method.loss, getattr(self.series, "regularisation", 0.0))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the logarithm of the likelihood ratio of all steps."""
        series, problem, worlds = self.series, self.problem(world), self.worlds
        states = pairwise(map(_copied, series.advance(problem, Rngs(*rng.spawn(2)))))
        with np.errstate(over="ignore", invalid="ignore"):
            seen = [LOOKS[type(series)](series, problem, before, after, worlds) for before, after in states]
            return Trial(self._score(np.array(seen)), self.claimed)

    def _score(self, ratios: Vector) -> float:
        if self.shown:
            return float(ratios[ratios != 0.0].sum())
        if getattr(self.series, "sampling", "shuffled") == "shuffled":  # once an epoch, nobody knows when
            length = int(min(len(ratios), self.series.length(self.method.known(self.records))))
            sizes = np.full(length, float(getattr(self.series, "batch", 1)))
            sizes[-1] = self.records - sizes[:-1].sum()
            epochs = ratios.reshape(-1, length)
            return float(logsumexp(epochs, b=sizes / self.records, axis=1).sum())
        q = self.series.batch / self.records
        return float(np.logaddexp(math.log1p(-q), math.log(q) + ratios).sum()) if q < 1.0 else float(ratios.sum())


SEEN = ("theta", "v", "dual", "w", "q", "reward", "squares", "step", "order")


def _copied(progress: Any) -> SimpleNamespace:
    """State of a series as everybody sees it, before a step changes it."""
    return SimpleNamespace(**{name: copy(getattr(progress, name)) for name in SEEN if hasattr(progress, name)})


def _gradients(series: GradientSteps, problem: Problem, before: Any, after: Any, worlds: Any) -> float:
    """Eq. (54): the noisy sum of clipped gradients that made the step."""
    theta = before.theta
    moved = (theta - after.theta) / series.learning_rate - series.regularisation * theta
    out, inside = (series.batch * moved - _slope(problem, row, theta, series.clip) * row for row in worlds)
    return normal(out, inside, series.sigma)


def _duals(series: DualSteps | SequentialSteps, problem: Problem, before: Any, after: Any, worlds: Any) -> float:
    """Eqs. (48) to (50): the canary's step, of length C, in v and where it is released in its dual variable."""
    moved = np.array([after.v[1] - before.v[1], after.dual[0] - before.dual[0]])
    if not (isinstance(series, SequentialSteps) or series.dual_noise):
        moved = moved[:1]
    elif moved[1] == 0.0:
        return 0.0
    return normal(moved, moved - series.clip, series.sigma)


def _disjoint(series: DisjointSteps, problem: Problem, before: Any, after: Any, worlds: Any) -> float:
    """Eqs. (55), (56): the noisy sum of gradients that made the step; the ball is never left."""
    theta, t = before.theta, after.step
    rates = {"sqrt": 1.0 / math.sqrt(t), "inverse": 1.0 / (series.regularisation * t), "constant": 1.0}
    size = min(series.batch, problem.records - series.batch * (t - 1))
    sum_ = size * ((theta - after.theta) / (series.scale * rates[series.schedule]) - series.regularisation * theta)
    out, inside = (float(np.linalg.norm(sum_ - _slope(problem, row, theta) * row)) for row in worlds)
    return 0.5 * float(series.epsilon) * (out - inside)


def _online(series: OnlineSteps, problem: Problem, before: Any, after: Any, worlds: Any) -> float:
    """Eqs. (57), (58): every record's own noisy subgradient, of one feature; whose it is everybody knows."""
    size = math.sqrt(max(0.0, after.squares - before.squares))
    along = after.reward - before.reward if before.q[0] else after.q[0]
    sign = math.copysign(1.0, along * (before.q[0] or 1.0))
    out, inside = (np.array([sign * size]) + _slope(problem, row, before.w) * row for row in worlds)
    if after.order[after.step - 1]:
        return 0.0
    if series.epsilon is None:
        return normal(out, inside, float(series.sigma or 0.0))
    return 0.5 * series.epsilon * (abs(float(out[0])) - abs(float(inside[0])))


def _slope(problem: Problem, row: Vector, theta: Vector, clip: float = math.inf) -> float:
    """Slope of a record's loss, label +1, its gradient clipped."""
    slope = float(problem.loss.derivative(np.array([row @ theta]), np.ones(1))[0])
    longest = abs(slope) * float(np.linalg.norm(row))
    return slope * min(1.0, clip / longest) if longest > 0.0 else slope


LOOKS: dict[type, Callable[..., float]] = {
    GradientSteps: _gradients,
    DualSteps: _duals,
    SequentialSteps: _duals,
    DisjointSteps: _disjoint,
    OnlineSteps: _online,
}
"""Of a step of each kind the logarithm of the likelihood ratio if the canary, or what is in its place, was in its
batch; 0 where it was seen not to be."""
