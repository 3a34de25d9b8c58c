"""How much of a saved model's coefficients is noise: from its ledgers and settings alone.

docs/methods.md, sec. 10 eqs. (101)-(106). No record is read, so whoever has the run folder may know it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from admmnet.errors import CheckFailed, RequestError
from admmnet.methods import METHODS
from admmnet.predict.model import Model
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    GammaNorm,
    GammaNormVector,
    Gaussian,
    ObjectivePerturbation,
    SubsampledGaussian,
)
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.forms import AgentEntry, Summary
from admmnet.record.reader import look_at
from admmnet.solvers.losses import Loss, get_loss
from admmnet.types import Vector

E = TypeVar("E", bound=Event)
CURVATURES = 400
"""Curvatures from 0 to c1 at which the response of noisy-gd is looked at."""


@dataclass(frozen=True)
class Noise:
    """Most that the standard deviation of each coefficient's noise can be; None where no bound is known."""

    deviation: Vector | None  # in the shape of the model
    reason: str  # how it was found, or why there is none
    equation: str = ""  # its number on docs/methods.md, if any


class _NoFigure(Exception):
    """No bound is known; says why."""


@dataclass(frozen=True)
class _Run:
    """What the folder says of a run besides its vectors."""

    model: Model
    agent: int | None
    summary: Summary
    ledgers: Mapping[int, VerifiedLedger]

    def value(self, name: str) -> Any:
        """A setting, as it was resolved."""
        return getattr(self.model.config, name)

    @property
    def loss(self) -> Loss:
        return get_loss(self.value("loss"), self.value("loss_width"))

    @property
    def regularisation(self) -> float:
        """Regularisation of a method of one site."""
        return float(self.summary["baseline"]["regularisation"])

    @cached_property
    def entries(self) -> Mapping[int, AgentEntry]:
        return {entry.agent: entry for entry in self.summary.per_agent}

    def rounds(self, agent: int) -> Mapping[int, Sequence[Event]]:
        """Events of an agent's ledger by round, without those of sums before the first one: A was made of these."""
        found: dict[int, list[Event]] = defaultdict(list)
        for round, event, _ in self.ledgers[agent].events:
            if round >= 0:
                found[round].append(event)
        return found

    def records(self, agent: int) -> int:
        return int(self.ledgers[agent].header["records"])

    def weight(self, agent: int) -> float:
        return float(self.ledgers[agent].header.get("weight", 1.0))


def noise_of(model: Model, agent: int | None = None) -> Noise:
    """Bound the noise in each coefficient of the consensus, or of an agent's own vector.

    CheckFailed if a ledger does not hold. RequestError if there is no such agent, or a file is missing.
    """
    vector, name = model.vector(agent), model.config.algorithm
    if not METHODS[name].private:
        return Noise(np.zeros_like(vector), f"{name} adds no noise")
    try:
        bound, equation = BOUNDS.get(name, (None, ""))
        if bound is None:
            raise _NoFigure(WITHOUT.get(name, f"{name} comes from another package, which states no bound"))
        deviation = np.sqrt(np.broadcast_to(bound(_read(model, agent)), vector.shape))
    except _NoFigure as lacking:
        return Noise(None, str(lacking))
    source = "the noisy moments that were released" if bound is _moments else "the ledgers and settings alone"
    return Noise(np.array(deviation), f"from {source}, eq. {equation}", equation)


def _read(model: Model, agent: int | None) -> _Run:
    found = look_at(model.folder)
    if found.summary is None:
        raise RequestError(f"{model.folder} has no sound summary.json: take the original run folder")
    entries = {entry.agent for entry in found.summary.per_agent}
    for path in (model.folder / "ledger").glob("agent-*.jsonl"):
        if f"ledger/{path.name}" not in found.ledgers:
            raise CheckFailed(next(fault for fault in found.faults if path.name in fault))
    ledgers = {int(ledger.header["agent"]): ledger for ledger in found.ledgers.values()}
    if missing := sorted(entries - set(ledgers)):
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise _NoFigure(
            f"the noise follows from all agents' ledgers, but those of {shown} are not in this folder: ask their owners"
        )
    return _Run(model, agent, found.summary, {i: ledgers[i] for i in sorted(entries)})


def _require_steady(run: _Run) -> None:
    """Eq. (102) is for agents that all speak, and hear each other, in every round."""
    config, gated = run.model.config, run.value("algorithm") == "ipp-admm"
    if config.drop or config.offline or config.topology_schedule:
        raise _NoFigure("messages were lost, agents were away, or the graph changed: no bound is known for that")
    if gated and (config.method == "published" or run.value("gate") not in ("auto", "joining", "off")):
        raise _NoFigure("a gate chose the speakers of every round: no bound is known for that")
    for i, entry in run.entries.items():
        if str(i) in run.summary.away or entry.refused_at is not None:
            raise _NoFigure(f"agent {i} fell silent in mid-run: no bound is known for that")
        if entry.joined_at:
            raise _NoFigure(f"agent {i} joined in round {entry.joined_at}: no bound is known for that")


