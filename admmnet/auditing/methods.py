"""Any method of the network as a mechanism to audit: all that one agent says, its neighbour the auditor.

Agent 0 holds the canary. The auditor knows all other records, sends what the neighbour says (or what the others add to
a sum), and so keeps the agent's point where the canary and its replacement pull apart with all their slope and where
no curvature is left: docs/proofs.md, sec. 1, allows everybody else that much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from admmnet.auditing.audit import Reading, Trial
from admmnet.auditing.evidence import Data, World, evidence
from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError, RunError
from admmnet.graph.simple import Graph
from admmnet.holder import REFUSED, Answer, Ask, Door, Holder, Released
from admmnet.holder.measurements import PerturbedMinimiser, PublishedBroadcast, PublishedComparison
from admmnet.methods import fixed
from admmnet.methods.agents import AgentPlan, Agents, Asks, Said, Told, placed
from admmnet.methods.base import Facts, Method
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.ipp_admm import IPPADMM
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.running.plan import decide
from admmnet.transport import World as Hosts
from admmnet.types import Integers, Matrix, Total, Vector

WIDTH = 2
OTHERS = 10
"""How many times the agent's records each other agent has, so that it is outside of a core."""
GRAPH = Graph(4, [(0, 1), (1, 2), (1, 3)])
"""Agent 0 has one neighbour, whom the auditor plays."""
GAUSSIAN = {"gaussian", "discrete-gaussian", "objective-perturbation", "none"}
"""Mechanisms whose noise is normal, and rounds that touch no record."""
DELTA = 1e-5
Canary = Literal["mirror", "zeros"]
"""In its place in world 0: its mirror image, or a row of zeros."""
SINE = 0.1
COSINE = math.sqrt(1.0 - SINE * SINE)
FAR = 400.0
"""Distance at which the slope of a canary is 1 - e^-40."""


def far(width: int) -> Vector:
    """FAR e1, shape (width,)."""
    return np.asarray(FAR * np.eye(width)[0])


def canary(world: int, width: int) -> Vector:
    """Canary of world 1, or the record in its place, shape (width,).

    A logistic record pulls with a slope below 1, and its replacement pulls the other way only where it is as badly
    classified. Both are so far out along -e1: rows (sin a, cos a) and (sin a, -cos a), labels +1, differ in gradient by
    2 cos a there, within 0.5 % of the sensitivity 2 G at a = 0.1, and have no curvature left. Who chooses the linear
    term or the centre of a query, as neighbours do, puts them there.
    """
    row = np.zeros(width)
    row[:2] = SINE, COSINE if world else -COSINE
    return row


@dataclass(frozen=True)
class Trials:
    """Runs of a method that one agent makes with the auditor."""

    config: RunConfig  # data and network are the auditor's
    canary: Canary | None = None  # what stands in its place in world 0; None: what the proof is about
    records: int = 1000  # n of the agent

    @cached_property
    def decided(self) -> tuple[Method, AgentPlan, Contract]:
        """The method, the same in all trials; noise and contract of the agent with the canary."""
        raise NotImplementedError

    @property
    def method(self) -> Method:
        """The method."""
        return self.decided[0]

    @property
    def adjacency(self) -> str:
        """Relation of the proven figures."""
        return self.decided[2].adjacency


