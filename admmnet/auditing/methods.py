"""Any method of the network as a mechanism to audit: all that one agent says, its neighbour the auditor.

Agent 0 holds the canary. The auditor knows all other records, sends what the neighbour says (or what the others add to
a sum), and so keeps the agent's point where the canary and its replacement pull apart with all their slope and where
no curvature is left: docs/proofs.md, sec. 1, allows everybody else that much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr

from admmnet.auditing.audit import Reading, Trial, World
from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError, RunError
from admmnet.graph.simple import Graph
from admmnet.holder import Door, Holder
from admmnet.holder.answers import Known
from admmnet.holder.measurements import (
    GammaMinimiser,
    GradientNorm,
    GradientSum,
    HeldNorm,
    MomentSum,
    NoisyGradient,
    PerturbedMinimiser,
    PublishedBroadcast,
    PublishedComparison,
)
from admmnet.methods import fixed
from admmnet.methods.agents import AgentPlan, Agents, Asks, Mask, Said, Told, placed
from admmnet.methods.base import Facts, Method
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.ipp_admm import IPPADMM
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.running.party import Node, Party
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

    algorithm: str
    settings: tuple[tuple[str, Any], ...]  # of a run, by name: data and network are the auditor's
    canary: Canary | None = None  # what stands in its place in world 0; None: what the proof is about
    records: int = 1000  # n of the agent

    @cached_property
    def config(self) -> RunConfig:
        """Settings of a run, the noise seeded; RequestError if delta is left open."""
        given = {"seed": 0, "delta": DELTA, "algorithm": self.algorithm, **dict(self.settings)}
        if given["delta"] == "auto":
            raise RequestError(f"delta = 'auto' does not go with audit: give a number, or leave it out for {DELTA:g}")
        return RunConfig(**given)

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
        return f"{self.algorithm}, {self.method.rounds} round{'s' * (self.method.rounds > 1)}"

    @cached_property
    def decided(self) -> tuple[Method, AgentPlan, Contract]:
        """As the entrance of a run decides."""
        counts = {i: self.records if i == 0 else OTHERS * self.records for i in GRAPH}
        settings = fixed(self.config.sections.method)
        if settings.trust == "masked":
            raise RequestError("trust = 'masked' is not audited here: python -m tests.benchmarks.audit masked does")
        method, plans, contracts, _ = decide(settings, Hosts(), [sorted(GRAPH)], Facts(GRAPH, counts, WIDTH))
        return method, plans[0], contracts[0]

    @cached_property
    def reading(self) -> Reading:
        """Gaussian where all noise is normal and no answer is a yes or a no."""
        gated = getattr(self.method, "gated", False) and getattr(self.method.settings, "gate", "off") != "off"
        kinds = {event.mechanism for event, _ in self.decided[1].charges}
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
        method, plan, data = self.method, self.decided[1], self.pair[world]
        ledger = MemoryLedger(self.decided[2])
        streams = AgentStreams(0, int(rng.integers(2**63)))
        door = Door(Holder(data.rows, data.labels), 0, method.loss, ledger, streams)
        party = Watched(method, plan, door, ledger, self.pair)
        for round in range(method.rounds):
            party.propose(round, np.ones(1, dtype=bool))
            if party.outgoing is None and ledger.refused_at is not None:
                raise RunError(f"the budget of {method.rounds} rounds was used up before round {round}")
            said = party.outgoing or Said(np.zeros((1, method.size)), np.zeros(1, dtype=bool))
            if method.verb == "reduce":
                method.receive(party.agents, total(method, party.agents, said.value[0]))
            else:
                party.absorb({1: message(method, party.agents, said)})
        return Trial(party.score, ledger.totals)


class Watched(Party):
    """The audited agent, whose answers are read as its door gives them."""

    def __init__(self, method: Method, plan: AgentPlan, door: Door, ledger: Any, pair: tuple[Data, Data]) -> None:
        super().__init__(method, {0: plan}, [Node(0, door, ledger)])
        self._pair, self.score = pair, 0.0
        self._linear = np.zeros(WIDTH)  # of the published gate's last yes

    def _answered(self, ask: Asks, rows: Mask, round: int) -> Told:
        """Answer, and read it; a published broadcast is read as the minimiser that its comparison has found."""
        told, used = super()._answered(ask, rows, round), placed(ask, 0)
        if rows[0]:
            value = told.value[0] if told.said[0] else None
            used = used.placed(told.used[0]) if used.free and value is not None else used  # held to its bound
            if isinstance(used, PublishedComparison):
                self._linear = used.linear
            elif isinstance(used, PublishedBroadcast):
                m, beta = used.convexity, used.beta
                used = PerturbedMinimiser(self._linear, m, beta, used.sigma1, used.sigma2)
            self.score += evidence(used, value, self._pair)
        return told


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

    def number_at(value: Any) -> float:
        return number(deepcopy(agents), value)

    here = number_at(0 * unit)
    return (wanted - here) / (number_at(unit) - here)


# what an answer says about which of two worlds it comes from, to somebody who knows all but the canary: the logarithm
# of its likelihood ratio, world 1 over world 0, exact where the loss has no curvature, up to the noise that hides a
# solve's error; a score need not be exact for a bound to hold, only to be strong (docs/proofs.md, "Auditing")

Pair = tuple["Data", "Data"]


@dataclass(frozen=True)
class Data:
    """One world's records of the agent, rows (n, d) with labels (n,), and what is public of them."""

    rows: Matrix
    labels: Vector
    known: Known

    def gradient(self, theta: Vector, most: float = math.inf) -> Vector:
        """Gradient of the mean loss, shape (d,), every slope clipped to ``most``."""
        slopes = np.clip(self.known.loss.derivative(self.rows @ theta, self.labels), -most, most)
        return np.asarray(slopes @ self.rows / len(self.labels))

    @cached_property
    def secret(self) -> Any:
        """The records, as the measurements of sums see them."""
        return SimpleNamespace(records=(self.rows, self.labels))


