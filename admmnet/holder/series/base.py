"""A series: steps of a single-site method, answered an epoch at a time and paid for by one event before the first.

What the event covers is stated for all steps together (docs/proofs.md, Theorems 10, 12, 13): the first answer charges
it, further ones up to the last step cost nothing, and after that there are none. The steps that are left are kept
behind the door; an agent without them, as one that resumes a private run, has paid for nothing and begins anew.

L is the nominal batch (docs/methods.md, "Batches"): Poisson batches have L records on average, and the last part of an
epoch's shuffled order may be shorter; every divisor stays L.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.holder.answers import Known, Measurement
from admmnet.holder.holder import Secret
from admmnet.holder.problem import Problem
from admmnet.privacy.events import Event, GammaNormVector, SubsampledGaussian, Unprotected
from admmnet.privacy.mechanisms import round_to_grid
from admmnet.rng import Purpose
from admmnet.types import Vector

CHOICES = {
    "sampling": ("poisson", "fixed", "shuffled"),
    "bound": ("published", "contraction"),
    "schedule": ("sqrt", "inverse", "constant"),
    "constant": ("tight", "poster"),
}
"""Words that settings may be."""
LEAST, MOST = 1e-100, 1e100
"""Range of settings that scale steps or noise: beyond it steps overflow for some records and not for others, or noise
underflows."""
EDGES = {"noise_multiplier": 0.0, "sigma": 0.0, "clip": math.inf}
"""What some may be besides: without noise, or without a bound."""
RecordIndices = NDArray[np.int64]


def steps_per_epoch(records: int, batch: int) -> int:
    """Steps that make an epoch, N / L rounded up: the number of parts of a shuffled order."""
    return math.ceil(records / batch)


def draw_batches(
    sampling: str, records: int, batch: int, steps: int, rng: np.random.Generator, *, ordered: bool = False
) -> Iterator[RecordIndices]:
    """Yield the records of each step.

    What is drawn, in this order:

    - poisson, each step: ``k = rng.binomial(N, L / N)``, then ``rng.choice(N, k, replace=False,
      shuffle=False)``, sorted. That is the law of N independent coins of probability L / N.
    - fixed, each step: ``rng.choice(N, L, replace=False, shuffle=False)``, sorted; if `ordered`,
      ``shuffle=True`` and not sorted.
    - shuffled, at the start of each epoch: ``rng.permutation(N)``, cut into parts of L.

    ``steps`` is the number of batches of the whole series, ``rng`` for the batches alone; ``ordered`` says whether the
    order within a batch matters, so that it must be random. Records of a batch are distinct; a Poisson
    batch may be empty.
    """
    parts, order = steps_per_epoch(records, batch), np.empty(0, dtype=np.int64)
    for step in range(steps):
        part = step % parts
        if sampling == "shuffled":
            order = rng.permutation(records) if part == 0 else order
            yield order[part * batch : (part + 1) * batch]
            continue
        size = int(rng.binomial(records, batch / records)) if sampling == "poisson" else batch
        chosen = rng.choice(records, size, replace=False, shuffle=ordered)
        if not ordered:
            chosen.sort()  # neighbours in memory; sums do not depend on the order
        yield chosen


class Rngs(NamedTuple):
    """Randomness of batches and orders, and of noise."""

    batches: np.random.Generator
    noise: np.random.Generator


class Series(Measurement):
    """Base of the series: frozen dataclasses of public settings, of which ``regularisation`` is lambda."""

    regularisation: float
    unit_rows: ClassVar[Any] = False
    """Whether its bound needs rows of norm 1: what its holder must check."""

    @property
    def key(self) -> str:
        """Name of the series: all its settings, arrays by their bytes, whose print-out may be cut short."""
        fields = ((name, one.tobytes() if isinstance(one, np.ndarray) else one) for name, one in vars(self).items())
        return repr((type(self).__name__, *fields))

    @classmethod
    def in_range(cls, name: str, value: Any) -> bool:
        """``check`` decides, which knows the records' number and says what is allowed."""
        return True

    def drawn_from(self, known: Known) -> tuple[int, str]:
        """How many there are of what a batch is drawn from, and its name."""
        return known.records, "records"

    def check(self, known: Known) -> None:
        """Refuse settings out of range, naming the setting."""
        most, what = self.drawn_from(known)
        for name, value in vars(self).items():
            if name in CHOICES and value not in CHOICES[name]:
                raise RequestError(f"{name} = {value!r} is not known; choose one of {', '.join(CHOICES[name])}")
            edge = EDGES.get(name)
            if isinstance(value, float) and not (LEAST <= value <= MOST or value == edge):  # nan fails, too
                more = "" if edge is None else f", or be {edge:g} in a run without privacy"
                raise RequestError(
                    f"{name} = {value!r} is not allowed: it must lie between {LEAST:g} and {MOST:g}{more}"
                )
            if type(value) is int and not 1 <= value <= (most if name == "batch" else math.inf):
                bound = f"from 1 to {most} (the number of {what})" if name == "batch" else "of at least 1"
                raise RequestError(f"{name} = {value!r} is not allowed: it must be a whole number {bound}")

    def event(self, known: Known) -> Event:
        """What all steps together cost."""
        raise NotImplementedError

    def length(self, known: Known) -> float:
        """Steps in an epoch; by default it has all."""
        return math.inf

    def advance(self, problem: Problem, rngs: Rngs) -> Iterator[Any]:
        """Take all steps; before the first and after each yield the progress, one namespace, whose ``step`` counts."""
        raise NotImplementedError

    def model(self, progress: Any) -> Vector:
        """What is released: a vector of its own, shape (d,)."""
        raise NotImplementedError

    def figures(self, progress: Any) -> Mapping[str, float]:
        """Diagnostics of simulations: computed from records, covered by nothing."""
        return {}

    def within(self, known: Known) -> Self:
        """As it is: no input is another agent's."""
        self.check(known)
        return self

    def cost(self, known: Known) -> tuple[Event, ...]:
        """One event for all epochs."""
        return () if self.key in known.held else (self.event(known),)

    def carry_out(self, secret: Secret, known: Known) -> Vector | None:
        """Take the steps of one epoch; no once there are none."""
        with np.errstate(over="ignore", invalid="ignore"):  # the model tells
            if self.key not in secret.held:
                rngs = Rngs(secret.streams[Purpose.BATCH], secret.streams[Purpose.OBJECTIVE])
                left = self.advance(Problem(*secret.records, known.loss, self.regularisation), rngs)
                secret.held[self.key] = next(left), left
            progress, left = secret.held[self.key]
            before, length = progress.step, self.length(known)
            for _ in left:
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
        """Refuse settings out of range, and noise that an infinite clip makes none."""
        super().check(known)
        if self.noise_multiplier and self.clip == math.inf:
            raise RequestError("clip = inf bounds nothing, so no noise can hide a record: give a finite clip")

    def length(self, known: Known) -> int:
        """N / L, rounded up."""
        return steps_per_epoch(self.drawn_from(known)[0], self.batch)

    def deviation(self, factor: float) -> float:
        """Standard deviation of noise that hides ``factor`` C, 0 without noise."""
        return self.noise_multiplier * factor * self.clip if self.noise_multiplier else 0.0

    def booked(self, known: Known, sampling: Any) -> Event:
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


