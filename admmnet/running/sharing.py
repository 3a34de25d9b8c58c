"""Records that the first process reads for all of its machine: encoded once, each takes its shards from a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records, TargetRange, load, load_each
from admmnet.data.records import arrays_of
from admmnet.holder.encoding import RawRows
from admmnet.holder.rows import is_sparse
from admmnet.record.encoding import Found, found_in
from admmnet.transport import World
from admmnet.transport.collective import share

KEPT = 4_000_000
"""Most numbers in all shards that the reader keeps for the optimum without privacy, which needs them all."""
_OTHERS = ("shards", "counts", "X_test", "y_test", "target", "raw")
PLAIN = tuple(field.name for field in fields(Records) if field.name not in _OTHERS)


def shared(
    settings: DataSettings, agents: int, world: World, owners: Sequence[Sequence[int]], opened: ExitStack
) -> Records:
    """As ``admmnet.data.load`` of this process's agents, in ``as_one``; under mpirun the first process reads for all.

    It writes a file for each, in a folder that is there until ``opened`` is closed; on other machines there is none,
    and each reads for itself. Of few records the first process keeps all shards.
    """
    if world.name != "mpi" or world.size == 1:
        return load(settings, agents, owners[world.rank])
    own, kept, place = list[Records](), dict[int, Any](), ""
    if world.rank == 0:
        place = opened.enter_context(TemporaryDirectory(prefix="admmnet-", ignore_cleanup_errors=True))  # mode 0700
        for rank, records in enumerate(load_each(settings, agents, owners)):
            if rank:
                _write(Path(place) / f"{rank}.npz", records)
            own = own or [records]
            if sum(records.counts.values()) * len(records.feature_names) <= KEPT:
                kept |= records.shards
    file = Path(share(world, place)[0]) / f"{world.rank}.npz"
    if own:
        return replace(own[0], shards=own[0].shards | kept)
    return _read(file) if file.exists() else load(settings, agents, owners[world.rank])


def _write(file: Path, records: Records) -> None:
    rows = [*records.shards.items(), (-1, (records.X_test, records.y_test))]
    target = records.target
    words = {name: getattr(records, name) for name in PLAIN} | {
        "counts": list(records.counts.items()),
        "target": None if target is None else [target.low, target.high, target.centre],
        "raw": Found(records.raw).text,
        "rows": [
            [agent, X.shape, "raw" if isinstance(X, RawRows) else "sparse" if is_sparse(X) else "dense"]
            for agent, (X, _) in rows
        ],
    }
    np.savez(file, json.dumps(words), *[array for _, (X, y) in rows for array in (*arrays_of(X), y)])


def _read(file: Path) -> Records:
    with np.load(file, allow_pickle=False) as archive:
        head, *rest = (archive[f"arr_{k}"] for k in range(len(archive.files)))
    words, arrays = json.loads(str(head)), iter(rest)
    shards: dict[int, Any] = {}
    for agent, shape, form in words.pop("rows"):
        if form == "sparse":
            from scipy.sparse import csr_array

            X: Any = csr_array((next(arrays), next(arrays), next(arrays)), shape=tuple(shape))
        else:
            X = next(arrays) if form == "dense" else RawRows(next(arrays), next(arrays), shape[1])
        shards[agent] = X, next(arrays)
    (X_test, y_test), raw = shards.pop(-1), words.pop("raw")
    target, counts = words.pop("target"), dict(words.pop("counts"))
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in words.items()}
    return Records(
        shards=shards,
        counts=counts,
        X_test=X_test,
        y_test=y_test,
        target=None if target is None else TargetRange(*target),
        raw=found_in(raw, Path()).encoding if raw else None,
        **plain,
    )
