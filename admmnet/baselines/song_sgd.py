"""Private SGD in one pass with pure epsilon: Song, Chaudhuri, Sarwate 2013. docs/baselines.md (55) and (56).

Batches are disjoint, so each record is used once; the summed gradient of a batch gets noise of density
exp(-(alpha/2) ||z||). Replacing one record with gradients of norm at most 1 moves the sum by at most 2, which is
alpha-differential privacy for that record (replace-one; half of it under zero-out).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from admmnet.baselines.batches import Indices, steps_per_epoch
from admmnet.baselines.checks import check_count, check_positive, check_unit
from admmnet.baselines.dp_scd import Observer
from admmnet.baselines.objective import Problem
from admmnet.errors import RequestError
from admmnet.privacy.mechanisms import gamma_norm_noise, round_to_grid
from admmnet.types import Vector

Schedule = Literal["sqrt", "inverse", "constant"]


@dataclass(frozen=True)
class SongResult:
    """Outcome of the pass.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        The last model w.
    batch_epsilon : ndarray, shape (T,)
        alpha that every record of the t-th batch has: the smallest that any of them asked for; inf without noise.
    batch_of : ndarray of int64, shape (N,)
        Batch of each record, so that ``batch_epsilon[batch_of]`` is what each record has.
    """

    theta: Vector = field(repr=False)
    batch_epsilon: Vector = field(repr=False)
    batch_of: Indices = field(repr=False)


def learning_rates(schedule: Schedule, steps: int, scale: float, regularisation: float) -> Vector:
    """eta_1 to eta_T of docs/baselines.md (56): scale / sqrt(t), scale / (lambda t), or scale."""
    t = np.arange(1.0, steps + 1.0)
    if schedule == "sqrt":
        return np.asarray(scale / np.sqrt(t))
    return np.asarray(scale / (regularisation * t)) if schedule == "inverse" else np.full(steps, scale)


def run_song_sgd(
    problem: Problem,
    *,
    batch: int,
    epsilon: float | Vector,
    order_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    schedule: Schedule = "sqrt",
    scale: float = 1.0,
    observe: Observer | None = None,
) -> SongResult:
    """Run one pass from w = 0.

    Draws ``order_rng.permutation(N)``, cut into batches of b, the last of what remains; then for each batch
    `gamma_norm_noise` of rate alpha / 2 from `noise_rng`: ``standard_gamma(d)``, then ``standard_normal(d)``.

    Parameters
    ----------
    problem : Problem
        Records, loss and lambda; logistic or hinge, rows of norm at most 1.
    batch : int
        b, 1 to N.
    epsilon : float or ndarray, shape (N,)
        alpha, of all or of each record: positive, inf for no privacy. Those of single records are taken to be
        public. The noise of a batch serves the smallest in it, so every record gets what it asked for, and
        more wherever a neighbour in its batch asked for more.
    order_rng, noise_rng : numpy.random.Generator
        Randomness of the order, which is independent of the records, and of the noise.
    schedule : {"sqrt", "inverse", "constant"}
        Step sizes scale / sqrt(t), scale / (lambda t) or scale.
    scale : float
        As above.
    observe : callable or None
        Called with the step's number and w.

    Returns
    -------
    SongResult
        Model, and the privacy of each batch.

    Raises
    ------
    RequestError
        The ridge loss, whose gradients have no bound; a setting out of range.
    """
    check_unit(problem, "rows", "song-sgd")
    if not problem.loss.lipschitz() <= 1.0:
        raise RequestError(
            f"song-sgd does not take the {problem.kind} loss: a record's gradient must have norm at most 1; "
            "choose logistic or hinge"
        )
    n, d = problem.records, problem.features
    check_count("batch", batch, n, of="the number of records")
    check_positive("scale", scale)
    if schedule not in get_args(Schedule):
        raise RequestError(
            f"schedule = {schedule!r} is not known; choose one of {', '.join(get_args(Schedule))}"
        )
    wanted = (
        np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (n,)) if np.ndim(epsilon) == 0 else epsilon
    )
    if np.shape(wanted) != (n,) or not np.all(np.asarray(wanted) > 0.0):
        raise RequestError(f"epsilon must be one positive number, or one for each of the {n} records")
    order, steps = order_rng.permutation(n), steps_per_epoch(n, batch)
    granted = np.minimum.reduceat(np.asarray(wanted)[order], np.arange(0, n, batch))
    rates = learning_rates(schedule, steps, scale, problem.regularisation)
    X, y = problem.X[order], problem.y[order]
    w, radius = np.zeros(d), 1.0 / problem.regularisation
    for t in range(steps):
        part = slice(t * batch, min(n, (t + 1) * batch))
        rows = X[part]
        total = np.asarray(problem.loss.derivative(np.asarray(rows @ w), y[part]) @ rows)
        if granted[t] < math.inf:
            rate = float(granted[t]) / 2.0
            total = round_to_grid(total + gamma_norm_noise(noise_rng, rate, d), 1.0 / rate)
        w = w - rates[t] * (problem.regularisation * w + total / (part.stop - part.start))
        norm = math.sqrt(float(w @ w))
        if norm > radius:
            w *= radius / norm
        if observe is not None:
            observe(t + 1, w)
    batch_of = np.empty(n, dtype=np.int64)
    batch_of[order] = np.arange(n) // batch
    return SongResult(w, granted, batch_of)
