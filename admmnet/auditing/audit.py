"""What an attacker learns of a mechanism in trials: a lower bound on epsilon, beside what is proven.

Two worlds differ in one record, the canary. A trial runs the mechanism in one of them and reduces all that is seen
to a score; how well scores tell the worlds apart bounds epsilon from below (docs/proofs.md, "Auditing"). ``out`` are
the scores of trials without the canary, ``inside`` those with it. Every bound is one-sided: it exceeds the true value
with probability at most ``error``, whatever the scores' law (``event_bound``), or for normal scores of one variance
(``mu_of_scores``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from admmnet.errors import RunError
from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.types import Vector

World = Literal[0, 1]
"""0 without the canary, 1 with it."""
Reading = Literal["none", "scores", "answers"]
"""How mu is read: from scores that are normal, of one variance; from an event, where all that is booked is Gaussian."""
LEAST_TRIALS = 20
LARGEST = 1e150
"""Size of a score whose square is a number."""


@dataclass(frozen=True)
class Event:
    """What is tested: scores of at least a threshold, or below it."""

    threshold: float
    above: bool  # whether the event is a score of at least the threshold
    inside: bool  # whether it is the likelier with the canary: its probability there is the one in the numerator

    def count(self, scores: Vector) -> int:
        """Number of scores in the event."""
        reached = int(np.count_nonzero(scores >= self.threshold))
        return reached if self.above else len(scores) - reached


Gain = Callable[[Any, Any], Any]
"""What an event shows, from a lower bound on its probability in one world and an upper one in the other."""


def epsilon_gain(delta: float) -> Gain:
    """Epsilon >= ln((P(E) - delta)/Q(E)), because P(E) <= e^epsilon Q(E) + delta with either world as P."""

    def gain(low: Any, high: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(low - delta, 0.0)) - np.log(high)

    return gain


def mu_gain(low: Any, high: Any) -> Any:
    """Mu >= Phi^-1(P(E)) - Phi^-1(Q(E)) for what costs no more than N(mu, 1) against N(0, 1), eq. (P5).

    Dong, Roth, Su 2022, Gaussian differential privacy, sec. 2.2.
    """
    with np.errstate(invalid="ignore"):
        found = stats.norm.ppf(low) - stats.norm.ppf(high)
    return np.where(np.isnan(found), -np.inf, found)


def clopper_pearson(count: Any, trials: int, error: float) -> tuple[Any, Any]:
    """Lower and upper bound on a probability from binomial counts, each wrong with probability at most ``error``."""
    count = np.asarray(count)
    missed = trials - count
    low = np.where(count > 0, stats.beta.ppf(error, np.maximum(count, 1), missed + 1), 0.0)
    high = np.where(missed > 0, stats.beta.isf(error, count + 1, np.maximum(missed, 1)), 1.0)
    return low, high


def choose_event(out: Vector, inside: Vector, gain: Gain, error: float) -> Event:
    """Event that shows most on these scores, which must not be tested again: it fits them best.

    Thresholds are the scores themselves; both sides of each are tried, and either world as the likelier one.
    """
    worlds = np.sort(out), np.sort(inside)
    thresholds = np.unique(np.concatenate(worlds))
    found: list[tuple[float, Event]] = []
    for above in (True, False):
        below = [np.searchsorted(scores, thresholds) for scores in worlds]
        bounds = [
            clopper_pearson(len(scores) - k if above else k, len(scores), 0.5 * error)
            for scores, k in zip(worlds, below, strict=True)
        ]
        for likelier in (0, 1):
            gains = gain(bounds[likelier][0], bounds[1 - likelier][1])
            best = int(np.argmax(gains))
            found.append((float(gains[best]), Event(float(thresholds[best]), above, bool(likelier))))
    return max(found, key=lambda one: one[0])[1]


def event_bound(event: Event, out: Vector, inside: Vector, gain: Gain, error: float) -> float:
    """Lower bound that an event shows, chosen without these scores; 0 or more.

    Both probabilities are replaced by Clopper-Pearson bounds that fail with probability error/2 each.
    """
    likelier, other = (inside, out) if event.inside else (out, inside)
    low = clopper_pearson(event.count(likelier), len(likelier), 0.5 * error)[0]
    high = clopper_pearson(event.count(other), len(other), 0.5 * error)[1]
    return max(0.0, float(gain(low, high)))


def mu_of_scores(out: Vector, inside: Vector, error: float) -> float:
    """Lower bound on mu, the shift of normal scores over their standard deviation; 0 or more.

    Shift: Student's t for two samples of one variance. Standard deviation: chi-square of the pooled sum of squares.
    Each fails with probability error/2.
    """
    n, k = len(out), len(inside)
    free = n + k - 2
    squares = float(np.sum(np.square(out - out.mean())) + np.sum(np.square(inside - inside.mean())))
    spread = math.sqrt(squares / free)
    shift = float(inside.mean() - out.mean())
    shift -= float(stats.t.isf(0.5 * error, free)) * spread * math.sqrt(1.0 / n + 1.0 / k)
    largest = math.sqrt(squares / float(stats.chi2.ppf(0.5 * error, free)))
    return max(0.0, shift / largest) if largest > 0.0 else 0.0


class Trial(NamedTuple):
    """Outcome of a trial."""

    score: float  # of all that was seen; larger with the canary
    spent: Totals  # what the mechanism has charged


@dataclass(frozen=True)
class Audit:
    """Lower bounds on epsilon from trials, each of this confidence by itself, and the epsilons that are claimed."""

    mechanism: str
    trials: int  # in each world
    delta: float  # of all epsilons here
    confidence: float
    event: Event  # what was tested: chosen on held-out trials
    lower: float  # by counting, whatever the law of the scores
    lower_gaussian: float | None  # by the Gaussian reading, eq. (P5); None where the events are not Gaussian
    proven: float  # by the proven accountant, of what the trials charged
    published: float | None  # by the published one, None where it has no figure

    @property
    def holds(self) -> bool:
        """Whether no bound exceeds what is proven: of a true claim False with probability 2 (1 - confidence)."""
        return max(self.lower, self.lower_gaussian or 0.0) <= self.proven


class Drawn(NamedTuple):
    """Trials in one world."""

    scores: Vector  # (trials,)
    proven: float  # largest proven epsilon of what they charged
    published: float | None  # likewise; None where any has no figure

    @classmethod
    def joined(cls, parts: Sequence[Drawn]) -> Drawn:
        """Trials of several parts, in their order."""
        scores = np.concatenate([part.scores for part in parts])
        return cls(scores, max(part.proven for part in parts), _largest(part.published for part in parts))


def draw(mechanism: Any, world: World, seed: int, trials: Sequence[int], delta: float) -> Drawn:
    """Trials of these places: each depends on seed, world and its place alone.

    A ``mechanism`` has a name and a method ``draw``, which makes a ``Trial`` in a world with fresh noise.
    """
    drawn = [mechanism.draw(world, np.random.default_rng((seed, world, k))) for k in trials]
    spent = list({id(trial.spent): trial.spent for trial in drawn}.values())  # equal histories share an object
    return Drawn(
        readable(mechanism.name, np.array([trial.score for trial in drawn])),
        max(totals.epsilon_proven(delta) for totals in spent),
        _largest(totals.epsilon_published(delta) for totals in spent),
    )


def _largest(claims: Iterable[float | None]) -> float | None:
    """None where any has no figure."""
    known = list(claims)
    return None if None in known else max(claim for claim in known if claim is not None)


def readable(name: str, scores: Vector) -> Vector:
    """Scores that bounds can be read from.

    RunError if one is no number, or too large for its square to be one: it would be in no event, and counted against
    all.
    """
    lost = scores[~(np.abs(scores) <= LARGEST)]  # nan, too
    if len(lost):
        raise RunError(
            f"{name}: {len(lost)} of {len(scores)} trials have no score, the first is {lost[0]:g}: its numbers "
            "overflowed, so that nothing can be read from them; choose settings that keep them small, such as a "
            "smaller learning rate"
        )
    return scores


def judge(name: str, reading: Reading, out: Drawn, inside: Drawn, delta: float, confidence: float) -> Audit:
    """Bounds of trials without the canary and with it, each wrong with probability 1 - ``confidence``.

    The tested event is chosen on the first quarter of the trials, which are not tested.
    """
    trials, error = len(out.scores), 1.0 - confidence
    first = max(1, round(0.25 * trials))

    def counted(gain: Gain) -> tuple[Event, float]:
        chosen = choose_event(out.scores[:first], inside.scores[:first], gain, error)
        return chosen, event_bound(chosen, out.scores[first:], inside.scores[first:], gain, error)

    event, lower = counted(epsilon_gain(delta))
    gaussian: float | None = None
    if reading != "none":  # of scores nothing is chosen, so that all trials count
        mu = counted(mu_gain)[1] if reading == "answers" else mu_of_scores(out.scores, inside.scores, error)
        gaussian = gaussian_epsilon(mu, delta) if mu > 0.0 else 0.0
    _, proven, published = Drawn.joined([out, inside])
    return Audit(name, trials, delta, confidence, event, lower, gaussian, proven, published)
