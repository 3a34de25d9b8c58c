"""Private SGD in one pass with pure epsilon: Song, Chaudhuri, Sarwate 2013. docs/methods.md (55) and (56).

Batches are disjoint, so each record is used once; the summed gradient of a batch gets noise of density
exp(-(alpha/2) ||z||). Replacing one record with gradients of norm at most 1 moves the sum by at most 2, which is
alpha-differential privacy for that record (replace-one; half of it under zero-out).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import measurement
from admmnet.holder.known import Known
from admmnet.holder.problem import Problem
from admmnet.holder.series.base import Rngs, Series, pure_event
from admmnet.holder.series.batches import RecordIndices, SeriesProgress
from admmnet.holder.series.checks import LEAST, MOST, check_choice, check_count, check_positive
from admmnet.privacy.events import Event
from admmnet.privacy.mechanisms import gamma_norm_noise, round_to_grid
from admmnet.types import Vector

SCHEDULES = ("sqrt", "inverse", "constant")


@dataclass(slots=True, kw_only=True)
class DisjointProgress(SeriesProgress):
    """The model w, shape (d,); ``order`` is cut into the batches."""

    theta: Vector = field(repr=False)


def learning_rates(schedule: str, steps: int, scale: float, regularisation: float) -> Vector:
    """eta_1 to eta_T of docs/methods.md (56): scale / sqrt(t), scale / (lambda t), or scale."""
    t = np.arange(1.0, steps + 1.0)
    if schedule == "sqrt":
        return np.asarray(scale / np.sqrt(t))
    return np.asarray(scale / (regularisation * t)) if schedule == "inverse" else np.full(steps, scale)


@measurement
@dataclass(frozen=True, eq=False)
class DisjointSteps(Series):
    """One pass from w = 0, which is one epoch; its answer is the last w.

    Draws ``permutation(N)``, sorted by alpha and cut into batches of b, the last of each alpha of what remains; then
    for each batch `gamma_norm_noise` of rate alpha / 2: ``standard_gamma(d)``, then ``standard_normal(d)``. Proof:
    docs/proofs.md, Theorem 13, and batches are disjoint.

    Parameters
    ----------
    batch : int
        b, 1 to N.
    epsilon : float or ndarray, shape (N,)
        alpha, of all or of each record: positive, inf for no privacy. Those of single records are taken to be
        public. Batches hold records of one alpha, those of the largest first, so that steps of more noise are
        shorter; the event books the largest.
    schedule, scale
        Step sizes scale / sqrt(t), scale / (lambda t) or scale.
    """

    regularisation: float
    batch: int
    epsilon: Vector
    schedule: str = "sqrt"
    scale: float = 1.0

    @property
    def key(self) -> str:
        """All settings, and a digest of epsilons, whose print-out may be cut short."""
        return f"{self!r}|{hashlib.sha256(self.epsilon.tobytes()).hexdigest()}"

    def check(self, known: Known) -> None:
        """Refuse losses whose gradients can be longer than 1, and settings out of range."""
        check_gradients(known, "song-sgd")
        check_count("batch", self.batch, known.records, of="the number of records")
        check_positive("regularisation", self.regularisation)
        check_positive("scale", self.scale)
        check_choice("schedule", self.schedule, SCHEDULES)
        usable = ((self.epsilon >= LEAST) & (self.epsilon <= MOST)) | (self.epsilon == math.inf)
        if self.epsilon.shape not in ((), (known.records,)) or not usable.all():
            raise RequestError(
                f"epsilon must be one positive number, or one for each of the {known.records} records, from "
                f"{LEAST:g} to {MOST:g}, or inf"
            )

    def event(self, known: Known) -> Event:
        """Theorem 13."""
        return pure_event(float(self.epsilon.max()), known.width)

    def length(self, known: Known) -> int:
        """All steps: N / b, rounded up for each alpha."""
        return len(self.parts(np.arange(known.records))[2])

    def parts(self, drawn: RecordIndices) -> tuple[RecordIndices, list[int], Vector]:
        """Order of the records, sorted by alpha, the ends of the batches before and after each, and their alphas."""
        wanted = np.broadcast_to(self.epsilon, (len(drawn),))[drawn]
        sort = np.argsort(-wanted, kind="stable")
        order, wanted = drawn[sort], wanted[sort]
        edges = [0, *(np.flatnonzero(wanted[1:] != wanted[:-1]) + 1).tolist(), len(order)]
        ends = [t for first, last in pairwise(edges) for t in range(first, last, self.batch)]
        return order, [*ends, len(order)], wanted[ends]

    def start(self, problem: Problem) -> DisjointProgress:
        """At zero."""
        return DisjointProgress(theta=np.zeros(problem.features))

    def advance(self, problem: Problem, progress: DisjointProgress, rngs: Rngs) -> Iterator[None]:
        """Eqs. (55), (56)."""
        d = problem.features
        if not progress.order.size:
            progress.order = rngs.batches.permutation(problem.records)
        progress.order, ends, granted = self.parts(progress.order)  # a second sorting changes nothing
        rates = learning_rates(self.schedule, len(granted), self.scale, self.regularisation).tolist()
        w, alphas, pull, radius = progress.theta, granted.tolist(), self.regularisation, 1.0 / self.regularisation
        X, y, slope = problem.X[progress.order], problem.y[progress.order], problem.loss.derivative
        for t in range(progress.step, len(alphas)):
            part, size = slice(ends[t], ends[t + 1]), ends[t + 1] - ends[t]
            rows = X[part]  # of few short rows `dot` takes half of the time of `@`
            total = rows.T.dot(slope(rows.dot(w), y[part]))
            if alphas[t] < math.inf:
                rate = alphas[t] / 2.0
                total = round_to_grid(total + gamma_norm_noise(rngs.noise, rate, d), 1.0 / rate)
            w -= rates[t] * (pull * w + (total / size if size > 1 else total))
            norm = math.sqrt(w.dot(w))
            if norm > radius:
                w *= radius / norm
            progress.step += 1
            yield

    def model(self, progress: DisjointProgress) -> Vector:
        """The last w."""
        return progress.theta.copy()


def check_gradients(known: Known, method: str) -> None:
    """Refuse a loss whose gradients can be longer than 1."""
    if not known.loss.lipschitz() <= 1.0:
        raise RequestError(
            f"{method} does not take the {known.loss.name} loss: a record's gradient must have norm at most 1; "
            "choose logistic or hinge"
        )
