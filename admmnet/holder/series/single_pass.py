"""One pass over the records, each of which is used once: song-sgd and banco.

Replacing one record with gradients of norm at most 1 moves a sum of gradients by at most 2, so noise of density
exp(-(alpha/2) ||z||) on it is alpha-differential privacy for that record (replace-one; half of it under zero-out).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.holder.answers import Known, measurement
from admmnet.holder.problem import Problem
from admmnet.holder.series.base import LEAST, MOST, RecordIndices, Rngs, Series, pure_event, with_noise
from admmnet.holder.series.magnitude import magnitude
from admmnet.privacy.events import Event, Gaussian, Unprotected
from admmnet.privacy.mechanisms import gamma_norm_noise, round_to_grid
from admmnet.solvers.certificate import is_sparse
from admmnet.types import Vector

K1 = 0.6838
"""k_1 of the paper: ln(1 + x) >= x - x^2 for x >= -0.6838, and no further down."""
_BLOCK = 2**20  # numbers of X that are made dense at a time


def learning_rates(schedule: str, steps: int, scale: float, regularisation: float) -> Vector:
    """eta_1 to eta_T of docs/methods.md (56): scale / sqrt(t), scale / (lambda t), or scale."""
    t = np.arange(1.0, steps + 1.0)
    if schedule == "sqrt":
        return np.asarray(scale / np.sqrt(t))
    return np.asarray(scale / (regularisation * t)) if schedule == "inverse" else np.full(steps, scale)


@measurement
@dataclass(frozen=True, eq=False)
class DisjointSteps(Series):
    """Private SGD of Song, Chaudhuri, Sarwate 2013, (55), (56): from w = 0; its answer is the last w.

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

    def check(self, known: Known) -> None:
        """Refuse losses whose gradients can be longer than 1, and settings out of range."""
        super().check(known)
        check_gradients(known, "song-sgd")
        usable = ((self.epsilon >= LEAST) & (self.epsilon <= MOST)) | (self.epsilon == math.inf)
        if self.epsilon.shape not in ((), (known.records,)) or not usable.all():
            raise RequestError(
                f"epsilon must be one positive number, or one for each of the {known.records} records, from "
                f"{LEAST:g} to {MOST:g}, or inf"
            )

    def event(self, known: Known) -> Event:
        """Theorem 13."""
        return pure_event(float(self.epsilon.max()), known.width)

    def parts(self, drawn: RecordIndices) -> tuple[RecordIndices, list[int], Vector]:
        """Order of the records, sorted by alpha, the ends of the batches before and after each, and their alphas."""
        wanted = np.broadcast_to(self.epsilon, (len(drawn),))[drawn]
        sort = np.argsort(-wanted, kind="stable")
        order, wanted = drawn[sort], wanted[sort]
        edges = [0, *(np.flatnonzero(wanted[1:] != wanted[:-1]) + 1).tolist(), len(order)]
        ends = [t for first, last in pairwise(edges) for t in range(first, last, self.batch)]
        return order, [*ends, len(order)], wanted[ends]

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Eqs. (55), (56); the progress has w (d,), and the order that is cut into batches."""
        w, d = np.zeros(problem.features), problem.features
        order, ends, granted = self.parts(rngs.batches.permutation(problem.records))
        yield (progress := SimpleNamespace(step=0, theta=w, order=order))
        rates = learning_rates(self.schedule, len(granted), self.scale, self.regularisation).tolist()
        alphas, pull, radius = granted.tolist(), self.regularisation, 1.0 / self.regularisation
        X, y, slope = problem.X[order], problem.y[order], problem.loss.derivative
        for t in range(len(alphas)):
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
            yield progress

    def model(self, progress: Any) -> Vector:
        """The last w."""
        return np.array(progress.theta)


def check_gradients(known: Known, method: str) -> None:
    """Refuse a loss whose gradients can be longer than 1."""
    if not known.loss.lipschitz() <= 1.0:
        raise RequestError(
            f"{method} does not take the {known.loss.name} loss: a record's gradient must have norm at most 1; "
            "choose logistic or hinge"
        )


def sub_exponential(epsilon: float, d: int, constant: str = "tight") -> float:
    """sigma^2 of docs/methods.md (59) for the noise K(epsilon/2) on R^d.

    The least number with E exp(beta u.xi) <= exp(beta^2 sigma^2 / 2) for every unit u and |beta| <= epsilon/4
    (tight), or the poster's 18 d^2 / epsilon^2, which is larger.
    """
    if constant == "poster":
        return 18.0 * d * d / epsilon**2
    return 16.0 * math.log(4.0 / 3.0) * (d + 1) / epsilon**2


@measurement
@dataclass(frozen=True, eq=False)
class OnlineSteps(Series):
    """BANCO of Jun, Orabona 2019, (57) to (59), from w_1 = q_1 = 0; its answer is the average of w_1 to w_T.

    Each record adds noise to its own negative subgradient, before anybody else sees it. Magnitude and direction of the
    model are learnt apart; neither has a learning rate. The loss is the mean loss alone, lambda plays no part.

    Draws ``permutation(N)``; then for each record `gamma_norm_noise` of rate epsilon / 2 (``standard_gamma(d)``,
    ``standard_normal(d)``), or ``standard_normal(d)`` with `sigma`. Proof: docs/proofs.md, Theorem 13 or 1; every
    record is used once.

    Parameters
    ----------
    epsilon : float or None
        Noise K(epsilon/2): each record is epsilon-locally differentially private.
    sigma : float or None
        Gaussian noise instead, of standard deviation sigma on each entry, calibrated by the caller to a
        sensitivity of 2; or 0 for no noise. Exactly one of the two must be given.
    constant : {"tight", "poster"}
        Which sigma^2 of `sub_exponential`; nothing to do with Gaussian noise, whose own is exact.
    """

    epsilon: float | None = None
    sigma: float | None = None
    constant: str = "tight"
    regularisation = 0.0

    def check(self, known: Known) -> None:
        """Refuse losses whose gradients can be longer than 1, and settings out of range."""
        super().check(known)
        check_gradients(known, "banco")
        if (self.epsilon is None) == (self.sigma is None):
            raise RequestError("banco takes either epsilon, for Laplace-type noise, or sigma, for Gaussian noise")

    def event(self, known: Known) -> Event:
        """Theorem 13 or 1."""
        if self.epsilon is not None:
            return pure_event(self.epsilon, known.width)
        return Gaussian(2.0, self.sigma) if self.sigma else Unprotected()

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Eqs. (57), (58).

        The progress has the order of the records, model w, direction q, and the sum of w_1 to w_t, shape (d,); sums of
        g_s . q_s and of ||g_s||^2.

        Raises
        ------
        RunError
            The magnitude, a function of noisy subgradients, left float64.
        """
        n, d, epsilon = problem.records, problem.features, self.epsilon
        if epsilon is not None:
            variance, a = sub_exponential(epsilon, d, self.constant), min(K1, epsilon / 4.0)
        else:
            variance, a = float(self.sigma or 0.0) ** 2, K1
        slope, order, (w, q, total) = problem.loss.derivative, rngs.batches.permutation(n), np.zeros((3, d))
        yield (progress := SimpleNamespace(step=0, order=order, w=w, q=q, total=total, reward=0.0, squares=0.0))
        for t, (row, label) in enumerate(_records(problem, order, max(1, _BLOCK // d)), 1):
            total += w
            score = np.array([row.dot(w)])
            g = self._sanitised(-slope(score, label)[0] * row, rngs.noise)
            progress.reward += float(g.dot(q))  # x of (57)
            progress.squares += float(g.dot(g))
            m = magnitude(progress.reward, t * (variance / 2.0 + 1.0), a)
            if not math.isfinite(m):
                raise RunError(f"banco's magnitude left the range of floating point at step {t}: add noise")
            if progress.squares > 0.0:
                q = q + g / math.sqrt(progress.squares)
                q /= max(1.0, math.sqrt(q.dot(q)))
            w = m * q
            progress.step, progress.w, progress.q = t, w, q
            yield progress

    def model(self, progress: Any) -> Vector:
        """Average of w_1 to w_T."""
        return np.asarray(progress.total / progress.step)

    def _sanitised(self, g: Vector, rng: np.random.Generator) -> Vector:
        if self.epsilon is not None:
            return round_to_grid(g + gamma_norm_noise(rng, self.epsilon / 2.0, len(g)), 2.0 / self.epsilon)
        return with_noise(g, self.sigma or 0.0, rng)


def _records(problem: Problem, order: RecordIndices, block: int) -> Iterator[tuple[Vector, Vector]]:
    """Yield rows and labels in an order, sparse ones made dense a block at a time."""
    for first in range(0, len(order), block):
        part = order[first : first + block]
        rows, labels = problem.X[part], problem.y[part]
        yield from zip(rows.toarray() if is_sparse(rows) else rows, labels[:, None], strict=True)
