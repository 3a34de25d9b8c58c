"""A series: steps of a single-site method, answered an epoch at a time and paid for by one event before the first.

What the event covers is stated for all steps together (docs/proofs.md, Theorems 10, 12, 13): the first answer charges
it, further ones up to the last step cost nothing, and after that there are none. What an epoch starts from is kept
behind the door; an agent without it, as one that resumes a private run, has paid for nothing and begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from admmnet.holder.answers import Measurement
from admmnet.holder.known import Known
from admmnet.holder.problem import Problem
from admmnet.holder.rows import Features
from admmnet.holder.secrets import Secret
from admmnet.holder.series.batches import SAMPLINGS, steps_per_epoch
from admmnet.holder.series.checks import check_choice, check_count, check_noise
from admmnet.privacy.events import Event, GammaNormVector, SubsampledGaussian, Unprotected
from admmnet.privacy.mechanisms import round_to_grid
from admmnet.rng import Purpose
from admmnet.solvers.losses import Loss
from admmnet.types import Vector


class Rngs(NamedTuple):
    """Randomness of batches and orders, and of noise."""

    batches: np.random.Generator
    noise: np.random.Generator


class Series(Measurement):
    """Base of the series: frozen dataclasses of public settings, of which ``regularisation`` is lambda.

    The fields of what ``start`` returns are all that ``advance`` goes on from, at any step.
    """

    regularisation: float

    @property
    def key(self) -> str:
        """Name of the series: all its settings."""
        return repr(self)

    @property
    def unit_rows(self) -> bool:
        """Whether its bound needs rows of norm 1: what its holder must check."""
        return False

    @classmethod
    def in_range(cls, name: str, value: Any) -> bool:
        """``check`` decides, which knows the records' number and says what is allowed."""
        return True

    def check(self, known: Known) -> None:
        """Refuse settings out of range, naming the setting."""
        raise NotImplementedError

    def event(self, known: Known) -> Event:
        """What all steps together cost."""
        raise NotImplementedError

    def length(self, known: Known) -> int:
        """Steps in an epoch."""
        raise NotImplementedError

    def start(self, problem: Problem) -> Any:
        """``SeriesProgress`` before the first step."""
        raise NotImplementedError

    def advance(self, problem: Problem, progress: Any, rngs: Rngs) -> Iterator[None]:
        """Take the steps that are left, yielding after each."""
        raise NotImplementedError

    def model(self, progress: Any) -> Vector:
        """What is released: a vector of its own, shape (d,)."""
        raise NotImplementedError

    def figures(self, progress: Any) -> Mapping[str, float]:
        """Diagnostics of simulations: computed from records, covered by nothing."""
        return {}

    def problem(self, X: Features, y: Vector, loss: Loss) -> Problem:
        """Records as the steps compute with them."""
        return Problem.of(X, y, loss, self.regularisation)

    def within(self, known: Known) -> Self:
        """As it is: no input is another agent's."""
        self.check(known)
        return self

    def cost(self, known: Known) -> tuple[Event, ...]:
        """One event for all epochs."""
        return () if self.key in known.held else (self.event(known),)

    def carry_out(self, secret: Secret, known: Known) -> Vector | None:
        """Take the steps of one epoch; no once there are none."""
        key = self.key
        if key not in secret.running:
            problem = self.problem(*secret.records, known.loss)
            if key not in secret.kept:
                secret.kept[key] = self.start(problem)
            rngs = Rngs(secret.streams[Purpose.BATCH], secret.streams[Purpose.OBJECTIVE])
            secret.running[key] = self.advance(problem, secret.kept[key], rngs)
        progress, length = secret.kept[key], self.length(known)
        before = progress.step
        with np.errstate(over="ignore", invalid="ignore"):  # the model tells
            for _ in secret.running[key]:
                if progress.step % length == 0:
                    break
        return None if progress.step == before else self.model(progress)


class BatchSeries(Series):
    """Base of series whose steps have Gaussian noise on batches.

    Parameters
    ----------
    batch : int
        L, the nominal number of records in a step, in every divisor; the realised number plays no part.
    clip : float
        C, the most that a record moves a step.
    noise_multiplier : float
        sigma; 0 for a run without privacy.
    steps : int
        T.
    sampling : {"poisson", "fixed", "shuffled"}
        How batches arise.
    """

    batch: int
    clip: float
    noise_multiplier: float
    steps: int
    sampling: str

    def check(self, known: Known) -> None:
        """Refuse settings out of range."""
        check_count("batch", self.batch, known.records, of="the number of records")
        check_count("steps", self.steps)
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_noise(self.noise_multiplier, self.clip)

    def length(self, known: Known) -> int:
        """N / L, rounded up."""
        return steps_per_epoch(known.records, self.batch)

    def deviation(self, factor: float) -> float:
        """Standard deviation of noise that hides ``factor`` C, 0 without noise."""
        return self.noise_multiplier * factor * self.clip if self.noise_multiplier else 0.0

    def booked(self, known: Known, sampling: str) -> Event:
        """Event of all steps, for batches that prove what ``sampling`` says."""
        if self.noise_multiplier == 0.0:
            return Unprotected()
        # under replace-one a sum moves by 2 C: the event's noise is relative to that
        relative = self.noise_multiplier / 2.0 if sampling == "fixed" else self.noise_multiplier
        return SubsampledGaussian(relative, self.batch / known.records, self.steps, sampling)


def pure_event(epsilon: float, width: int) -> Event:
    """Event of a sum of gradients of norm at most 1 with noise of density ~ exp(-(epsilon/2) ||z||): Theorem 13."""
    return GammaNormVector(2.0, 0.5 * epsilon, width) if epsilon < math.inf else Unprotected()


def with_noise(x: Vector, sigma: float, rng: np.random.Generator) -> Vector:
    """Return x + N(0, sigma^2 I), rounded to the grid of released vectors; x itself if sigma is 0."""
    if sigma == 0.0:
        return x
    return round_to_grid(x + sigma * rng.standard_normal(x.shape), sigma)
