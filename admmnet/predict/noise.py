"""A saved model's coefficients beside the noise in them: from its ledgers and settings alone.

docs/methods.md, sec. 10 eqs. (103)-(105). No record is read, so whoever has the run folder may know it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from admmnet.errors import CheckFailed, RequestError
from admmnet.methods import METHODS
from admmnet.predict.model import Model
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.forms import Summary
from admmnet.record.reader import look_at
from admmnet.solvers.losses import get_loss
from admmnet.types import Vector

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


def noise_of(model: Model, agent: int | None = None) -> Noise:
    """Bound the noise in each coefficient of the consensus, or of an agent's own vector.

    CheckFailed if a ledger does not hold. RequestError if there is no such agent, or a file is missing.
    """
    vector, name = model.vector(agent), model.config.algorithm
    if not METHODS[name].private:
        return Noise(np.zeros_like(vector), f"{name} adds no noise")
    try:
        if name not in ("noisy-gd", "ssp"):
            raise _NoFigure(f"no bound is stated for {name}: noisy-gd and ssp have one")
        summary, ledgers = _read(model)
        if name == "noisy-gd":
            deviation = np.sqrt(np.broadcast_to(_descent(model, summary, ledgers), vector.shape))
            return Noise(np.array(deviation), "from the ledgers and settings alone, eq. (104)", "(104)")
    except _NoFigure as lacking:
        return Noise(None, str(lacking))
    if model.deviation is None:
        return Noise(None, "the run kept no figure: no sum came about, or its folder is of an older version")
    # the moments are released, so that the run itself could tell what their noise does
    deviation = np.array(np.broadcast_to(model.deviation, vector.shape))
    return Noise(deviation, "from the noisy moments that were released, eq. (105)", "(105)")


def _read(model: Model) -> tuple[Summary, Sequence[VerifiedLedger]]:
    """Summary and all agents' ledgers of a run."""
    found = look_at(model.folder)
    if found.summary is None:
        raise RequestError(f"{model.folder} has no sound summary.json: take the original run folder")
    entries = {entry.agent for entry in found.summary.per_agent}
    for path in (model.folder / "ledger").glob("agent-*.jsonl"):
        name = f"ledger/{path.name}"
        own = found.ledgers.get(name)
        # that others are missing is no fault of this one
        if own is None or own.sha256 != found.summary.ledgers.get(name, own.sha256):
            raise CheckFailed(next((fault for fault in found.faults if path.name in fault), f"{path}: is another one"))
    ledgers = {int(ledger.header["agent"]): ledger for ledger in found.ledgers.values()}
    if missing := sorted(entries - set(ledgers)):
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise _NoFigure(
            f"the noise follows from all agents' ledgers, but those of {shown} are not in this folder: ask their owners"
        )
    return found.summary, [ledgers[i] for i in sorted(entries)]


def _descent(model: Model, summary: Summary, ledgers: Sequence[VerifiedLedger]) -> float:
    """Eqs. (103), (104): noise of the sums through the accelerated steps, at the worst curvature."""
    config: Any = model.config
    totals, step = _sums(summary, ledgers), float(config.step_size)
    curvatures = np.linspace(0.0, get_loss(config.loss, config.loss_width).curvature_bound(), CURVATURES)
    response = step * descent_response(len(totals), step * (curvatures + float(config.regularisation)))
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


def _sums(summary: Summary, ledgers: Sequence[VerifiedLedger]) -> list[float]:
    """Variance of the noise in each mean over the records of those who were in the sum, by round.

    Sums before the first round do not count: A was made of these.
    """
    if summary.away:
        raise _NoFigure("agents were away in mid-run: no bound is known for that")
    variance, records = defaultdict[int, float](float), defaultdict[int, int](int)
    for ledger in ledgers:
        for round, event, _ in ledger.events:
            if round >= 0 and isinstance(event, DiscreteGaussian):
                variance[round] += event.sigma**2 / event.parts
                records[round] += int(ledger.header["records"])
    return [variance[round] / records[round] ** 2 for round in sorted(variance)]


BEYOND = 2.0
"""Standard deviations from which a coefficient counts as more than noise."""
BY_CHANCE = math.erfc(BEYOND / math.sqrt(2.0))
"""Share of numbers of pure noise that lie beyond."""


def coefficients(model: Model, agent: int | None = None) -> dict[str, Any]:
    """Facts on every coefficient, the largest first: the content of the command's `--json`, see docs/results.md.

    Errors are those of ``noise_of``.
    """
    vector, noise = np.atleast_2d(model.vector(agent)), noise_of(model, agent)
    spread = None if noise.deviation is None else np.atleast_2d(noise.deviation)
    A = model.found.whitening
    if A is not None:  # of the features, not of what A makes of them
        vector = vector @ A
        spread = None if spread is None else np.sqrt(spread**2 @ A**2)
    target, known = model.target, "no" if spread is None else "none added"
    if noise.equation:
        known = "about" if noise.equation == "(105)" else "at most"
    rows = []
    for place in np.argsort(-np.abs(vector).ravel(), kind="stable").tolist():
        k, j = divmod(place, vector.shape[1])
        value, deviation = float(vector[k, j]), None if spread is None else float(spread[k, j])
        rows.append(
            {
                "feature": model.feature_names[j],
                **({"class": model.classes[k]} if model.classes else {}),
                "coefficient": value,
                "deviation": deviation,
                "beyond": None if deviation is None else abs(value) > BEYOND * deviation,
            }
        )
    return {
        "run": str(model.folder),
        "algorithm": model.config.algorithm,
        "method": model.config.method,
        "data": model.config.data,
        "vector": "consensus" if agent is None else f"agent {agent}",
        "task": model.task,
        "labels": list(model.labels),
        "target": None if target is None else {"centre": target.centre, "reach": target.reach},
        "intercept": not model.config.no_intercept,
        "rows": "as they are" if model.config.normalise == "none" else "norm 1",
        "whitened": A is not None,
        "noise": {"known": known, "equation": noise.equation or None, "reason": noise.reason},
        "beyond": None if spread is None else sum(row["beyond"] is True for row in rows),
        "beyond_of_noise": BY_CHANCE * len(rows),
        "coefficients": rows,
    }
