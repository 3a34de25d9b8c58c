"""One process of a machine reads records for all: the others get what they would have read, bit for bit."""

from __future__ import annotations

from collections import deque
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, Records, load
from admmnet.data import loading as reading
from admmnet.data.records import arrays_of
from admmnet.data.source import Source
from admmnet.data.sources import read_source
from admmnet.errors import DataError, RunError
from admmnet.running import sharing
from admmnet.running.sharing import shared
from admmnet.transport import Parcel
from admmnet.transport.local import LocalWorld
from tests.wide_files import write_wide

OWNERS = ((0, 1), (2,), (3, 4))


class Table:
    """What the processes of a machine have given each other; process 0 of three is asked first."""

    def __init__(self, ranks: tuple[int, ...] = (0, 1, 2)) -> None:
        self.ranks, self._given = ranks, {rank: deque[Parcel]() for rank in ranks}
        self._rank = 0

    def give(self, rank: int, parcel: Parcel) -> None:
        self._given[rank].append(parcel)

    def take(self, rank: int) -> Parcel:
        assert rank == self.ranks[0]
        return self._given[self._rank].popleft()

    def seat(self, rank: int) -> Any:
        """World of one of them."""
        self._rank, world = rank, LocalWorld()
        world.rank, world.size, world.machine = rank, 3, self
        return world


def bits(X: Any) -> list[Any]:
    return [(array.dtype.str, array.shape, array.tobytes()) for array in arrays_of(X)]


def assert_same(found: Records, expected: Records) -> None:
    assert sorted(found.shards) == sorted(expected.shards)
    for agent, (X, y) in expected.shards.items():
        assert bits(found.shards[agent][0]) == bits(X)
        assert bits(found.shards[agent][1]) == bits(y)
    assert bits(found.X_test) + bits(found.y_test) == bits(expected.X_test) + bits(expected.y_test)
    for name in {field.name for field in fields(Records)} - {"shards", "X_test", "y_test"}:
        assert getattr(found, name) == getattr(expected, name), name


@pytest.fixture
def csv(tmp_path: Path) -> str:
    stream = np.random.default_rng(0)
    lines = [f"{a:.6g},{'red' if b > 0 else 'blue'},{a + b:.6g}" for a, b in stream.standard_normal((60, 2))]
    file = tmp_path / "made.csv"
    file.write_text("\n".join(["size,colour,outcome", *lines]) + "\n")
    return str(file)


def targets_of(file: str) -> DataSettings:
    columns = {"size": {"kind": "numeric", "low": -3, "high": 3}, "colour": {"kind": "categorical"}}
    schema = {"targets": [-4, 4], "columns": columns}
    return DataSettings(data=file, label="outcome", schema=schema, data_dependent=True)


@pytest.mark.parametrize("kind", ["census", "targets", "sparse", "raw"])
def test_others_get_what_they_would_have_read(
    kind: str, csv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "census":
        settings = DataSettings()
    elif kind == "targets":
        settings = targets_of(csv)
    elif kind == "raw":
        settings = replace(targets_of(csv), encode="private")
    else:
        settings = DataSettings(data=write_wide(tmp_path / "wide.libsvm"))
    expected = [load(settings, 5, mine) for mine in OWNERS]
    table, reads = Table(), list[object]()

    def read(given: DataSettings) -> Source:
        reads.append(given)
        return read_source(given)

    monkeypatch.setattr(reading, "read_source", read)
    found = [shared(settings, 5, table.seat(rank), OWNERS) for rank in range(3)]
    assert len(reads) == 1
    for agent in (2, 3, 4):  # kept for the optimum of all
        del found[0].shards[agent]
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_shards_of_others_are_kept_where_one_reads_for_the_whole_network(
    csv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = targets_of(csv)
    assert sorted(shared(settings, 5, Table().seat(0), OWNERS).shards) == [0, 1, 2, 3, 4]
    assert sorted(shared(settings, 5, Table((0, 1)).seat(0), OWNERS).shards) == [0, 1]
    monkeypatch.setattr(sharing, "KEPT", 10)
    assert sorted(shared(settings, 5, Table().seat(0), OWNERS).shards) == [0, 1]


def test_nobody_waits_for_what_cannot_be_read(csv: str) -> None:
    with Path(csv).open("a") as file:
        file.write("wide,red,1\n")
    settings = targets_of(csv)
    table = Table()
    with pytest.raises(DataError, match="line 62"):
        shared(settings, 5, table.seat(0), OWNERS)
    for rank in (1, 2):
        with pytest.raises(RunError, match="could not read the records"):
            shared(settings, 5, table.seat(rank), OWNERS)
