"""Noisy decentralised gradient descent over a gossip matrix: docs/algorithms.md, eqs. (108), (109).

Lian et al. 2017 (D-PSGD) with Metropolis weights (Xiao, Boyd, Lall 2005) and the per-record clipping, sampling and
noise of DP-SGD (Abadi et al. 2016). What is sent is what is released: theta_i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Ask, Asking, Released
from admmnet.holder.known import Known
from admmnet.holder.measurements import NoisyGradient
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.methods.base import Agent, AgentPlan, Facts, Method, filled
from admmnet.methods.consensus import HINGE_WIDTH
from admmnet.methods.settings import Given, MethodSettings, StepSettings
from admmnet.privacy.calibrate import Draft, Target, calibrate
from admmnet.privacy.events import Gaussian, SubsampledGaussian
from admmnet.privacy.subsampled import epsilon_proven, noise_multiplier
from admmnet.settings import setting
from admmnet.solvers.radius import gradient_error
from admmnet.types import Matrix, Vector

REACH, FEWEST, MOST = 50.0, 10, 500
"""Q of eq. (109), and the range of the automatic number of rounds."""
EXACT = 500
"""Most agents of which the least eigenvalue of W is computed; of more it is bounded."""


@dataclass(frozen=True, kw_only=True)
class DSGDSettings(StepSettings):
    """Settings of its own."""

    clip_norm: float | None = setting(
        None,
        "algorithm",
        "norm to which dp-dsgd clips each record's gradient (default: the loss's bound, so none)",
        within="(0, 1e+06]",
        tunable=True,
    )
    sample_rate: float = setting(
        1.0,
        "algorithm",
        "share of its records that an agent of dp-dsgd draws in a round, each by its own coin; 1: all of them",
        within="(0, 1]",
        tunable=True,
    )


@dataclass(slots=True)
class GossipState:
    """What an agent last broadcast, shape (d,), and last heard of every neighbour, shape (degree, d)."""

    theta: Vector
    heard: Matrix


class DPDSGD(Method):
    """Every round an agent mixes what it has heard, takes a noisy gradient step, and broadcasts."""

    name = "dp-dsgd"
    Settings = DSGDSettings
    forms = ("proven",)

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(filled(settings, regularisation=0.0), facts)
        self._check_clip(self.known(max(facts.counts.values())))
        self.settings = filled(self.settings, step_size=self._longest())
        self.settings = filled(self.settings, rounds=round(min(MOST, max(FEWEST, self._wanted()))))
        self._calibrated = cache(self._calibrate)

    @classmethod
    def with_loss(cls, settings: Given) -> Given:
        """Smoothed hinge, as the proven forms of ADMM have."""
        if settings.loss == "auto":
            return filled(settings, loss="smoothed-hinge", loss_width=HINGE_WIDTH)
        return settings

    def _longest(self) -> float:
        """Step of eq. (109), at which the mean loss of no records lets the vectors run away."""
        counts, graph = self.facts.counts, self.facts.graph
        steepest = max(counts.values()) * len(counts) / sum(counts.values()) * self.loss.curvature_bound()
        own = {i: 1.0 - float(shares.sum()) for i, shares in self.weights.items()}
        least = 2.0 * min(own.values()) - 1.0  # Gershgorin
        if len(graph) <= EXACT:
            places = {i: place for place, i in enumerate(sorted(graph))}
            mixing = np.diag([own[i] for i in places])
            for i, shares in self.weights.items():
                mixing[places[i], [places[j] for j in sorted(graph[i])]] = shares
            least = float(np.linalg.eigvalsh(mixing)[0])
        return min(1.0, 1.0 + least) / (steepest + float(self.settings.regularisation))

    @property
    def most(self) -> float:
        """C: what bounds a record's gradient."""
        steepest = self.loss.lipschitz()
        return steepest if self.settings.clip_norm is None else min(steepest, float(self.settings.clip_norm))

    def _wanted(self) -> float:
        """T of eq. (109), not held to its range."""
        nominal, counts = self.facts.nominal, self.facts.counts
        inverse = sum(1.0 / (2.0 * nominal[i]) for i in counts)
        noise = 2.0 * self.most / sum(counts.values()) * math.sqrt(self.size * inverse)
        length = float(self.settings.step_size) * self.loss.curvature_bound()
        return float((REACH / noise) ** (2.0 / 3.0)) / length

    @cached_property
    def weights(self) -> Mapping[int, Vector]:
        """W_ij of every agent, its neighbours in ascending order: eq. (24)."""
        degree = {i: self.facts.graph.degree(i) for i in self.facts.graph}
        return {
            i: np.array([1.0 / (1.0 + max(degree[i], degree[j])) for j in sorted(self.facts.graph[i])])
            for i in self.facts.graph
        }

    def rate(self, agent: int) -> float:
        """q_i: what the sample rate makes of n_i, a whole nominal batch over n_i."""
        n = self.facts.counts[agent]
        return max(1, round(float(self.settings.sample_rate) * n)) / n

    def question(self, agent: int, here: Vector, sigma: float) -> NoisyGradient:
        """What an agent is asked at a public point."""
        return NoisyGradient(here, sigma, self.settings.clip_norm, self.rate(agent))

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """As little noise as keeps the promise; w_i of eq. (60)."""
        counts, zero = self.facts.counts, np.zeros(self.facts.width)
        known = self.known(counts[agent])
        (unit,) = NoisyGradient(zero, 1.0, self.settings.clip_norm).cost(known).now
        assert isinstance(unit, Gaussian)
        # rounding at its n makes it no less than what was calibrated
        sigma = self._calibrated(self.rate(agent), target) * unit.sensitivity * (1.0 + 1e-9)
        (event,) = self.question(agent, zero, sigma).cost(known).now
        return AgentPlan(
            regularisation=float(self.settings.regularisation),
            weight=counts[agent] * len(counts) / sum(counts.values()),
            noise=sigma,
            charges=((event, self.rounds),),
        )

    def _check_clip(self, known: Known) -> None:
        """Refuse a clip that leaves rounding no room: Theorem 24."""
        steepest = known.facts.G
        rounding = gradient_error(known.facts, 0.0) + 1e-15 * steepest
        least = rounding * known.records / (2.0 * ROUNDING_SHARE)
        if self.most <= least < steepest:
            raise RequestError(
                f"clip_norm = {self.most:g} drowns in rounding: over {known.records:,} records of {known.width:,} "
                f"features it must be above {1.01 * least:.2g}"
            )

    def _calibrate(self, rate: float, target: Target) -> float:
        """Least ratio of noise to sensitivity; all rounds have the same."""
        if rate == 1.0:

            def draft(rho: float) -> Draft[float]:
                ratio = math.sqrt(0.5 * self.rounds / rho)
                return Draft(ratio, ((Gaussian(1.0, ratio), self.rounds),))

            return calibrate(draft, target).noise

        def reading(event: SubsampledGaussian, delta: float) -> float:
            if target.order is None and not target.before:
                return epsilon_proven(event, delta)
            if target.order is None:
                return target.worst(((event, 1),)).epsilon_proven(delta)
            need, most = target.at_order(target.worst(((event, 1),)))  # an account adds up at one order
            return target.epsilon * need / most if most > 0.0 else math.inf

        return noise_multiplier(target.epsilon, target.delta, rate, self.rounds, "fixed", reading)

    def start(self, agent: Agent, width: int) -> GossipState:
        """Everything at zero."""
        return GossipState(np.zeros(width), np.zeros((agent.degree, width)))

    @property
    def planned_anew(self) -> bool:
        """Steps on sampled batches are read by loss distributions, which hold for one plan alone."""
        return float(self.settings.sample_rate) == 1.0

    def carry(self, agent: Agent, old: GossipState, shift: Vector | None) -> GossipState:
        """Its vector, and those of its neighbours."""
        return GossipState(old.theta, old.heard)

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eq. (108); edges that are absent mix nothing."""
        state, plan, own = agent.state, agent.plan, self.settings
        answer = yield Ask(self.question(agent.id, state.theta, plan.noise))
        if not isinstance(answer, Released):
            return None
        shares = self.weights[agent.id]
        if agent.contact is not None:
            shares = np.where(agent.contact.present, shares, 0.0)
        gradient = plan.weight / self.rate(agent.id) * answer.value + plan.regularisation * state.theta
        step: Vector = state.theta + shares @ (state.heard - state.theta) - float(own.step_size) * gradient
        return step

    def absorb(self, agent: Agent, own: Vector | None, inbox: Mapping[int, Vector]) -> None:
        """Keep the last vectors; of a message that was lost the one before."""
        state: GossipState = agent.state
        if own is not None:
            state.theta = own
        for row, j in enumerate(agent.neighbours):
            if j in inbox:
                state.heard[row] = inbox[j]
