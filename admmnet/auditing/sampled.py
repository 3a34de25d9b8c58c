"""Noisy sums over Poisson batches, all steps of a run seen: dp-sgd and dp-scd as mechanisms to audit.

The relation is zero-out: the canary, of norm 1, is a row of zeros in world 0, and so are all other records. Batches
are hidden; the score is the logarithm of the likelihood ratio of what is seen in every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from admmnet.auditing.audit import Reading, Trial, World
from admmnet.holder.holder import SimulatedHolder
from admmnet.holder.series import DualSteps, GradientSteps, Problem, Series
from admmnet.losses import get_loss
from admmnet.privacy import subsampled
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import SubsampledGaussian
from admmnet.types import Vector

RECORDS, CLIP, STRENGTH = 40, 0.02, 2.5
"""N; C, small enough that the canary is clipped in every step; lambda."""
LEARNING_RATE = 0.1


@dataclass(frozen=True)
class SampledSteps:
    """A run of dp-sgd or dp-scd.

    Parameters
    ----------
    algorithm : {"dp-sgd", "dp-scd"}
        Which of them.
    rate : float
        L/N. With 1 every batch holds all records, and the scores are normal.
    steps : int
        T.
    epsilon, delta : float
        What the run is calibrated to.
    """

    algorithm: Literal["dp-sgd", "dp-scd"]
    rate: float = 0.5
    steps: int = 12
    epsilon: float = 4.0
    delta: float = 1e-5

    @property
    def name(self) -> str:
        """Algorithm, steps and rate."""
        return f"{self.algorithm}, {self.steps} steps, rate {self.rate:g}"

    @property
    def reading(self) -> Reading:
        """Gaussian where nothing is sampled."""
        return "scores" if self.rate == 1.0 else "none"

    @cached_property
    def spent(self) -> Totals:
        """What the run charges."""
        found = subsampled.noise_multiplier(self.epsilon, self.delta, self.rate, self.steps, "poisson")
        return Totals.of([(SubsampledGaussian(found, self.rate, self.steps, "poisson"), 1)], "published")

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the logarithm of the likelihood ratio of all steps."""
        event = self.spent.alone
        assert isinstance(event, SubsampledGaussian)
        moves = self._moves(world, event.noise_multiplier, rng)
        ratio = (moves - 0.5) / event.noise_multiplier**2
        with np.errstate(divide="ignore"):
            total = np.logaddexp(np.log1p(-self.rate), math.log(self.rate) + ratio)
        return Trial(float(np.sum(total)), self.spent)

    def _moves(self, world: World, sigma: float, rng: np.random.Generator) -> Vector:
        """Noisy sums of all steps along the canary, over C: N(0, sigma^2), or N(1, sigma^2) where it is drawn."""
        seen, before = list[float](), 0.0
        batch, problem = round(self.rate * RECORDS), _problem(world, self.algorithm)

        def sgd(progress: Any) -> None:
            nonlocal before
            now = float(progress.theta[0])
            kept = (1.0 - LEARNING_RATE * STRENGTH) * before
            seen.append((now - kept) * batch / (LEARNING_RATE * CLIP))
            before = now

        def scd(progress: Any) -> None:
            nonlocal before
            now = float(progress.v[0])
            seen.append((now - before) / CLIP)
            before = now

        series: Series
        if self.algorithm == "dp-sgd":
            noise = CLIP, sigma
            series = GradientSteps(STRENGTH, batch, LEARNING_RATE, self.steps, "poisson", *noise)
            series.run(problem, rng, rng, sgd)
        else:
            series = DualSteps(STRENGTH, batch, CLIP, sigma, self.steps)
            series.run(problem, rng, rng, scd)
        return np.array(seen)


def _problem(world: World, algorithm: str) -> Problem:
    rows = np.zeros((RECORDS, 2))
    rows[0, 0] = world
    loss = get_loss("logistic" if algorithm == "dp-sgd" else "squared")
    return SimulatedHolder(rows, np.ones(RECORDS)).problem(loss, STRENGTH)
