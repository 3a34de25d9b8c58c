"""Lower confidence bounds on epsilon and mu from scores of trials in two worlds: pure functions.

A score is one number computed from all that was seen in a trial. ``out`` are the scores of trials without the
canary, ``inside`` those with it. Every bound is one-sided: it exceeds the true value with probability at most
``error``: whatever the scores' law (``event_bound``), or for normal scores of one variance (``mu_of_scores``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from admmnet.types import Vector


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
