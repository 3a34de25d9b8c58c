"""SGD and DP-SGD, with a constant learning rate: docs/methods.md (53) and (54).

A record's gradient is phi'(x . theta) x, of norm |phi'| ||x||: clipping needs no matrix of gradients. The
regulariser's gradient depends on no record and is added unclipped (Abadi et al. 2016; Damaskinos et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from admmnet.errors import RunError
from admmnet.holder.answers import Known, measurement
from admmnet.holder.problem import Problem
from admmnet.holder.series.base import BatchSeries, Rngs, draw_batches, with_noise
from admmnet.privacy.events import Event
from admmnet.solvers.radius import MOST
from admmnet.types import Vector


@measurement
@dataclass(frozen=True, eq=False)
class GradientSteps(BatchSeries):
    """SGD or DP-SGD from theta = 0; an epoch's answer is theta.

    Each step draws its batch (`draw_batches`), then ``standard_normal(d)`` from the noise's stream; without noise
    nothing is drawn from the latter. With batches of one record, fixed or shuffled, neither clip nor noise, the loop
    is compiled, needs numba, and draws for each epoch ``rng.integers(N, size=N)`` (fixed; fewer if fewer steps are
    left) or ``rng.permutation(N)`` (shuffled). Proof: docs/proofs.md, Theorems 10, 12.

    Parameters
    ----------
    batch, noise_multiplier, steps, sampling
        As of ``BatchSeries``; noise on a batch's summed gradient has standard deviation sigma C.
    learning_rate : float
        eta, positive.
    clip : float
        C, the largest norm of a record's gradient; inf for none, without noise.
    """

    regularisation: float
    batch: int
    learning_rate: float
    steps: int
    sampling: str
    clip: float = math.inf
    noise_multiplier: float = 0.0

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry of a batch's summed gradient."""
        return self.deviation(1.0)

    def event(self, known: Known) -> Event:
        """Theorem 10 or 12."""
        return self.booked(known, self.sampling)

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Eqs. (53), (54)."""
        if self.batch == 1 and self.sampling != "poisson" and self.clip == math.inf:
            yield from self._record_by_record(problem, rngs.batches)
            return
        norms, theta, sigma = np.sqrt(problem.squared_norms), np.zeros(problem.features), self.sigma
        yield (progress := SimpleNamespace(step=0, theta=theta))
        settings = self.sampling, problem.records, self.batch, self.steps
        for progress.step, chosen in enumerate(draw_batches(*settings, rngs.batches), 1):
            rows = problem.X[chosen]
            slopes = problem.loss.derivative(np.asarray(rows @ theta), problem.y[chosen])
            if self.clip < math.inf:
                slopes = slopes * (self.clip / np.maximum(np.abs(slopes) * norms[chosen], self.clip))
            total = with_noise(np.asarray(slopes @ rows), sigma, rngs.noise)
            theta -= self.learning_rate * (total / self.batch + self.regularisation * theta)
            yield progress

    def _record_by_record(self, problem: Problem, rng: np.random.Generator) -> Iterator[Any]:
        """Theta = size u."""
        from admmnet.holder.series import kernels, plain_kernels

        rows, n, code = kernels.store(problem.X), problem.records, kernels.CODES[problem.loss.name]
        u, size = np.zeros(problem.features), 1.0
        yield (progress := SimpleNamespace(step=0, theta=u))
        while progress.step < self.steps:
            left = self.steps - progress.step
            order = rng.permutation(n) if self.sampling == "shuffled" else rng.integers(n, size=min(n, left))
            order = order[:left]
            size = plain_kernels.descent_pass(
                rows, order, problem.y, u, size, self.learning_rate, self.regularisation, code
            )
            progress.step, progress.theta = progress.step + len(order), size * u
            yield progress

    def model(self, progress: Any) -> Vector:
        """Theta.

        Raises
        ------
        RunError
            The steps ran away, which the released model shows.
        """
        theta: Vector = 1.0 * progress.theta
        if not float(np.max(np.abs(theta))) <= MOST:  # nan fails, too
            raise RunError(f"gradient steps ran away at learning_rate = {self.learning_rate:g}: lower it")
        return theta
