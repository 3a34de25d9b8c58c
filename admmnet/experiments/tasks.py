"""What the processes of a comparison do: each function is told everything, and answers with plain values.

Settings are chosen on a validation part, training records that are held out, so that the test records never are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.config.run_config import RunConfig
from admmnet.data import DataSettings, Records, load
from admmnet.data.records import arrays_of
from admmnet.data.rows import shuffled
from admmnet.data.source import together
from admmnet.data.table import Rows
from admmnet.errors import RequestError
from admmnet.library import run
from admmnet.privacy.budget import Totals, added
from admmnet.privacy.ledger.form import finite
from admmnet.running.before import located
from admmnet.running.entrance import prepare
from admmnet.running.loading import Loader, load_whole
from admmnet.transport import World

SHARE = 4
"""One of this many training records of every agent is held out."""
_STREAM = 2
"""Key of the draw beside those of the test set and the shards (`admmnet.data.rows.Stream`)."""


def held_rows(records: int, data_seed: int, agent: int) -> Rows:
    """Rows of an agent's shard that are held out, increasing: a public draw, from size, number and data seed."""
    sequence = np.random.SeedSequence(data_seed, spawn_key=(_STREAM, agent))
    order = shuffled(records, np.random.Generator(np.random.PCG64(sequence)))
    return np.sort(order[: records // SHARE])


def hold_out(records: Records, data_seed: int) -> Records:
    """Return records whose shards lack the held-out rows, and whose test set is those rows; no test record is left."""
    shards, tests, labels = {}, [], []
    for agent, (X, y) in records.shards.items():
        held = held_rows(len(y), data_seed, agent)
        kept = np.ones(len(y), dtype=bool)
        kept[held] = False
        shards[agent] = (X[kept], y[kept])
        tests.append(X[held])
        labels.append(y[held])
    validation = np.concatenate(labels)
    if not len(validation):
        raise RequestError(
            f"--tune holds out one of {SHARE} training records of an agent, and no agent has {SHARE}: use more records"
        )
    return replace(
        records,
        shards=shards,
        counts={agent: len(y) for agent, (_, y) in shards.items()},
        X_test=together(tests),
        y_test=validation,
    )


Reader = Callable[[DataSettings, int, Sequence[int]], Records]
"""Brings the records of so many agents."""


def load_for(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """As ``admmnet.data.load``; of one holder, whose records may be sparse, as ``load_whole``."""
    return (load_whole if agents == 1 else load)(settings, agents, mine)


_KEPT: list[tuple[Any, Records]] = []
"""The two data sets that this process has loaded last: the runs of a grid share them."""


def forget() -> None:
    """Load records anew from now on: files may have changed."""
    _KEPT.clear()


def loaded(read: Reader | None, held: bool, settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """Records that nobody may write to, by ``read`` or ``load_for``; if held, with the validation part."""
    key = (read, held, settings, agents, tuple(mine))
    for other, records in _KEPT:
        if other == key:
            return records
    if held:
        records = hold_out(loaded(read, False, settings, agents, mine), settings.data_seed)
    else:
        records = (read or load_for)(settings, agents, mine)
    for X, y in (*records.shards.values(), (records.X_test, records.y_test)):
        for part in (*arrays_of(X), y):
            part.flags.writeable = False  # runs share them
    _KEPT[:] = [*_KEPT, (key, records)][-2:]
    return records


Worst = Mapping[int, Totals]
"""Worst case of a run by agent."""


def counted(read: Reader | None, config: RunConfig) -> list[int]:
    """Training records of every agent."""
    own, graph = located(config, World())
    agents = range(len(graph))
    records = loaded(read, False, config.changed(**own).request, len(agents), agents)
    return [*records.counts.values()]


def run_cell(read: Reader | None, config: RunConfig, folder: Path, trial: bool) -> None:
    """Make one seeded run, as `admmnet run` makes it."""
    run(config.changed(out=str(folder)), world=World(), loader=partial(loaded, read, trial))


def cost(
    read: Reader | None, trials: Sequence[RunConfig], finals: Sequence[RunConfig]
) -> tuple[float | None, float | None]:
    """Proven and published epsilon of all trials and one final run; None where infinite or undefined."""
    held, whole = partial(loaded, read, True), partial(loaded, read, False)
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
    return replace(added(parts), alone=None)  # a choice goes on: each would have to be within delta by itself


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