def _consensus(run: _Run) -> float:
    """Eqs. (101), (102): noise in the agents' objectives, and on their solutions, over all rounds."""
    _require_steady(run)
    parts: dict[int, dict[int, tuple[float, float]]] = {}
    convexity: dict[int, float] = {}
    for i, entry in run.entries.items():
        if entry.releases and entry.joined_at is None:  # passes on what it hears, from one neighbour at least
            convexity[i] = 2.0 * float(run.value("eta"))
        elif entry.releases:
            parts[i], m = _releases(run, i)
            convexity[i] = m * run.weight(i)
    whole = set(range(0, run.summary.rounds, 2 if _recycles(run) else 1))
    if not parts or any(set(own) != whole for own in parts.values()):
        raise _NoFigure("not every agent spoke in every round: no bound is known for that")
    T, most = len(whole), max(convexity.values())
    objective, output = (max(own[t][k] for own in parts.values() for t in whole) for k in range(2))
    felt = passed = float(T)
    if share := float(run.model.config.regularisation) / len(run.entries):  # what is old fades
        bend = max(run.loss.curvature_bound() * run.weight(i) / convexity[i] for i in parts)
        felt, passed = min(T, 1.0 + most / (2.0 * share)), min(T, 1.0 + max(most / share, bend))
    return (objective * felt + output * passed) * _readout(run, convexity)


def _releases(run: _Run, agent: int) -> tuple[dict[int, tuple[float, float]], float]:
    """w_i^2 sigma_i^2 / m_i and m_i sigma2_i^2 of every round, eq. (101), and m_i / w_i."""
    found, m = {}, math.nan
    weight, recycled = run.weight(agent), _recycles(run)
    for round, events in run.rounds(agent).items():
        objective, output = 0.0, 0.0
        for event in events:
            match event:
                case ObjectivePerturbation():
                    m, objective = event.convexity, objective + event.sigma**2
                case GammaNorm():
                    m, objective = event.convexity, objective + _long_tailed(event)
                case Gaussian():
                    output += event.sigma**2
                    if not objective:  # --release output: its sensitivity is (2 G/n + 2 beta) / m
                        reach = 2.0 * run.loss.lipschitz() / run.records(agent) + 2.0 * float(run.value("beta"))
                        m = reach / event.sensitivity
        if not (objective or output):
            continue
        twice = 1.0
        if recycled:  # (33) takes the same noise once more, over the penalty and gamma
            penalty = 2.0 * float(run.value("eta")) * run.entries[agent].degree / weight
            twice += m / (penalty + float(run.value("gamma")))
        found[round] = weight * objective / m * twice**2, weight * m * output
    return found, m


def _recycles(run: _Run) -> bool:
    """Whether every other round is (33), which reads no record."""
    return str(run.value("algorithm")) in ("r-admm", "r-admm-gaussian")


def _long_tailed(event: GammaNorm | GammaNormVector) -> float:
    """Variance of a number of noise of density exp(-a ||z||), (d + 1) / a^2, times d / (d - 1): eq. (101)."""
    d = event.dimension
    return (d + 1) / event.rate**2 * (d / max(d - 1, 1))


def _readout(run: _Run, convexity: Mapping[int, float]) -> float:
    """Sum of a_i^2 / m_i, where the model is the sum of a_i theta_i."""
    mean = sum(1.0 / m for m in convexity.values()) / len(convexity) ** 2
    if run.agent is None or run.value("answer") == "average":
        return mean
    if run.agent not in convexity:
        raise _NoFigure(f"agent {run.agent} never spoke: its model is made of messages that it heard")
    return 1.0 / convexity[run.agent]


def _descent(run: _Run) -> float:
    """Eqs. (103), (104): noise of the sums through the accelerated steps, at the worst curvature."""
    totals, step = _sums(run), float(run.value("step_size"))
    curvatures = np.linspace(0.0, run.loss.curvature_bound(), CURVATURES)
    response = step * descent_response(len(totals), step * (curvatures + float(run.model.config.regularisation)))
    return float(np.max(np.square(response).T @ np.array(totals)))


