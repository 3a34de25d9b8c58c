"""What a run reads before it plans: its graph, its records, the holders that keep them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records, load
from admmnet.data.check import swallowed
from admmnet.data.loading import SPARSE, load_each
from admmnet.data.records import LEFT_OUT, TargetRange, arrays_of, in_words
from admmnet.data.settings import form_of
from admmnet.data.sources import declared
from admmnet.errors import RequestError
from admmnet.holder.encoding import RawRows
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.methods.settings import MethodSettings
from admmnet.methods.tasks import require_task
from admmnet.record.encoding import Found, found_in
from admmnet.solvers.certificate import is_sparse
from admmnet.transport import World
from admmnet.transport.collective import share

Loader = Callable[[DataSettings, int, Sequence[int]], Records]
"""What ``admmnet.data.load`` is: settings, number of agents, and those wanted, to their records."""
Holders = Mapping[int, tuple[Holder, int]]
"""Of every agent of this process the holder of its records, and its place there."""


_OPEN = (
    "the encoding (columns, categories, bounds or labels) would be discovered from the private records and shown by "
    "the model. Declare it in [data.schema], measure it with --encode private, or accept it with --data-dependent"
)


def load_whole(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """As ``admmnet.data.load`` for one holder; the rows of a libsvm file with few entries stay sparse (CSR)."""
    wide = not settings.named and form_of(settings.data) in (".libsvm", ".svm") and settings.project is None
    return load(settings, 1, [0], sparse=SPARSE if wide else 0.0)


def read_records(
    data: DataSettings,
    method: MethodSettings,
    loader: Loader | None,
    world: World,
    owners: Sequence[Sequence[int]],
    opened: ExitStack,
    *,
    simulation: bool,
    by_name: bool,
) -> Records:
    """Records of this process's agents; an encoding that is made from them may show where ``data`` says so.

    ``opened`` is closed once all have them. ``by_name`` says that it is a simulation because of the data's name.
    RequestError if they do not go with the
    settings.
    """
    count = sum(map(len, owners))
    private = not data.data_dependent and not data.named and data.encode == "declared"
    if private and data.schema and any(rule.open for rule in declared(data).rules):  # before anything is read
        raise RequestError(f"{data.data}: {_OPEN}")
    if loader is None and not method.baseline and simulation and not data.per_agent:
        records = shared(data, count, world, owners, opened)
    else:
        records = (loader or (load_whole if method.baseline else load))(data, count, owners[world.rank])
    if not isinstance(records, Records):
        raise RequestError(f"the loader returned a {type(records).__name__}: it must return admmnet.data.Records")
    if by_name and records.name != data.data:
        raise RequestError(
            f"the loader brings records called {records.name!r}, and data = {data.data!r} is declared public: name "
            "their file with data, or set private; if they are public or made up, simulate"
        )
    if simulation and not data.named and records.raw is None and (said := swallowed(records)) is not None:
        records = replace(records, notes=(*records.notes, said))
    if records.left_out and not data.data_dependent:
        raise RequestError(f"{records.name}: {LEFT_OUT}")
    if records.preprocessing != "public-bounds" and not data.data_dependent:
        raise RequestError(f"{records.name}: {_OPEN}")
    if not (method.chosen_method.covered or data.data_dependent):
        raise RequestError(
            f"{method.algorithm} scales columns by norms over all private records, which no ledger covers: take "
            "dp-scd, or accept it with --data-dependent"
        )
    require_task(method, records.task, in_words(records.task, records.labels), records.name)
    return records


def held(
    blocks: Sequence[Sequence[int]],
    records: Records,
    method: MethodSettings,
    *,
    given: bool,
    simulation: bool,
    dependent: bool,
) -> Holders:
    """Put the records of this process's agents behind holders, those of a block into one.

    What is ``given`` by a loader stays with it, for its next run; of private records the holder has a copy.
    RequestError if records are not what the theorems cover; it names the agent.
    """
    kind = SimulatedHolder if simulation else Holder
    shards = dict(records.shards) if given else records.shards
    found: dict[int, tuple[Holder, int]] = {}
    for block in blocks:
        try:
            holder = kind.of(
                [shards.pop(i) for i in block],
                task=records.task,
                classes=records.classes if records.task == "classes" else 2,
                bounded=records.task == "real",
                unit=method.chosen_method.unit_rows(method),
                dependent=dependent,
                copy=given and not simulation,
            )
        except RequestError as error:
            who = f"agent {block[0]}" if len(block) == 1 else f"agents {block[0]} to {block[-1]}"
            public = (
                f"{who} cannot start: its records do not fit the proofs; their owner sees why with "
                "admmnet.holder.Holder(X, y), or with `admmnet data check FILE`"
            )
            raise RequestError(f"the records of {who} cannot be used: {error}", public=public) from None
        found |= {i: (holder, place) for place, i in enumerate(block)}
    return found


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
