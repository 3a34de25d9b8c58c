"""The validation part: training records on which settings are chosen, so that the test records never are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.data import DataSettings, Records, load
from admmnet.data.columns import Rows
from admmnet.data.shards import shuffled
from admmnet.errors import RequestError

SHARE = 4
"""One of this many training records of every agent is held out."""
_STREAM = 2
"""Key of the draw beside those of the test set and the shards (`admmnet.data.shards.Stream`)."""


def held_rows(records: int, data_seed: int, agent: int) -> Rows:
    """Rows of an agent's shard that are held out: a public draw, from its size, its number and the data seed.

    Returns
    -------
    ndarray of int, shape (n // 4,)
        Increasing.
    """
    sequence = np.random.SeedSequence(data_seed, spawn_key=(_STREAM, agent))
    order = shuffled(records, np.random.Generator(np.random.PCG64(sequence)))
    return np.sort(order[: records // SHARE])


def hold_out(records: Records, data_seed: int) -> Records:
    """Return records whose shards lack the held-out rows, and whose test set is those rows; no test record is left.

    Raises
    ------
    RequestError
        If every shard is too small to hold out a record.
    """
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
        X_test=tests[0] if len(tests) == 1 else np.vstack(tests),
        y_test=validation,
    )


def arrays_of(X: Any) -> tuple[NDArray[Any], ...]:
    """Arrays that hold rows, dense or CSR."""
    return (X.data, X.indices, X.indptr) if hasattr(X, "tocsr") else (X,)


class Shelf:
    """Records that were loaded last: the runs of a grid share them.

    Parameters
    ----------
    size : int
        How many data sets are kept.
    """

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._kept: list[tuple[tuple[DataSettings, int, tuple[int, ...], bool], Records]] = []

    def load(self, settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
        """As ``admmnet.data.load``; of one holder, as ``load_whole`` of the baselines, which may be sparse."""
        return self._get(settings, agents, mine, held=False)

    def validation(self, settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
        """As ``load``, with the validation part for a test set."""
        return self._get(settings, agents, mine, held=True)

    def _get(self, settings: DataSettings, agents: int, mine: Sequence[int], *, held: bool) -> Records:
        key = (settings, agents, tuple(mine), held)
        for other, records in self._kept:
            if other == key:
                return records
        if held:
            records = hold_out(self.load(settings, agents, mine), settings.data_seed)
        elif agents == 1:
            from admmnet.running.loading import load_whole

            records = load_whole(settings, agents, mine)
        else:
            records = load(settings, agents, mine)
        for X, y in (*records.shards.values(), (records.X_test, records.y_test)):
            for part in (*arrays_of(X), y):
                part.flags.writeable = False  # runs share them
        self._kept = [*self._kept, (key, records)][-self._size :]
        return records
