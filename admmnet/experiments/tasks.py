"""What the processes of a comparison do: each function is told everything, and answers with plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path

from admmnet.config.run_config import RunConfig
from admmnet.experiments.holdout import Reader, loader_of
from admmnet.library import run
from admmnet.privacy.budget import Totals, added
from admmnet.privacy.ledger.form import finite
from admmnet.running.entrance import prepare
from admmnet.running.graphs import located
from admmnet.running.loading import Loader
from admmnet.transport import World

Worst = Mapping[int, Totals]
"""Worst case of a run by agent."""


def counted(read: Reader | None, config: RunConfig) -> list[int]:
    """Training records of every agent."""
    own, graph = located(config, World())
    agents = range(len(graph))
    records = loader_of(read, held=False)(config.changed(**own).request, len(agents), agents)
    return [*records.counts.values()]


def run_cell(read: Reader | None, config: RunConfig, folder: Path, trial: bool) -> None:
    """Make one seeded run, as `admmnet run` makes it."""
    run(config.changed(out=str(folder)), world=World(), loader=loader_of(read, held=trial))


def cost(
    read: Reader | None, trials: Sequence[RunConfig], finals: Sequence[RunConfig]
) -> tuple[float | None, float | None]:
    """Proven and published epsilon of all trials and one final run; None where infinite or undefined."""
    held, whole = loader_of(read, held=True), loader_of(read, held=False)
    worst = [worst_case(config, held) for config in trials], [worst_case(config, whole) for config in finals]
    proven, published = tuning_cost(*worst, float(finals[0].delta))
    return finite(proven), finite(published)


def worst_case(config: RunConfig, loader: Loader) -> Worst:
    """Everything that every agent of a run can be charged, empty without privacy; refused as the run would be."""
    plan = prepare(config, World(), loader)
    worst = {i: plan.worst(i) for i in plan.contracts}
    return {i: own for i, own in worst.items() if own is not None}


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