def descent_response(steps: int, contraction: Vector) -> Vector:
    """How far noise in the gradient of step t moves the last theta, over the step size: shape (steps, h).

    ``contraction`` is the step size times curvature plus regularisation, shape (h,): eq. (103).
    """
    found = np.empty((steps, len(contraction)))
    along, point = np.ones(len(contraction)), np.zeros(len(contraction))  # of theta^t and y^t in theta^T
    for t in range(steps - 1, -1, -1):
        momentum = t / (t + 3.0)
        found[t] = along + (1.0 + momentum) * point
        along, point = -momentum * point, (1.0 - contraction) * found[t]
    return found


def _sums(run: _Run) -> list[float]:
    """Variance of the noise in each mean over the records of those who were in the sum, by round."""
    if run.summary.away:
        raise _NoFigure("agents were away in mid-run: no bound is known for that")
    variance, records = defaultdict[int, float](float), defaultdict[int, int](int)
    for i in run.ledgers:
        for round, events in run.rounds(i).items():
            for event in events:
                if isinstance(event, DiscreteGaussian):
                    variance[round] += event.sigma**2 / event.parts
                    records[round] += run.records(i)
    return [variance[round] / records[round] ** 2 for round in sorted(variance)]


def _moments(run: _Run) -> Vector:
    """Eq. (105): the noisy moments are released, so that the run itself could tell what their noise does."""
    if run.model.deviation is None:
        raise _NoFigure("the run kept no figure: no sum came about, or its folder is of an older version")
    return run.model.deviation**2


def _last(run: _Run, kind: type[E]) -> E:
    """Event of the steps that made a baseline's model, the last one."""
    event = run.ledgers[0].events[-1][1]
    if not isinstance(event, kind):
        raise _NoFigure("its steps had no noise that a ledger books")
    return event


def _clipped(run: _Run) -> tuple[int, float, float]:
    """Steps on clipped batches, the deviation of the noise on each, and the regularisation."""
    event = _last(run, SubsampledGaussian)
    sigma = event.noise_multiplier * float(run.value("clip")) * (2.0 if event.sampling == "fixed" else 1.0)
    return event.steps, sigma, run.regularisation


def _gradient_steps(run: _Run) -> float:
    """Eq. (106) of dp-sgd."""
    (steps, sigma, weight), step = _clipped(run), float(run.value("learning_rate"))
    kept = (1.0 - step * weight) ** 2
    return (step * sigma / int(run.value("batch"))) ** 2 * sum(kept**t for t in range(steps))


def _dual_steps(run: _Run) -> float:
    """Eq. (106) of dp-scd with private dual variables."""
    if run.value("dual_noise") is True:
        raise _NoFigure(DUALS)
    steps, sigma, weight = _clipped(run)
    return steps * (sigma / (weight * run.records(0))) ** 2


def _disjoint_steps(run: _Run) -> float:
    """Eq. (106) of song-sgd."""
    from admmnet.holder.series.single_pass import learning_rates

    event, records = _last(run, GammaNormVector), run.records(0)
    batch, weight = int(run.value("batch")), run.regularisation
    sizes = [min(batch, records - start) for start in range(0, records, batch)]
    rates = learning_rates(run.value("schedule"), len(sizes), float(run.value("learning_rate")), weight)
    each, total = _long_tailed(event), 0.0
    for rate, size in zip(rates, sizes, strict=True):
        total = total * (1.0 - rate * weight) ** 2 + each * (rate / size) ** 2
    return total


BATCHES = "(106)"
"""Bound of methods whose batches are drawn at random, which a repeated run scatters by as well."""
Bound = Callable[[_Run], "float | Vector"]
DUALS = "noise on the dual variables comes back through the records: no bound is known for that"
BOUNDS: dict[str, tuple[Bound, str]] = {
    **dict.fromkeys(
        [*("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm"), *("dvp-gaussian", "m-admm-gaussian", "r-admm-gaussian")],
        (_consensus, "(102)"),
    ),
    "noisy-gd": (_descent, "(104)"),
    "ssp": (_moments, "(105)"),
    "dp-sgd": (_gradient_steps, BATCHES),
    "dp-scd": (_dual_steps, BATCHES),
    "song-sgd": (_disjoint_steps, BATCHES),
}
"""Bounds on the variance, and their numbers on docs/methods.md."""
WITHOUT = {
    "seq-dp-scd": DUALS,
    "primal-dp-scd": "the scores that its steps go by have noise of their own, and columns were scaled by the records",
    "lt-admm": "noise of one agent comes back through the records of its neighbours: no bound is known for that",
    "dp-dsgd": "noise of one agent comes back through the records of its neighbours: no bound is known for that",
    "banco": "its steps are as long as the noise so far makes them: no bound is known for that",
}
"""Why other methods of ours have none."""
