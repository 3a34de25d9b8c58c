"""What choosing settings would have cost: all trials and one final run, composed (docs/compare.md, "Tuning")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from admmnet.privacy.budget import Totals

Worst = Mapping[int, Totals]
"""Worst case of a run by agent."""


def composed(parts: Iterable[Totals]) -> Totals:
    """Sum of the totals of several runs on the same records (docs/privacy.md, Theorem 5)."""
    total = Totals()
    for part in parts:
        total.rho += part.rho
        total.xi += part.xi
        total.curve = total.curve + part.curve
        total.mu_squared += part.mu_squared
        claimed = total.rho_published
        unknown = claimed is None or part.rho_published is None
        total.rho_published = None if unknown else float(claimed or 0.0) + float(part.rho_published or 0.0)
    return total


def tuning_cost(trials: Sequence[Worst], finals: Sequence[Worst], delta: float) -> tuple[float, float | None]:
    """Epsilon of all trials and one final run, the largest over agents and final runs.

    Parameters
    ----------
    trials, finals : sequence of mapping
        Worst cases of the trials, all of them, and of the runs of which one would be made.
    delta : float
        At which the epsilons are read.

    Returns
    -------
    float
        Proven.
    float or None
        Published; None where a cost has no published figure.
    """
    proven, published = 0.0, 0.0
    known = True
    for agent in finals[0]:
        spent = composed(trial[agent] for trial in trials)
        for final in finals:
            whole = composed((spent, final[agent]))
            proven = max(proven, whole.epsilon_proven(delta))
            claimed = whole.epsilon_published(delta)
            known = known and claimed is not None
            published = max(published, claimed or 0.0)
    return proven, published if known else None