class MethodTrials(Trials):
    """A run of one agent of a method of the network; a canary that is left open is a mirror."""

    @property
    def name(self) -> str:
        """Algorithm and rounds."""
        return f"{self.config.algorithm}, {self.method.rounds} round{'s' * (self.method.rounds > 1)}"

    @cached_property
    def decided(self) -> tuple[Method, AgentPlan, Contract]:
        """As the entrance of a run decides."""
        counts = {i: self.records if i == 0 else OTHERS * self.records for i in GRAPH}
        settings = fixed(self.config.sections.method)
        if settings.trust == "masked":
            raise RequestError("trust = 'masked' is not audited here: python -m tests.benchmarks.audit masked does")
        method, plans, contracts, _ = decide(settings, Hosts(), [sorted(GRAPH)], Facts(GRAPH, counts, WIDTH))
        return method, plans[0], contracts[0]

    @property
    def plan(self) -> AgentPlan:
        """Noise of the agent with the canary."""
        return self.decided[1]

    @cached_property
    def reading(self) -> Reading:
        """Gaussian where all noise is normal and no answer is a yes or a no."""
        gated = getattr(self.method, "gated", False) and getattr(self.method.settings, "gate", "off") != "off"
        kinds = {event.mechanism for event, _ in self.plan.charges}
        return "none" if gated or not kinds <= GAUSSIAN else "scores"

    @cached_property
    def pair(self) -> tuple[Data, Data]:
        """Records of both worlds: others are rows of zeros, and as many like the canary as make a question open."""
        alike = 0
        if isinstance(self.method, IPPADMM) and self.method.asked(0):
            alike = min(self.records - 1, round(self.method.threshold(0) * self.records))
        others = np.zeros((self.records - 1, WIDTH))
        others[:alike] = canary(1, WIDTH)
        known, labels = self.method.known(self.records), np.ones(self.records)
        worlds: tuple[World, World] = (0, 1)
        out, inside = (Data(np.vstack((self.row(world), others)), labels, known) for world in worlds)
        return out, inside

    def row(self, world: World) -> Vector:
        """The canary, or what is in its place."""
        return canary(world, WIDTH) if world or self.canary != "zeros" else np.zeros(WIDTH)

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the logarithm of the likelihood ratio of all answers."""
        method, plan, data = self.method, self.plan, self.pair[world]
        ledger = MemoryLedger(self.decided[2])
        streams = AgentStreams(0, int(rng.integers(2**63)))
        door = Watched(Door(Holder(data.rows, data.labels), 0, method.loss, ledger, streams), self.pair)
        agents = method.agents({0: plan})
        for round in range(method.rounds):
            said = spoken(method, agents, door, round)
            if not said.said.any() and ledger.refused_at is not None:
                raise RunError(f"the budget of {method.rounds} rounds was used up before round {round}")
            agents.releases += said.said
            if method.verb == "reduce":
                method.receive(agents, total(method, agents, said.value[0]))
            else:
                method.update(agents, agents.absorb(said, {1: message(method, agents, said)}))
        return Trial(door.score, ledger.totals)


class Watched:
    """A door whose answers are read as they leave."""

    def __init__(self, door: Door, pair: tuple[Data, Data]) -> None:
        self._door, self._pair, self.score = door, pair, 0.0
        self._linear = np.zeros(WIDTH)  # of the published gate's last yes

    def answer(self, ask: Ask, round: int) -> Answer:
        """As the door answers; a published broadcast is read as the minimiser that its comparison has found."""
        answer = read = self._door.answer(ask, round)
        used = answer.used if isinstance(answer, Released) else None
        if isinstance(used, PublishedComparison):
            self._linear = used.linear
        elif isinstance(answer, Released) and isinstance(used, PublishedBroadcast):
            m, beta = used.convexity, used.beta
            read = answer._replace(used=PerturbedMinimiser(self._linear, m, beta, used.sigma1, used.sigma2))
        self.score += evidence(ask.measurement, read, self._pair)
        return answer


def spoken(method: Method, agents: Agents, door: Watched, round: int) -> Said:
    """What the one agent says in a round, its questions answered by the door."""
    steps = method.propose(agents, round)
    try:
        ask = next(steps)
        while True:
            ask = steps.send(_told(door, ask, round, np.zeros_like(agents.theta)))
    except StopIteration as done:
        found = done.value
    if found is None or not found.said.any():
        return Said(np.zeros((1, method.size)), np.zeros(1, dtype=bool))
    return Said(found.value, found.said)


def _told(door: Watched, ask: Asks, round: int, none: Matrix) -> Told:
    silent = np.zeros(1, dtype=bool)
    if ask.rows is not None and not ask.rows[0]:
        return Told(none, silent, silent, none)
    reserve = () if ask.reserve is None else (placed(ask.reserve, 0),)
    answer = door.answer(Ask(placed(ask, 0), reserve), round)
    if not isinstance(answer, Released):
        return Told(none, silent, np.array([answer is REFUSED]), none)
    value = np.atleast_2d(answer.value) if np.ndim(answer.value) else none
    used = getattr(answer.used, answer.used.free or "here", None)
    return Told(value, ~silent, silent, none if used is None else used[None])


def message(method: Method, agents: Agents, said: Said) -> Vector:
    """What the neighbour says so that the next minimiser is far out: its linear term is affine in the message.

    A method without a linear term is told of a point that is far out.
    """
    if not isinstance(method, ConsensusMethod):
        return -2.0 * far(WIDTH)

    def linear(after: Agents, heard: Vector) -> float:
        method.update(after, after.absorb(said, {1: heard}))
        return float(method.linear_term(after)[0, 0])

    unit = np.eye(WIDTH)[0]
    return np.asarray(reaching(agents, linear, float(agents.convexity[0]) * FAR, unit) * unit)


def total(method: Method, agents: Agents, said: Integers) -> Total:
    """Sum in which the others' part takes the next public point far out: it is affine in the sum.

    A method that asks at no ``point`` of its state gets what the agent itself said.
    """
    everybody, unit = tuple(sorted(GRAPH)), np.zeros_like(said)
    if not hasattr(agents.own, "point"):
        return Total(said, everybody)

    def point(after: Agents, value: Any) -> float:
        method.receive(after, Total(value, everybody))
        return float(after.own.point[0])

    unit[0] = 2**40
    steps = reaching(agents, point, -FAR, unit)
    unit[0] = round(steps * 2**40)
    return Total(unit, everybody)


def reaching(agents: Agents, number: Callable[[Agents, Any], float], wanted: float, unit: Any) -> float:
    """How many units bring an affine ``number`` of what the agent is told to a value; the agent stays as it is."""

    def told(value: Any) -> float:
        return number(deepcopy(agents), value)

    here = told(0 * unit)
    return (wanted - here) / (told(unit) - here)


def settings_for(given: Mapping[str, Any]) -> RunConfig:
    """Settings of an audit: those of a run, the noise seeded.

    RequestError if delta is left open.
    """
    if given.get("delta") == "auto":
        raise RequestError(f"delta = 'auto' does not go with audit: give a number, or leave it out for {DELTA:g}")
    return RunConfig(**{"seed": 0, "delta": DELTA, **given})
