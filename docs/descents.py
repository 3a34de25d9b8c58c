"""Two methods that take one noisy gradient a round in place of a solve."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import numpy as np

from admmnet.holder.measurements import NoisyGradient
from admmnet.methods.agents import AgentPlan, Agents, Asking, Said, wide
from admmnet.methods.base import Method, filled
from admmnet.methods.consensus import RADIUS, ConsensusMethod, balanced_convexity
from admmnet.methods.settings import Given, MethodSettings, NoisySettings
from admmnet.privacy.calibrate import Draft, Target, calibrate
from admmnet.settings import Auto, about


def gradient_draft(method: Method, rounds: int, records: int, rho: float) -> Draft[float]:
    """Standard deviation where ``rounds`` gradients share a nominal budget, and all that they can charge."""
    width, known = method.facts.width, method.known(records)
    (unit,) = NoisyGradient(np.zeros(width), 1.0).cost(known)
    sigma = unit.sensitivity / math.sqrt(2.0 * rho / rounds)
    (event,) = NoisyGradient(np.zeros(width), sigma).cost(known)
    return Draft(sigma, ((event, rounds),))


class LinearADMM(ConsensusMethod):
    """PP-ADMM whose mean loss gives way to the quadratic of curvature c1 that touches it from above at theta_i^t."""

    name = "linear-admm"
    Settings = NoisySettings
    forms = ("proven",)

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """T; penalty and self-terms need the facts."""
        return filled(settings, rounds=60)

    def draft(self, agent: int, rho: float) -> Draft[float]:
        """Noise of all rounds."""
        return gradient_draft(self, self.rounds, self.facts.counts[agent], rho)

    def wanted_convexity(self, agent: int) -> float:
        """Balance of noise and bias, docs/methods.md (20)."""
        sigma = self.draft(agent, self.facts.nominal[agent]).noise
        return balanced_convexity(sigma * math.sqrt(self.facts.width), RADIUS, len(self.facts.graph))

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """As little noise as keeps the guarantee."""
        return self.objective(agent).calibrated(calibrate(partial(self.draft, agent), target))

    def propose(self, agents: Agents, round: int) -> Asking[Said]:
        """Return this round's broadcasts, shape (B, d), of those whose budgets afford one."""
        here, c1 = agents.theta, self.loss.curvature_bound()  # theta_i^t is released: public
        told = yield agents.ask(NoisyGradient, here, agents.plan.noise)
        step = (c1 * here - told.value - self.linear_term(agents)) / wide(agents.convexity + c1)
        return Said(step, told.said)


class DescentSettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of its own: they become flags, keys of [algorithm], and part of what a resumed run must repeat."""

    epochs: Annotated[int, about(ge=1, le=100_000)] | Auto = "auto"
    """gradient steps; auto: 30"""
    momentum: Annotated[float, about(ge=0, lt=1)] = 0.5
    """share of the last step that goes on"""


class NoisyDescent(Method):
    """Gradient descent with momentum at one holder."""

    name = "noisy-descent"
    verb = "none"
    Settings = DescentSettings
    forms = ("proven",)

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Steps."""
        return filled(settings, epochs=30)

    @property
    def rounds(self) -> int:
        """One step an epoch."""
        return int(self.settings.epochs)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """As little noise as keeps the guarantee."""
        draft = partial(gradient_draft, self, self.rounds, self.facts.counts[agent])
        return AgentPlan().calibrated(calibrate(draft, target))

    def start(self, agents: Agents) -> None:
        """At zero: the point is ``theta``, the state of its own a velocity, shape (B, d), public."""
        agents.own = np.zeros_like(agents.theta)

    def propose(self, agents: Agents, round: int) -> Asking[Said]:
        """Points after the next step."""
        told = yield agents.ask(NoisyGradient, agents.theta, agents.plan.noise)
        if told.said.any():
            agents.own = self.settings.momentum * agents.own - told.value / self.loss.curvature_bound()
        return Said(agents.theta + agents.own, told.said)