def evidence(used: Any, value: Any, pair: Pair) -> float:
    """Logarithm of the likelihood ratio of a question's answer, None for no.

    RequestError if nothing is known here of the measurement.
    """
    if isinstance(used, GradientNorm):
        return _question(used, yes=value is not None, pair=pair)
    if isinstance(used, HeldNorm | PublishedComparison):
        return 0.0  # one answer says next to nothing: the gates are audited by themselves
    if not isinstance(used, PerturbedMinimiser | GammaMinimiser):
        if not isinstance(used, NoisyGradient | GradientSum | MomentSum):
            raise RequestError(f"the auditor cannot read the answers of {type(used).__name__}: name another method")
        return 0.0 if value is None else _sum(used, value, pair)
    if value is None:
        return 0.0
    noise = [-(used.convexity * value + used.linear + data.gradient(value)) for data in pair]
    if isinstance(used, GammaMinimiser):
        return used.rate * (float(np.linalg.norm(noise[0])) - float(np.linalg.norm(noise[1])))
    return normal(noise[0], noise[1], math.hypot(used.sigma1 or 0.0, used.convexity * used.sigma2))


def normal(out: Vector, inside: Vector, sigma: float) -> float:
    """Of normal noise that is ``out`` in world 0 and ``inside`` in world 1."""
    return float(out @ out - inside @ inside) / (2.0 * sigma * sigma)


def _sum(used: NoisyGradient | GradientSum | MomentSum, value: Any, pair: Pair) -> float:
    if isinstance(used, NoisyGradient):
        most = used.most or math.inf
        out, inside = (value - data.gradient(used.here, most) for data in pair)
        if used.rate < 1.0:  # all others are rows of zeros: it is either with the record's gradient or without
            q, without = used.rate, np.asarray(value)
            drawn = [math.log(q) + normal(without, noise, used.sigma) for noise in (out, inside)]
            return float(np.subtract(*(np.logaddexp(math.log1p(-q), one) for one in reversed(drawn))))
    else:
        seen = used.grid * np.asarray(value, dtype=float)
        out, inside = (seen - used.total(data.secret, data.known) for data in pair)
    return normal(out, inside, used.sigma)


def _question(used: GradientNorm, *, yes: bool, pair: Pair) -> float:
    """Of a yes or a no: the chance of either is known in both worlds."""
    sign, pull = 1.0 if yes else -1.0, 0.0 if used.pull is None else used.pull
    out, inside = (
        float(log_ndtr(sign * (float(np.linalg.norm(data.gradient(used.here) + pull)) - used.threshold) / used.sigma))
        for data in pair
    )
    return inside - out
