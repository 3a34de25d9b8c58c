"""Values over seeds: means and spreads, and which differences are clear (docs/reproduction.md, "In short")."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any, Literal, NamedTuple

CHANCE = 0.05
"""How often, in both directions together, chance alone gives a difference that is called clear."""
ALIKE = 0.05
"""Relative difference of means that must be ruled out for them to be called alike."""
SAME = 1e-9
"""Relative difference up to which two means are the same number."""
LEAST = 3
"""Trials from which on a comparison tells anything."""


@dataclass(frozen=True)
class Sample:
    """Mean, sample standard deviation (0 of one run), median and number of values."""

    mean: float
    spread: float
    median: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Sample | None:
        """Sum up what is defined; None if nothing is."""
        known = [float(value) for value in values if value is not None and not math.isnan(value)]
        if not known:
            return None
        return cls(fmean(known), stdev(known) if len(known) > 1 else 0.0, median(known), len(known))

    def times(self, factor: float, start: float = 0.0) -> Sample:
        """Sample of ``start + factor * value``."""
        mean, middle = start + factor * self.mean, start + factor * self.median
        return Sample(mean, abs(factor) * self.spread, middle, self.count)


Outcome = Literal["below", "level", "alike", "above"]
Judge = Callable[[Sample, Sample], Outcome | None]
"""How the first does against the second; None where it cannot be told."""


def lower(a: Sample, b: Sample) -> Outcome | None:
    """Compare two means by Welch's t test; None for too few trials of either, and for values that are not finite."""
    parts = [s.spread**2 / s.count for s in (a, b)]
    if min(a.count, b.count) < LEAST:
        return None
    noise, freedom = math.sqrt(sum(parts)), math.inf
    if noise > 0.0:
        shares = [part / sum(parts) for part in parts]
        freedom = 1.0 / sum(share**2 / (s.count - 1) for share, s in zip(shares, (a, b), strict=True))
    return _outcome(a.mean - b.mean, noise, freedom, max(abs(a.mean), abs(b.mean)))


def paired(a: Mapping[Any, float], b: Mapping[Any, float]) -> Outcome | None:
    """Compare values of the same seeds by the paired t test; None as in ``lower``."""
    pairs = [(a[seed], b[seed]) for seed in a if seed in b]
    differences = [first - second for first, second in pairs]
    if len(differences) < LEAST or not all(map(math.isfinite, differences)):
        return None
    noise = stdev(differences) / math.sqrt(len(differences))
    size = max(abs(fmean(values)) for values in zip(*pairs, strict=True))
    return _outcome(fmean(differences), noise, len(differences) - 1.0, size)


def _outcome(difference: float, noise: float, freedom: float, size: float) -> Outcome | None:
    from scipy.special import stdtrit

    if not math.isfinite(difference + noise):
        return None
    if abs(difference) <= SAME * size:
        return "alike"
    reach = noise * float(stdtrit(freedom, 1.0 - CHANCE / 2.0)) if noise > 0.0 else 0.0
    if abs(difference) > reach:
        return "below" if difference < 0.0 else "above"
    return "alike" if abs(difference) + reach <= ALIKE * size else "level"


def steadier(a: Sample, b: Sample) -> Outcome | None:
    """Compare two standard deviations by the F test; None as in ``lower``."""
    from scipy.special import fdtr, fdtrc

    if min(a.count, b.count) < LEAST or not math.isfinite(a.spread + b.spread):
        return None
    if a.spread == b.spread:
        return "alike"
    if b.spread == 0.0:
        return "above"
    ratio = (a.spread / b.spread) ** 2
    if fdtr(a.count - 1, b.count - 1, ratio) < CHANCE / 2.0:
        return "below"
    return "above" if fdtrc(a.count - 1, b.count - 1, ratio) < CHANCE / 2.0 else "level"


class Contest(NamedTuple):
    """In how many places one thing was clearly below another, neither, clearly above.

    ``alike`` are those of the level ones where there is no difference worth the name, ``untold`` the places where too
    few trials, or a value that is not finite, tell nothing.
    """

    below: int = 0
    level: int = 0
    above: int = 0
    alike: int = 0
    untold: int = 0

    @property
    def places(self) -> int:
        """Number of places that tell something."""
        return self.below + self.level + self.above


def counted(outcomes: Iterable[Outcome | None]) -> Contest:
    """Count outcomes."""
    found = list(outcomes)
    below, level, alike, above = (found.count(name) for name in ("below", "level", "alike", "above"))
    return Contest(below, level + alike, above, alike, found.count(None))


def contest(first: Mapping[Any, Sample], second: Mapping[Any, Sample]) -> Contest:
    """Compare means where both are known."""
    return counted(lower(first[place], second[place]) for place in first if place in second)


def duel(a: Sample, b: Sample, judge: Judge = lower) -> Contest:
    """Compare at a single place."""
    return counted([judge(a, b)])


def total(contests: Iterable[Contest]) -> Contest:
    """Add up."""
    return Contest(*map(sum, zip(*contests, strict=True)))
