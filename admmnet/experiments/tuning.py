"""Choosing settings by their validation error (docs/compare.md, "Tuning")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from admmnet.experiments.grid import Case
from admmnet.experiments.parsing import Values

UNCOVERED = (
    "the choice reads validation errors without noise, which no figure covers; it never reads test records"
)


@dataclass(frozen=True)
class Choice:
    """What was chosen for a case.

    Attributes
    ----------
    case : Case
    values : Values
        The chosen settings.
    errors : tuple of (Values, float)
        Mean validation error of every combination, in the order of the grid.
    trials : int
        Runs that were made to choose.
    cost_proven, cost_published : float or None
        Epsilon of all trials and one final run on the same records; None where undefined.
    """

    case: Case
    values: Values
    errors: tuple[tuple[Values, float], ...]
    trials: int
    cost_proven: float | None = None
    cost_published: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for JSON."""
        entry = self.case.entry
        return {
            "algorithm": entry.algorithm,
            "method": entry.method,
            "accountant": entry.accountant,
            "epsilon": self.case.epsilon,
            "data_seed": self.case.data_seed,
            "chosen": dict(self.values),
            "validation_error": [{"settings": dict(values), "error": error} for values, error in self.errors],
            "trials": self.trials,
            "epsilon_proven_with_trials": self.cost_proven,
            "epsilon_published_with_trials": self.cost_published,
            "uncovered": UNCOVERED,
        }


def choose(case: Case, errors: Mapping[Values, Sequence[float]]) -> Choice:
    """Return the combination of the least mean validation error; of several, the first of the grid.

    Parameters
    ----------
    case : Case
        What is chosen for.
    errors : mapping
        Validation errors of every combination, one a trial seed, in the order of the grid.
    """
    means = tuple((values, fmean(found)) for values, found in errors.items())
    best = min(means, key=lambda pair: pair[1])
    return Choice(case, best[0], means, sum(len(found) for found in errors.values()))
