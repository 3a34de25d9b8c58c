"""What agents of the network release, asked for through the door as in a run: mechanisms to audit.

The relation is replace-one. Public inputs are the auditor's, as docs/privacy.md, sec. 1, allows everybody else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import networkx as nx
import numpy as np

from admmnet.auditing.audit import Reading, Trial, World
from admmnet.auditing.canary import COSINE, FAR, LOSS, SINE, answered, canary, door, far, vector_of
from admmnet.config.run_config import RunConfig
from admmnet.errors import RunError
from admmnet.holder import Ask, Released
from admmnet.holder.known import Known
from admmnet.holder.measurements import GammaMinimiser, GradientNorm, HeldFall, NoisyFall, PerturbedMinimiser
from admmnet.methods import METHODS, fixed
from admmnet.methods.base import Agent, AgentPlan, Facts, Method
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate import Target
from admmnet.privacy.conversion import gaussian_mu
from admmnet.privacy.events import AboveThreshold, Event, Gaussian
from admmnet.running.node import Node
from admmnet.types import Matrix, Vector

RECORDS, CONVEXITY, BETA = 40, 0.5, 1e-8
RADIUS = 5.0
"""Of the gates' balls."""
G = LOSS.lipschitz()
Side = Literal["objective", "output"]


@dataclass(frozen=True)
class MinimiserRelease:
    """One release of pp-admm, its linear term chosen by the neighbours."""

    release: Side
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "scores"

    @property
    def name(self) -> str:
        """Method and where its noise is."""
        return f"pp-admm, one release, noise on the {self.release}"

    @cached_property
    def plan(self) -> AgentPlan:
        """Calibrated for one release."""
        return _method("pp-admm", rounds=1, release=self.release).plan(0, Target(self.epsilon, self.delta))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the released vector along the direction in which the canary pulls."""
        at, ledger = door(world, _null(2), self.plan.budget, rng, _arithmetic(self.release))
        sigmas = self.plan.noise.sigma1, self.plan.noise.sigma2
        answer = answered(at, Ask(PerturbedMinimiser(CONVEXITY * far(2), CONVEXITY, BETA, *sigmas)))
        return Trial(float(vector_of(answer)[1]), ledger.totals)


@dataclass(frozen=True)
class AgentRounds:
    """All rounds of one pp-admm agent whose neighbour sends what keeps its minimiser where the canary counts."""

    rounds: int = 12
    release: Side = "objective"
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "scores"

    @property
    def name(self) -> str:
        """Method, rounds and where the noise is."""
        return f"pp-admm, {self.rounds} rounds, noise on the {self.release}"

    @cached_property
    def method(self) -> Method:
        """Method of both agents."""
        return _method("pp-admm", rounds=self.rounds, release=self.release)

    @cached_property
    def plan(self) -> AgentPlan:
        """Calibrated for all rounds."""
        return self.method.plan(0, Target(self.epsilon, self.delta))

    def node(self, world: World, rng: np.random.Generator) -> Node:
        """Agent 0, with one neighbour."""
        at, ledger = door(world, _null(2), self.plan.budget, rng, _arithmetic(self.release))
        return Node(self.method.agent(0, self.plan), self.method, at, ledger)  # type: ignore[arg-type]  # it keeps no file

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the sum of all released vectors along the direction in which the canary pulls."""
        node, score = self.node(world, rng), 0.0
        for round in range(self.rounds):
            vector = node.propose(round)
            if vector is None:
                raise RunError(f"the budget of {self.rounds} rounds was used up before round {round}")
            score += float(vector[1])
            node.absorb({1: steering(node.agent, CONVEXITY * far(2))})
        return Trial(score, node.ledger.totals)


def steering(agent: Agent, linear: Vector) -> Vector:
    """What an only neighbour sends to set the next linear term of a pp-admm agent without self-term: eqs. (3), (4).

    The term is 2 (dual + eta/2 (theta - h)) - eta (theta + h) = 2 dual - 2 eta h, dual and theta as they are known
    when h is sent.
    """
    return np.asarray((2.0 * agent.state.dual - linear) / (2.0 * agent.plan.eta))


@dataclass(frozen=True)
class NoisyQuestion:
    """Questions of the Gaussian gate, all at one centre."""

    rounds: int = 1
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "answers"

    @property
    def name(self) -> str:
        """Gate and questions."""
        return f"gaussian gate, {self.rounds} question{'s' * (self.rounds > 1)}"

    @cached_property
    def event(self) -> Gaussian:
        """What a question charges."""
        mu = gaussian_mu(self.epsilon, self.delta)
        return Gaussian(_fall_sensitivity(), _fall_sensitivity() * math.sqrt(self.rounds) / mu)

    @cached_property
    def budget(self) -> Budget:
        """For all questions."""
        return _budget(self.epsilon, self.delta, self.event, self.rounds)

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: how many answers are yes."""
        # all others pull as the canary does: its replacement takes away twice its own share of the fall
        at, ledger = door(world, np.tile(canary(1, 2), (RECORDS - 1, 1)), self.budget, rng)
        middle = RADIUS * (1.0 - COSINE * COSINE / RECORDS)
        question = NoisyFall(-far(2), RADIUS, _gap(), middle, self.event.sigma)
        yes = sum(isinstance(answered(at, Ask(question)), Released) for _ in range(self.rounds))
        return Trial(float(yes), ledger.totals)


@dataclass(frozen=True)
class NormQuestion:
    """Questions of the joining gate, all at one point."""

    rounds: int = 3
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "answers"

    @property
    def name(self) -> str:
        """Gate and questions."""
        return f"joining gate, {self.rounds} question{'s' * (self.rounds > 1)}"

    @cached_property
    def event(self) -> Gaussian:
        """What a question charges."""
        known = Known(RECORDS, 2, LOSS, frozenset())
        sensitivity = GradientNorm(np.zeros(2), 1.0, 0.0).sensitivity(known)
        return Gaussian(
            sensitivity, sensitivity * math.sqrt(self.rounds) / gaussian_mu(self.epsilon, self.delta)
        )

    @cached_property
    def budget(self) -> Budget:
        """For all questions."""
        return _budget(self.epsilon, self.delta, self.event, self.rounds)

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: how many answers are yes."""
        # all others pull as the canary does: its replacement takes away twice its own share of the norm
        at, ledger = door(world, np.tile(canary(1, 2), (RECORDS - 1, 1)), self.budget, rng)
        question = GradientNorm(-far(2), self.event.sigma, 1.0 - COSINE * COSINE / RECORDS)
        yes = sum(isinstance(answered(at, Ask(question)), Released) for _ in range(self.rounds))
        return Trial(float(yes), ledger.totals)


