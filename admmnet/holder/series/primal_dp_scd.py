"""primalDP-SCD: batches of coordinates of theta, every record in every step. docs/methods.md (51), (52).

Algorithm 2 of Damaskinos et al. 2021. Each feature, a column of X here, must have norm at most 1 over all records.
Scaling columns to that end depends on the records, and no figure covers it: whoever asks must have declared it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import measurement
from admmnet.holder.known import Known
from admmnet.holder.problem import Problem
from admmnet.holder.rows import Features, is_sparse, squared_norms
from admmnet.holder.series.base import BatchSeries, Rngs, with_noise
from admmnet.holder.series.batches import SeriesProgress, draw_batches, steps_per_epoch
from admmnet.holder.series.checks import check_count, check_noise, check_positive
from admmnet.privacy.events import Event, SubsampledGaussian, Unprotected
from admmnet.types import Vector


@dataclass(slots=True, kw_only=True)
class PrimalProgress(SeriesProgress):
    """Model (d,) and released scores (N,) of the scaled columns, which have noise of their own; the columns' norms."""

    theta: Vector = field(repr=False)
    v: Vector = field(repr=False)
    scales: Vector = field(repr=False)


@measurement
@dataclass(frozen=True, eq=False)
class PrimalSteps(BatchSeries):
    """primalDP-SCD from theta = 0 and v = X theta = 0, on columns scaled to norm 1; an epoch's answer is theta.

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
        check_positive("regularisation", self.regularisation)
        check_count("batch", self.batch, known.width, of="the number of features")
        check_count("steps", self.steps)
        check_noise(self.noise_multiplier, self.clip)

    def event(self, known: Known) -> Event:
        """Every record is in every step."""
        if self.noise_multiplier == 0.0:
            return Unprotected()
        return SubsampledGaussian(self.noise_multiplier, 1.0, self.steps, "poisson")

    def length(self, known: Known) -> int:
        """D / L, rounded up."""
        return steps_per_epoch(known.width, self.batch)

    def start(self, problem: Problem) -> PrimalProgress:
        """Everything at zero."""
        scales = np.maximum(np.sqrt(squared_norms(problem.X, axis=0)), 1e-300) * (1.0 + 1e-12)
        return PrimalProgress(theta=np.zeros(problem.features), v=np.zeros(problem.records), scales=scales)

    def advance(self, problem: Problem, progress: PrimalProgress, rngs: Rngs) -> Iterator[None]:
        """Eqs. (51), (52)."""
        loss, weight, sigma = problem.loss, self.regularisation, self.sigma
        across, theta, v = features_as_rows(problem.X, progress.scales), progress.theta, progress.v
        bend = self.batch * loss.curvature_bound() / problem.records * squared_norms(across) + weight
        settings = "fixed", problem.features, self.batch, self.steps
        for chosen in draw_batches(*settings, rngs.batches, progress=progress):
            rows = across[chosen]
            pull = rows @ loss.derivative(v, problem.y) / problem.records
            zeta = -(pull + weight * theta[chosen]) / bend[chosen]
            zeta = np.minimum(np.maximum(zeta, -self.clip), self.clip)
            total = np.asarray(zeta @ rows)
            theta[chosen] += with_noise(zeta, sigma, rngs.noise)
            v += with_noise(total, sigma, rngs.noise)
            yield

    def model(self, progress: PrimalProgress) -> Vector:
        """Theta of the columns as they were."""
        return progress.theta / progress.scales


def features_as_rows(X: Features, scales: Vector) -> Features:
    """Scaled columns of X as rows, shape (d, N): a step then reads whole runs of memory."""
    if is_sparse(X):
        return X.multiply(1.0 / scales).tocsr().T.tocsr()
    return np.ascontiguousarray((np.asarray(X) / scales).T)
