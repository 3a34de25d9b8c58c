"""The validation part: training records on which settings are chosen, so that the test records never are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records, load
from admmnet.data.records import arrays_of
from admmnet.data.rows import shuffled
from admmnet.data.table import Rows
from admmnet.errors import RequestError
from admmnet.running.loading import Loader, load_whole

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
        X_test=stacked(tests),
        y_test=validation,
    )


def stacked(parts: list[Any]) -> Any:
    """Rows of all parts, dense or CSR as they are."""
    if len(parts) == 1 or not hasattr(parts[0], "tocsr"):
        return parts[0] if len(parts) == 1 else np.vstack(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


Reader = Callable[[DataSettings, int, Sequence[int]], Records]
"""Brings the records of so many agents."""


def load_for(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """As ``admmnet.data.load``; of one holder, whose records may be sparse, as ``load_whole``."""
    return (load_whole if agents == 1 else load)(settings, agents, mine)


_KEPT: list[tuple[Any, Records]] = []
"""The two data sets that this process has loaded last: the runs of a grid share them."""


def loader_of(read: Reader | None, *, held: bool) -> Loader:
    """Loader of records that nobody may write to, by ``read`` or ``load_for``; if held, with the validation part."""
    return partial(_load, read, held)


def forget() -> None:
    """Load records anew from now on: files may have changed."""
    _KEPT.clear()


def _load(read: Reader | None, held: bool, settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    key = (read, held, settings, agents, tuple(mine))
    for other, records in _KEPT:
        if other == key:
            return records
    if held:
        records = hold_out(_load(read, False, settings, agents, mine), settings.data_seed)
    else:
        records = (read or load_for)(settings, agents, mine)
    for X, y in (*records.shards.values(), (records.X_test, records.y_test)):
        for part in (*arrays_of(X), y):
            part.flags.writeable = False  # runs share them
    _KEPT[:] = [*_KEPT, (key, records)][-2:]
    return records
