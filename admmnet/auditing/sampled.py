"""Noisy sums over Poisson batches, the model of every epoch seen: dp-sgd and dp-scd as mechanisms to audit.

The relation is zero-out: the canary, of norm 1, is a row of zeros in world 0, and so are all other records. Batches
are hidden; the score is the logarithm of the likelihood ratio of what is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import stats

from admmnet.auditing.audit import Reading, Trial, World
from admmnet.auditing.canary import answered, door_of, vector_of
from admmnet.holder import Ask
from admmnet.holder.series import SINGLE_SITE_LOSSES, DualSteps, GradientSteps
from admmnet.privacy import subsampled
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.events import SubsampledGaussian
from admmnet.solvers.losses import Loss
from admmnet.types import Vector

RECORDS, CLIP, LEARNING_RATE = 40, 0.02, 0.1
"""N; C, small enough that the canary is clipped in every step; eta of dp-sgd."""


@dataclass(frozen=True)
class SampledSteps:
    """A run of dp-sgd or dp-scd."""

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
    def sigma(self) -> float:
        """Calibrated noise multiplier."""
        return subsampled.noise_multiplier(self.epsilon, self.delta, self.rate, self.steps, "poisson")

    @cached_property
    def budget(self) -> Budget:
        """For all steps."""
        event = SubsampledGaussian(self.sigma, self.rate, self.steps, "poisson")
        return Budget.for_plan(self.epsilon, self.delta, "proven", Totals.of([(event, 1)], "proven"))

    @property
    def epoch(self) -> int:
        """Steps in an epoch."""
        return math.ceil(1.0 / self.rate)

    @cached_property
    def coins(self) -> tuple[Vector, Vector]:
        """Numbers of batches of an epoch that the canary may be in, and the logarithms of their probabilities."""
        heads = np.arange(self.epoch + 1.0)
        return heads, np.asarray(stats.binom.logpmf(heads, self.epoch, self.rate))

    def series(self) -> tuple[GradientSteps | DualSteps, Loss, float]:
        """Measurement, its loss, and by how much a step with the canary moves the model."""
        batch = round(self.rate * RECORDS)
        if self.algorithm == "dp-sgd":
            # a regulariser that shrinks nothing
            sgd = GradientSteps(1e-12, batch, LEARNING_RATE, self.steps, "poisson", CLIP, self.sigma)
            return sgd, SINGLE_SITE_LOSSES["logistic"], LEARNING_RATE * CLIP / batch
        # one so strong that what is learnt hardly moves the scores
        scd = DualSteps(2.5, batch, CLIP, self.sigma, self.steps)
        return scd, SINGLE_SITE_LOSSES["squared"], CLIP / (2.5 * RECORDS)

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the logarithm of the likelihood ratio of all models that are seen."""
        series, loss, unit = self.series()
        rows = np.zeros((RECORDS, 2))
        rows[0, 0] = world
        at, ledger = door_of(rows, self.budget, rng, "published", loss, "zero-out")
        heads, chances = self.coins
        score = before = 0.0
        for _ in range(self.steps // self.epoch):
            now = float(vector_of(answered(at, Ask(series)))[0])
            # N(k, epoch sigma^2) where the canary is in k batches
            moved, before = (now - before) / unit, now
            ratio = heads * (moved - 0.5 * heads) / (self.epoch * self.sigma**2)
            score += float(np.logaddexp.reduce(chances + ratio))
        return Trial(score, ledger.totals)
