"""The first rank reads records for all of its machine: the others get what they would have read, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, Records, load
from admmnet.data import loading as reading
from admmnet.data.records import arrays_of
from admmnet.data.source import Source
from admmnet.data.sources import read_source
from admmnet.running import sharing
from admmnet.running.sharing import shared
from admmnet.transport.local import LocalWorld
from tests.wide_files import write_wide

OWNERS = ((0, 1), (2,), (3, 4))


class Seat(LocalWorld):
    """A rank of three; what the first one has said is known to all."""

    name, size = "mpi", 3
    said: Any = None

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        if self.rank == 0:
            Seat.said = value
        return [Seat.said]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


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
    kind: str, csv: str, tmp_path: Path, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "census":
        settings = DataSettings()
    elif kind == "targets":
        settings = targets_of(csv)
    elif kind == "raw":
        settings = targets_of(csv).changed(encode="private")
    else:
        settings = DataSettings(data=write_wide(tmp_path / "wide.libsvm"))
    expected = [load(settings, 5, mine) for mine in OWNERS]
    reads = list[object]()

    def read(given: DataSettings) -> Source:
        reads.append(given)
        return read_source(given)

    monkeypatch.setattr(reading, "read_source", read)
    found = [shared(settings, 5, Seat(rank), OWNERS, opened) for rank in range(3)]
    assert len(reads) == 1
    for agent in (2, 3, 4):  # kept for the optimum of all
        del found[0].shards[agent]
    opened.close()  # as on another machine: there is no file
    found.append(shared(settings, 5, Seat(2), OWNERS, opened))
    for one, other in zip(found, [*expected, expected[2]], strict=True):
        assert_same(one, other)
    assert len(reads) == 2


@pytest.mark.parametrize(("name", "size"), [("zmq", 3), ("mpi", 1)])
def test_on_hosts_and_alone_each_reads_for_itself(name: str, size: int, csv: str, opened: ExitStack) -> None:
    world, Seat.said = Seat(0), None
    world.name, world.size = name, size
    assert sorted(shared(targets_of(csv), 5, world, OWNERS, opened).shards) == [0, 1]
    assert Seat.said is None


def test_shards_of_few_records_are_kept(csv: str, opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = targets_of(csv)
    assert sorted(shared(settings, 5, Seat(0), OWNERS, opened).shards) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(sharing, "KEPT", 10)
    assert sorted(shared(settings, 5, Seat(0), OWNERS, opened).shards) == [0, 1]
