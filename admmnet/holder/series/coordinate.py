"""DP-SCD, seqDP-SCD and primalDP-SCD (Damaskinos et al. 2021): docs/methods.md (42) to (52)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known, measurement
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Features, Problem
from admmnet.holder.series.base import (
    TINY,
    BatchSeries,
    RecordIndices,
    Rngs,
    Step,
    batch_step,
    draw_batches,
    with_noise,
)
from admmnet.privacy.events import Event, SubsampledGaussian, Unprotected
from admmnet.solvers.certificate import is_sparse, squared_norms
from admmnet.types import Vector


def weights_of(problem: Problem, batch: float, clip: float) -> tuple[Vector, Vector]:
    """W of each record with the nominal L, and its longest step, C, 0 for a null row: shape (N,).

    A null row stands for an absent record. Under the zero-out relation its dual variable must stay where it
    is, or Lemma 1 of Damaskinos et al. 2021 would not hold where dual variables are shown: a step of an
    absent record, too, could then be as long as C, in the other direction.
    """
    squares = problem.squared_norms
    return squares * (batch / problem.scale), np.where(squares > 0.0, clip, 0.0)


def batch_update(
    problem: Problem, step: Step, weights: tuple[Vector, Vector], batch: RecordIndices, dual: Vector, v: Vector
) -> tuple[Vector, Vector]:
    """Clipped steps of the batch's records and their sum in v, before noise: docs/methods.md (43)-(47).

    ``dual`` (N,) and ``v`` (d,) are the state before the step, and not changed. Returns zeta_j, shape (b,), at most C
    in size, and the sum of zeta_j x_j, shape (d,).
    """
    rows: Features = problem.X[batch]
    scores = np.asarray(rows @ v)
    scores /= problem.scale
    zeta = step(dual[batch], problem.y[batch], scores, weights[0][batch])
    limit = weights[1][batch]
    zeta = np.minimum(np.maximum(zeta, -limit), limit)  # zeta / max(1, |zeta| / C), exactly C where it is cut
    return zeta, np.asarray(zeta @ rows)


@dataclass(frozen=True, eq=False)
class DualSeries(BatchSeries):
    """Base of the series over dual variables, from alpha = 0 and v = 0; an epoch's answer is v / (lambda N).

    The progress has the shared vector v (d,), and dual variables (N,), which **no** guarantee covers where they are
    private.
    ``logistic_margin`` is the ``tiny`` of the logistic step, in (0, 0.5).
    """

    regularisation: float
    batch: int
    clip: float
    noise_multiplier: float
    steps: int
    sampling: str = "poisson"
    logistic_margin: float = TINY

    def check(self, known: Known) -> None:
        """Refuse settings out of range, and losses without a step."""
        super().check(known)
        check_loss(known)
        if not self.logistic_margin < 0.5:
            raise RequestError(f"logistic_margin = {self.logistic_margin!r} is not allowed: it must be below 0.5")

    def model(self, progress: Any) -> Vector:
        """V / (lambda N)."""
        return np.asarray(progress.v / (self.regularisation * len(progress.dual)))


@measurement
@dataclass(frozen=True, eq=False)
class DualSteps(DualSeries):
    """DP-SCD: steps of a whole batch at once, clipped, with Gaussian noise.

    By default the dual variables are private: they never leave, so noise goes on v alone, (48). ``dual_noise`` is the
    paper's Algorithm 1, (49).

    Each step draws its batch (`draw_batches`), then from the noise's stream, with `dual_noise`,
    ``standard_normal(b)`` for the dual variables of the batch in its order, and always ``standard_normal(d)`` for v.
    Without noise nothing is drawn from the latter. Proof: docs/proofs.md, Theorem 10 for private dual variables and
    Poisson batches; noise on those of a batch tells who is in it, and then, as for batches of fixed size, where
    private ones remember earlier batches but one record's coin is not independent of the others', Theorem 12.

    Parameters
    ----------
    batch, clip, noise_multiplier, steps, sampling
        As of ``BatchSeries``. A dual variable moves by at most C in a step; noise on v has standard deviation sigma C,
        with ``dual_noise`` sqrt(2) sigma C on v and on the batch's dual variables.
    dual_noise : bool
        The paper's Algorithm 1.
    """

    dual_noise: bool = False

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry of v."""
        return self.deviation(math.sqrt(2.0) if self.dual_noise else 1.0)

    def event(self, known: Known) -> Event:
        """Theorem 10 or 12."""
        shown = self.sampling == "fixed" or (self.dual_noise and self.sampling == "poisson")
        return self.booked(known, "shown" if shown else self.sampling)

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Eqs. (48), (49)."""
        sigma, dual, v = self.sigma, np.zeros(problem.records), np.zeros(problem.features)
        yield (progress := SimpleNamespace(step=0, v=v, dual=dual))
        step, weights = batch_step(problem.loss.name, self.logistic_margin), weights_of(problem, self.batch, self.clip)
        settings = self.sampling, problem.records, self.batch, self.steps
        for progress.step, chosen in enumerate(draw_batches(*settings, rngs.batches), 1):
            zeta, total = batch_update(problem, step, weights, chosen, dual, v)
            if self.dual_noise:
                zeta = with_noise(zeta, sigma, rngs.noise)
            dual[chosen] += zeta
            v += with_noise(total, sigma, rngs.noise)
            yield progress


def check_loss(known: Known) -> None:
    """Refuse a loss that has no dual step here."""
    if (name := known.loss.name) not in SINGLE_SITE_LOSSES:
        raise RequestError(f"loss = {name!r} is not known; choose one of {', '.join(SINGLE_SITE_LOSSES)}")


@measurement
@dataclass(frozen=True, eq=False)
class SequentialSteps(DualSeries):
    """seqDP-SCD: steps of a batch one after the other, each seeing those before it, and noise at the end, (50).

    Algorithm 3 of Damaskinos et al. 2021, a baseline of theirs. Their bound on what one record can do, 2 C sqrt(L (L +
    1)), takes every later step to be turned round. It cannot be: later steps never carry two states further apart, so
    sqrt(2) C is enough (docs/proofs.md, Lemma 2). Both are here.

    Each step draws its batch, in random order (`draw_batches` with ``ordered=True``), then from the noise's stream
    ``standard_normal(b)`` for the batch's dual variables in its order and ``standard_normal(d)`` for v. Without noise
    nothing is drawn from the latter. Needs numba. Proof: docs/proofs.md, Lemma 2 and Theorem 12.
    Dual variables cannot be private here: those of other records change with v before it has noise.

    Parameters
    ----------
    batch, clip, noise_multiplier, steps, sampling
        As of ``BatchSeries``; the noise has standard deviation 2 sigma C sqrt(L (L + 1)), or sqrt(2) sigma C with
        ``bound="contraction"``. Poisson batches are refused.
    bound : {"published", "contraction"}
        Sensitivity of a step that the noise covers: the paper's Lemma 5 (any relation), or the one that
        docs/proofs.md, Lemma 2 proves: sqrt(2) C under zero-out, twice that under replace-one, if all rows have norm 1.
    """

    sampling: str = "fixed"
    bound: str = "published"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry."""
        published = 2.0 * math.sqrt(self.batch * (self.batch + 1.0))
        return self.deviation(math.sqrt(2.0) if self.bound == "contraction" else published)

    @property
    def unit_rows(self) -> bool:
        """For the bound of docs/proofs.md, Lemma 2."""
        return self.bound == "contraction"

    def check(self, known: Known) -> None:
        """Refuse settings out of range, and what the bound does not cover."""
        super().check(known)
        if self.sampling == "poisson":
            raise RequestError(
                "seq-dp-scd with sampling = 'poisson' is refused: its noise bounds a batch of at most L records, "
                "and a Poisson batch can have more; take sampling fixed or shuffled, or dp-scd"
            )
        if self.unit_rows and not known.unit:
            raise RequestError(
                "seq-dp-scd with bound = 'contraction' needs rows of norm 1: scale the rows, or take the "
                "published bound"
            )

    def event(self, known: Known) -> Event:
        """Theorem 12: released dual variables tell who is in a batch."""
        return self.booked(known, "shuffled" if self.sampling == "shuffled" else "shown")

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Eq. (50)."""
        from admmnet.holder.series import kernels

        sigma, dual, v = self.sigma, np.zeros(problem.records), np.zeros(problem.features)
        yield (progress := SimpleNamespace(step=0, v=v, dual=dual))
        rows, code = kernels.store(problem.X), kernels.CODES[problem.loss.name]
        weights, margin = weights_of(problem, 1, self.clip), self.logistic_margin
        settings = self.sampling, problem.records, self.batch, self.steps
        for progress.step, chosen in enumerate(draw_batches(*settings, rngs.batches, ordered=True), 1):
            before, start = dual[chosen], v.copy()
            kernels.sequential_batch(rows, chosen, problem.y, *weights, dual, v, problem.scale, code, margin)
            dual[chosen] = before + with_noise(dual[chosen] - before, sigma, rngs.noise)
            v[:] = start + with_noise(v - start, sigma, rngs.noise)
            yield progress


@measurement
@dataclass(frozen=True, eq=False)
class PrimalSteps(BatchSeries):
    """primalDP-SCD from theta = 0 and v = X theta = 0, on columns scaled to norm 1; an epoch's answer is theta.

    Algorithm 2 of Damaskinos et al. 2021, (51), (52). Each feature must have norm at most 1 over all records. Scaling
    columns to that end depends on the records, and no figure covers it: whoever asks must have declared it.
    The progress has theta (d,) and scores v (N,) of the scaled columns, each with noise of its own, and their norms.

    Each step draws L coordinates (`draw_batches`, fixed, over d), then from the noise's stream
    ``standard_normal(L)`` for theta and ``standard_normal(N)`` for v. Without noise nothing is drawn.

    Parameters
    ----------
    batch : int
        L, coordinates a step, 1 to d.
    clip : float
        C, the longest step of a coordinate.
    noise_multiplier : float
        sigma; the noise has standard deviation 2 sigma C sqrt(L (L + 1)). Every record is in every step, so
        there is no subsampling to account for.
    steps : int
        T.
    """

    regularisation: float
    batch: int
    clip: float
    noise_multiplier: float
    steps: int
    sampling = "fixed"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry."""
        return self.deviation(2.0 * math.sqrt(self.batch * (self.batch + 1.0)))

    def check(self, known: Known) -> None:
        """Refuse the hinge loss, settings out of range, and private records whose owner does not accept the scaling."""
        if not (known.simulated or known.dependent):
            raise RequestError(
                "primal-dp-scd scales columns by norms over all records, which no cost covers: open their holder with "
                "dependent = True to accept it"
            )
        if not known.loss.curvature_bound() < math.inf:
            raise RequestError(
                f"primal-dp-scd does not take the {known.loss.name} loss: its step needs a bound on the second "
                "derivative; choose squared or logistic"
            )
        super().check(known)

    def event(self, known: Known) -> Event:
        """Every record is in every step."""
        if self.noise_multiplier == 0.0:
            return Unprotected()
        return SubsampledGaussian(self.noise_multiplier, 1.0, self.steps, "poisson")

    def drawn_from(self, known: Known) -> tuple[int, str]:
        """Coordinates."""
        return known.width, "features"

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Eqs. (51), (52)."""
        loss, weight, sigma = problem.loss, self.regularisation, self.sigma
        theta, v = np.zeros(problem.features), np.zeros(problem.records)
        scales = np.maximum(np.sqrt(squared_norms(problem.X, axis=0)), 1e-300) * (1.0 + 1e-12)
        yield (progress := SimpleNamespace(step=0, theta=theta, v=v, scales=scales))
        across = features_as_rows(problem.X, progress.scales)
        bend = self.batch * loss.curvature_bound() / problem.records * squared_norms(across) + weight
        settings = self.sampling, problem.features, self.batch, self.steps
        for progress.step, chosen in enumerate(draw_batches(*settings, rngs.batches), 1):
            rows = across[chosen]
            pull = rows @ loss.derivative(v, problem.y) / problem.records
            zeta = -(pull + weight * theta[chosen]) / bend[chosen]
            zeta = np.minimum(np.maximum(zeta, -self.clip), self.clip)
            total = np.asarray(zeta @ rows)
            theta[chosen] += with_noise(zeta, sigma, rngs.noise)
            v += with_noise(total, sigma, rngs.noise)
            yield progress

    def model(self, progress: Any) -> Vector:
        """Theta of the columns as they were."""
        return np.asarray(progress.theta / progress.scales)


def features_as_rows(X: Features, scales: Vector) -> Features:
    """Scaled columns of X as rows, shape (d, N): a step then reads whole runs of memory."""
    if is_sparse(X):
        return X.multiply(1.0 / scales).tocsr().T.tocsr()
    return np.ascontiguousarray((np.asarray(X) / scales).T)
