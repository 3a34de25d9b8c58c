"""DP-SCD: mini-batch dual coordinate descent with clipped steps and Gaussian noise.

By default the dual variables are private: they never leave, so noise goes on v alone, docs/methods.md (48),
docs/proofs.md Theorem 10. `dual_noise` is the paper's Algorithm 1 (Damaskinos et al. 2021), (49).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import measurement
from admmnet.holder.known import Known
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.rows import Features
from admmnet.holder.series.base import BatchSeries, Rngs, with_noise
from admmnet.holder.series.batches import RecordIndices, SeriesProgress, draw_batches
from admmnet.holder.series.checks import check_choice, check_positive
from admmnet.holder.series.steps import TINY, Step, batch_step, step_limits
from admmnet.privacy.events import Event
from admmnet.types import Vector


@dataclass(slots=True, kw_only=True)
class DualProgress(SeriesProgress):
    """Shared vector v (d,) and dual variables alpha (N,), which **no** guarantee covers where they are private."""

    v: Vector = field(repr=False)
    dual: Vector = field(repr=False)


class Weights(NamedTuple):
    """What a step needs to know of each record, all of shape (N,): w of `steps`, and the longest step."""

    curvature: Vector
    limit: Vector

    @staticmethod
    def of(problem: Problem, batch: float, clip: float) -> Weights:
        """Weights with the nominal L and the clip C."""
        squares = problem.squared_norms
        return Weights(squares * (batch / problem.scale), step_limits(squares, clip))


def batch_update(
    problem: Problem, step: Step, weights: Weights, batch: RecordIndices, dual: Vector, v: Vector
) -> tuple[Vector, Vector]:
    """Clipped steps of the batch's records and their sum in v, before noise: docs/methods.md (43)-(47).

    ``dual`` (N,) and ``v`` (d,) are the state before the step, and not changed. Returns zeta_j, shape (b,), at most C
    in size, and the sum of zeta_j x_j, shape (d,).
    """
    rows: Features = problem.X[batch]
    scores = np.asarray(rows @ v)
    scores /= problem.scale
    zeta = step(dual[batch], problem.y[batch], scores, weights.curvature[batch])
    limit = weights.limit[batch]
    zeta = np.minimum(np.maximum(zeta, -limit), limit)  # zeta / max(1, |zeta| / C), exactly C where it is cut
    return zeta, np.asarray(zeta @ rows)


@dataclass(frozen=True, eq=False)
class DualSeries(BatchSeries):
    """Base of the series over dual variables, from alpha = 0 and v = 0; an epoch's answer is v / (lambda N).

    ``tiny`` is that of the logistic step, in (0, 0.5).
    """

    regularisation: float
    batch: int
    clip: float
    noise_multiplier: float
    steps: int
    sampling: str = "poisson"
    tiny: float = TINY

    def check(self, known: Known) -> None:
        """Refuse settings out of range, and losses without a step."""
        super().check(known)
        check_step(known, self.regularisation, self.tiny)

    def start(self, problem: Problem) -> DualProgress:
        """Everything at zero."""
        return DualProgress(v=np.zeros(problem.features), dual=np.zeros(problem.records))

    def model(self, progress: DualProgress) -> Vector:
        """V / (lambda N)."""
        return progress.v / (self.regularisation * len(progress.dual))


@measurement
@dataclass(frozen=True, eq=False)
class DualSteps(DualSeries):
    """DP-SCD.

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

    def advance(self, problem: Problem, progress: DualProgress, rngs: Rngs) -> Iterator[None]:
        """Eqs. (48), (49)."""
        sigma, dual, v = self.sigma, progress.dual, progress.v
        step, weights = batch_step(problem.loss.name, self.tiny), Weights.of(problem, self.batch, self.clip)
        settings = self.sampling, problem.records, self.batch, self.steps
        for chosen in draw_batches(*settings, rngs.batches, progress=progress):
            zeta, total = batch_update(problem, step, weights, chosen, dual, v)
            if self.dual_noise:
                zeta = with_noise(zeta, sigma, rngs.noise)
            dual[chosen] += zeta
            v += with_noise(total, sigma, rngs.noise)
            yield


def check_step(known: Known, regularisation: float, tiny: float = TINY) -> None:
    """Refuse a loss that has no dual step here, and settings of the steps out of range."""
    check_positive("regularisation", regularisation)
    check_choice("loss", known.loss.name, tuple(SINGLE_SITE_LOSSES))
    if not 0.0 < tiny < 0.5:
        raise RequestError(f"tiny = {tiny!r} is not allowed: it must lie between 0 and 0.5")
