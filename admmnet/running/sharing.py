"""Records that one process reads for all of its machine: encoded once, each process given the shards of its agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from admmnet.data import DataSettings, Records, TargetRange, load, load_each
from admmnet.data.records import arrays_of
from admmnet.errors import AdmmnetError, RunError
from admmnet.holder.encoding import RawRows
from admmnet.holder.rows import is_sparse
from admmnet.record.encoding import Found, found_in
from admmnet.transport import Parcel, World

KEPT = 4_000_000
"""Most numbers in all shards that the reader keeps for the optimum without privacy, which needs them all."""
_OTHERS = ("shards", "counts", "X_test", "y_test", "target", "raw")
PLAIN = tuple(field.name for field in fields(Records) if field.name not in _OTHERS)


def shared(settings: DataSettings, agents: int, world: World, owners: Sequence[Sequence[int]]) -> Records:
    """As ``admmnet.data.load`` of this process's agents; where it can, its machine's first process reads for all.

    Where it reads for the whole network and the records are few, it keeps all shards. What it finds wrong with them
    it raises, and the others raise that it has.
    """
    machine = world.machine
    if machine is None:
        return load(settings, agents, owners[world.rank])
    here = machine.ranks
    if world.rank != here[0]:
        return _records(machine.take(here[0]))
    groups = [owners[rank] for rank in here]
    made, told, kept = load_each(settings, agents, groups), 0, dict[int, Any]()
    own: Records | None = None
    try:
        for rank, records in zip(here, made, strict=True):
            if own is None:
                own = records
                few = sum(own.counts.values()) * len(own.feature_names) <= KEPT
            else:
                machine.give(rank, _parcel(records))
            told += 1
            if few and len(here) == world.size:
                kept |= records.shards
    except AdmmnetError:
        for rank in here[max(told, 1) :]:
            machine.give(rank, Parcel(None))
        raise
    assert own is not None
    return replace(own, shards=own.shards | kept)


def _parcel(records: Records) -> Parcel:
    rows = [(agent, *pair) for agent, pair in records.shards.items()]
    rows.append((-1, records.X_test, records.y_test))
    target = records.target
    words = {name: getattr(records, name) for name in PLAIN} | {
        "counts": list(records.counts.items()),
        "target": None if target is None else [target.low, target.high, target.centre],
        "raw": Found(records.raw).text,
        "rows": [[agent, X.shape, _form(X)] for agent, X, _ in rows],
    }
    return Parcel(words, [array for _, X, y in rows for array in (*arrays_of(X), y)])


def _records(parcel: Parcel) -> Records:
    if parcel.words is None:
        raise RunError("the first process of this machine could not read the records")
    words, arrays = dict(parcel.words), iter(parcel.arrays)
    shards = {agent: (_rows(arrays, tuple(shape), form), next(arrays)) for agent, shape, form in words.pop("rows")}
    X_test, y_test = shards.pop(-1)
    raw = words.pop("raw")
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


def _form(X: Any) -> str:
    return "raw" if isinstance(X, RawRows) else "sparse" if is_sparse(X) else "dense"


def _rows(arrays: Iterator[Any], shape: tuple[int, int], form: str) -> Any:
    if form != "sparse":
        return next(arrays) if form == "dense" else RawRows(next(arrays), next(arrays), shape[1])
    from scipy.sparse import csr_array

    return csr_array((next(arrays), next(arrays), next(arrays)), shape=shape)
