"""Claims over seeded values: which differences are clear, and what that says (docs/reproduction.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from admmnet.experiments.rows import Row, distinct
from admmnet.types import Vector

CHANCE = 0.05
"""How often, in both directions together, chance alone gives a difference that is called clear."""
ALIKE = 0.05
"""Relative difference of means that must be ruled out for them to be called alike."""
SAME = 1e-9
"""Relative difference up to which two means are the same number."""
LEAST = 3
"""Trials from which on a comparison tells anything."""
Outcome = Literal["below", "level", "alike", "above"]
"""How a first thing does against a second."""


class Claim(NamedTuple):
    """A claim of a paper: their words, our counts (clearly so, level, clearly the opposite), and whether it holds."""

    theirs: str
    ours: str
    holds: str
    place: str = ""


def claim(theirs: str, outcomes: Iterable[Outcome | None], place: str = "", *, decided: bool = True) -> Claim:
    """Return a claim that each outcome ``below`` is for; without ``decided`` it stays open.

    Too few trials (None) tell nothing. What is level refutes only where all are alike.
    """
    found = Counter(outcomes)
    places, alike = found.total() - found[None], found["alike"]
    level = found["level"] + alike
    ours = f"{found['below']}/{level}/{found['above']}{f', {alike} alike' if alike else ''}"
    if found[None] and not places:
        return Claim(theirs, ours, "too few trials for a verdict", place)
    holds = "open"
    if decided and places and found["below"] == places:
        holds = "holds"
    elif decided and places and (found["above"] > found["below"] or alike == places):
        holds = "does not hold"
    return Claim(theirs, ours, holds, place)


def lower(a: Vector, b: Vector, *, paired: bool = False) -> Outcome | None:
    """Compare two means by Welch's t test, or the paired one for values of the same seeds.

    None for too few trials of either, and for values that are not finite.
    """
    from scipy import stats

    if min(len(a), len(b)) < LEAST or not np.isfinite([*a, *b]).all() or (paired and len(a) != len(b)):
        return None
    gap, size = float(a.mean() - b.mean()), max(abs(a.mean()), abs(b.mean()))
    if abs(gap) <= SAME * size:
        return "alike"
    low = high = gap
    if any(np.ptp(part) for part in ([a - b] if paired else [a, b])):  # else there is no spread to test by
        test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
        low, high = test.confidence_interval(1.0 - CHANCE)
    if low > 0.0 or high < 0.0:
        return "above" if low > 0.0 else "below"
    return "alike" if max(-low, high) <= ALIKE * size else "level"


def steadier(a: Vector, b: Vector) -> Outcome | None:
    """Compare two standard deviations by the F test; None as in ``lower``."""
    from scipy import stats

    if min(len(a), len(b)) < LEAST or not np.isfinite([*a, *b]).all():
        return None
    first, second = np.var(a, ddof=1), np.var(b, ddof=1)
    if first == second or second == 0.0:
        return "alike" if first == second else "above"
    tail = stats.f.cdf(first / second, len(a) - 1, len(b) - 1)
    if min(tail, 1.0 - tail) >= CHANCE / 2.0:
        return "level"
    return "below" if tail < 0.5 else "above"


def against(first: Mapping[Any, Vector], second: Mapping[Any, Vector]) -> list[Outcome | None]:
    """Compare means wherever both are known."""
    return [lower(values, second[at]) for at, values in first.items() if at in second]


def sized(met: Iterable[bool], rows: list[Row]) -> list[Outcome | None]:
    """Places where means keep a size, and where not; too few seeds tell nothing."""
    few = len(distinct(rows, "seed")) < LEAST
    return [None if few else "below" if one else "above" for one in met]