@dataclass(frozen=True)
class HeldQuestions:
    """Questions of the gate with a held threshold: noes at a centre where the canary lowers the fall, then a yes."""

    noes: int = 3
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "none"

    @property
    def name(self) -> str:
        """Gate and questions."""
        return f"held threshold, {self.noes + 1} questions"

    @cached_property
    def event(self) -> AboveThreshold:
        """What a start charges: its two parts as docs/privacy.md, Theorem 9, balances them."""
        first = self.epsilon / (1.0 + 2.0 ** (2.0 / 3.0))
        return AboveThreshold(_fall_sensitivity(), first, self.epsilon - first)

    @cached_property
    def budget(self) -> Budget:
        """For one start; epsilon is pure, so what is read at delta may be a little less."""
        return _budget(self.epsilon, self.delta, self.event, 1)

    @cached_property
    def others(self) -> Matrix:
        """Two groups that pull against each other along e2; e3 - e4 says which of them is badly classified."""
        half = (RECORDS - 1) // 2
        up, down = (0.0, COSINE, SINE, 0.0), (0.0, -COSINE, 0.0, SINE)
        return np.array([up] * half + [down] * half + [(0.0,) * 4] * (RECORDS - 1 - 2 * half))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: 1 if the last question alone has the answer yes."""
        at, ledger = door(world, self.others, self.budget, rng)
        aside = FAR * np.array([0.0, 0.0, 1.0, -1.0])
        level = RADIUS * ((RECORDS - 1) // 2) / RECORDS  # between the falls of both worlds, at either centre
        numbers = RADIUS, _gap(), level, self.event.epsilon_threshold, self.event.epsilon_query
        for _ in range(self.noes):
            if isinstance(answered(at, Ask(HeldFall(aside - far(4), *numbers))), Released):
                return Trial(0.0, ledger.totals)
        last = answered(at, Ask(HeldFall(-aside - far(4), *numbers)))
        return Trial(float(isinstance(last, Released)), ledger.totals)


@dataclass(frozen=True)
class GammaRelease:
    """One release of dvp, its linear term chosen by the neighbours."""

    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "none"
    name: str = "dvp, one release"

    @cached_property
    def plan(self) -> AgentPlan:
        """Calibrated for one release."""
        return _method("dvp", rounds=1).plan(0, Target(self.epsilon, self.delta))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the logarithm of the likelihood ratio, in both worlds of the noise that explains the minimiser."""
        noise, linear = self.plan.noise, CONVEXITY * far(2)
        at, ledger = door(world, _null(2), self.plan.budget, rng, "published")
        answer = answered(at, Ask(GammaMinimiser(linear, noise.convexity, BETA, noise.rate, noise.sigma2)))
        rest = -noise.convexity * vector_of(answer) - linear
        out, inside = (float(np.linalg.norm(rest + canary(one, 2) / RECORDS)) for one in (0, 1))
        return Trial(noise.rate * (out - inside), ledger.totals)


def _method(algorithm: str, **settings: Any) -> Method:
    """Proven form between two agents of as many records, whose penalty is all their convexity."""
    penalty: dict[str, Any] = {"eta": 0.5 * CONVEXITY, "proximal": 0.0, "regularisation": 0.0}
    penalty["loss"] = "logistic"
    config = fixed(RunConfig(algorithm=algorithm, method="proven", beta=BETA, **penalty, **settings))
    return METHODS[algorithm](config, Facts(nx.path_graph(2), dict.fromkeys((0, 1), RECORDS), 2, {}))


def _arithmetic(release: Side) -> str:
    """Ding et al. (2020) have objective perturbation alone."""
    return "published" if release == "objective" else "proven"


def _budget(epsilon: float, delta: float, event: Event, count: int) -> Budget:
    return Budget.for_plan(epsilon, delta, "proven", Totals.of([(event, count)], "proven"))


def _null(width: int) -> Matrix:
    return np.zeros((RECORDS - 1, width))


def _gap() -> float:
    return 0.02 * 2.0 * G * RADIUS / RECORDS


def _fall_sensitivity() -> float:
    """Theorem 8."""
    return 2.0 * G * RADIUS / RECORDS + _gap()
