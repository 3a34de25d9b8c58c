"""Who is below whom over seeds: what is called clear, counted over the places where both were measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal

from admmnet.papers.tables import Summary

CHANCE = 0.05
"""How often, in both directions together, chance alone gives a difference that is called clear."""
ALIKE = 0.05
"""Relative difference of means that must be ruled out for them to be called alike."""
SAME = 1e-9
"""Relative difference up to which two means are the same number."""
WORDS = (
    "A difference is *clear* where chance alone gives one as large one time in twenty (Welch's t test over seeds, the "
    "paired t test where one parameter is varied, the F test for standard deviations); else it is *level*, and "
    "*alike* where the same test rules out a difference of 5 %. A single run tells nothing. A claim *holds* where it "
    "is clear in every place that was measured, *holds in part* where it is in some, and its opposite in no more; it "
    "*does not hold* where the opposite is clear in more, or where all are alike; else it is *not decided*. Of a "
    "hundred comparisons of what does not differ two or three come out clear in a claim's favour, and more where the "
    "best of several values is taken first."
)
"""For reports."""

Outcome = Literal["below", "level", "alike", "above"]
Judge = Callable[[Summary, Summary], Outcome | None]
"""How the first does against the second; None where it cannot be told."""


def lower(a: Summary, b: Summary) -> Outcome | None:
    """Compare two means by Welch's t test; None for a single run of either, and for values that are not finite."""
    parts = [s.spread**2 / s.count for s in (a, b)]
    if min(a.count, b.count) < 2:
        return None
    noise, freedom = math.sqrt(sum(parts)), math.inf
    if noise > 0.0:
        shares = [part / sum(parts) for part in parts]
        freedom = 1.0 / sum(share**2 / (s.count - 1) for share, s in zip(shares, (a, b), strict=True))
    return _outcome(a.mean - b.mean, noise, freedom, max(abs(a.mean), abs(b.mean)))


def paired(a: Mapping[Any, float], b: Mapping[Any, float]) -> Outcome | None:
    """Compare values of the same seeds by the paired t test; None as in ``lower``."""
    differences = [a[seed] - b[seed] for seed in a if seed in b]
    if len(differences) < 2 or not all(map(math.isfinite, differences)):
        return None
    noise = stdev(differences) / math.sqrt(len(differences))
    size = max(abs(fmean(a[seed] for seed in a if seed in b)), abs(fmean(b[seed] for seed in a if seed in b)))
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


def steadier(a: Summary, b: Summary) -> Outcome | None:
    """Compare two standard deviations by the F test; None as in ``lower``."""
    from scipy.special import fdtr, fdtrc

    if min(a.count, b.count) < 2 or not math.isfinite(a.spread + b.spread):
        return None
    if a.spread == b.spread:
        return "alike"
    if b.spread == 0.0:
        return "above"
    ratio = (a.spread / b.spread) ** 2
    if fdtr(a.count - 1, b.count - 1, ratio) < CHANCE / 2.0:
        return "below"
    return "above" if fdtrc(a.count - 1, b.count - 1, ratio) < CHANCE / 2.0 else "level"


@dataclass(frozen=True)
class Contest:
    """How often one thing was below another, over the places where both were measured.

    Attributes
    ----------
    below, level, above : int
        Places where the first is clearly below, neither, clearly above.
    alike : int
        Those of the level ones where there is no difference worth the name.
    untold : int
        Places where a single run, or a value that is not finite, tells nothing.
    """

    below: int
    level: int
    above: int
    alike: int = 0
    untold: int = 0

    @property
    def places(self) -> int:
        """Number of places that tell something."""
        return self.below + self.level + self.above

    @property
    def words(self) -> str:
        """Such as ``clearly lower in 3 of 5, level in 1, clearly higher in 1``."""
        if self.untold and not self.places:
            return "single runs, which tell nothing"
        level = f"level in {self.level}" + (f" (alike in {self.alike})" if self.level else "")
        text = f"clearly lower in {self.below} of {self.places}, {level}, clearly higher in {self.above}"
        return text + (f"; {self.untold} with single runs, which tell nothing" if self.untold else "")


def counted(outcomes: Iterable[Outcome | None]) -> Contest:
    """Count outcomes."""
    found = list(outcomes)
    alike = found.count("alike")
    return Contest(
        found.count("below"), found.count("level") + alike, found.count("above"), alike, found.count(None)
    )


def contest(first: Mapping[Any, Summary], second: Mapping[Any, Summary], judge: Judge = lower) -> Contest:
    """Compare where both are known."""
    return counted(judge(first[place], second[place]) for place in first if place in second)


def duel(a: Summary, b: Summary, judge: Judge = lower) -> Contest:
    """Compare at a single place."""
    return counted([judge(a, b)])


def total(contests: Iterable[Contest]) -> Contest:
    """Add up."""
    found = list(contests)
    names = ("below", "level", "above", "alike", "untold")
    return Contest(*(sum(getattr(one, name) for one in found) for name in names))