Step = Callable[[Vector, Vector, Vector, Vector], Vector]
TINY = 1e-2
"""Default distance that the logistic Newton step keeps from the ends of (0, 1)."""
_LEAST_WEIGHT = 1e-150  # of a null row, whose step is not used: see `coordinate.weights_of`


# Steps along dual coordinates take, for the records of a batch, the dual variables alpha, the labels y, the scores
# s = x . v / (lambda N) and the weights w = L ||x||^2 / (lambda N), with the nominal L. Constraints are enforced before
# the step; what is added to alpha is the step itself, so that alpha and v stay consistent. `kernels` compiles them.


def ridge_step(alpha: Vector, y: Vector, s: Vector, w: Vector) -> Vector:
    """Exact step for half the squared residual, docs/methods.md (43)."""
    return (y - alpha - s) / (1.0 + w)


def hinge_step(alpha: Vector, y: Vector, s: Vector, w: Vector) -> Vector:
    """Exact step for the hinge loss from the projected alpha, docs/methods.md (44)."""
    p = np.minimum(np.maximum(y * alpha, 0.0), 1.0)
    target = p + (1.0 - y * s) / np.maximum(w, _LEAST_WEIGHT)
    step: Vector = y * (np.minimum(np.maximum(target, 0.0), 1.0) - p)
    return step


def logistic_step(alpha: Vector, y: Vector, s: Vector, w: Vector, tiny: float = TINY) -> Vector:
    """One Newton step for the logistic loss, at y alpha clipped to [tiny, 1 - tiny], docs/methods.md (46)."""
    p = np.minimum(np.maximum(y * alpha, tiny), 1.0 - tiny)
    rest = 1.0 - p
    return -(y * np.log(p / rest) + s) / (1.0 / (p * rest) + w)


def batch_step(loss: str, tiny: float) -> Step:
    """Step of a loss, as a function of (alpha, y, s, w)."""
    if loss == "squared":
        return ridge_step
    if loss == "hinge":
        return hinge_step
    return lambda alpha, y, s, w: logistic_step(alpha, y, s, w, tiny)
