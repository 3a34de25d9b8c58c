"""Choosing settings by their validation error, and the cost on private records (docs/compare.md, "Tuning")."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from admmnet.experiments.grid import Case
from admmnet.experiments.parsing import Values
from admmnet.privacy.budget import Totals
from admmnet.privacy.together import added

UNCOVERED = "the choice reads validation errors without noise, which no figure covers; it never reads test records"


@dataclass(frozen=True)
class Choice:
    """What was chosen for a case in so many trials, and the mean validation error of every combination.

    The costs are epsilons of all trials and one final run on the same records, None where undefined.
    """

    case: Case
    values: Values
    errors: tuple[tuple[Values, float], ...]
    trials: int
    cost_proven: float | None = None
    cost_published: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for JSON."""
        return {
            **asdict(self.case.entry),
            "epsilon": self.case.epsilon,
            "data_seed": self.case.data_seed,
            "chosen": dict(self.values),
            "validation_error": [{"settings": dict(values), "error": error} for values, error in self.errors],
            "trials": self.trials,
            "epsilon_proven_with_trials": self.cost_proven,
            "epsilon_published_with_trials": self.cost_published,
            "uncovered": UNCOVERED,
        }


def best_of(errors: Mapping[Values, Sequence[float]]) -> tuple[Values, dict[Values, float]]:
    """Combination of the least mean validation error, and all means; of equals the first, what is no number last."""
    means = {values: fmean(found) for values, found in errors.items()}
    return min(means, key=lambda values: math.inf if math.isnan(means[values]) else means[values]), means


Worst = Mapping[int, Totals]
"""Worst case of a run by agent."""


def composed(parts: Sequence[Totals]) -> Totals:
    """Sum of the totals of several runs on the same records (docs/proofs.md, Theorem 5)."""
    total = copy(added(parts))
    total.alone = None  # the choice is a continuation: each would have to be within delta by itself
    return total


def tuning_cost(trials: Sequence[Worst], finals: Sequence[Worst], delta: float) -> tuple[float, float | None]:
    """Proven and published epsilon of all trials and one final run, the largest over agents and final runs.

    The second is None where a cost has no published figure.
    """
    wholes = []
    for agent in finals[0]:
        wholes += [composed([*(trial[agent] for trial in trials), final[agent]]) for final in finals]
    proven = [whole.epsilon_proven(delta) for whole in wholes]
    published = [whole.epsilon_published(delta) for whole in wholes]
    known = [claim for claim in published if claim is not None]
    return max(proven, default=0.0), max(known, default=0.0) if len(known) == len(published) else None
