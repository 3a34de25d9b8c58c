"""A process that is killed among stages ends the run, which goes on from what the folder holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.holder.encoding import Number
from admmnet.methods.encoding import EVEN
from admmnet.record.encoding import read_found
from tests.interrupted_runs import assert_same

from .launch import mpirun

pytestmark = pytest.mark.processes


def go(folder: Path, seed: str, *killed: str) -> int:
    return mpirun(3, "-m", "tests.processes.dying_stage", str(folder), seed, *killed).code


@pytest.mark.parametrize(("rank", "call"), [("1", "2"), ("0", "3")])
def test_a_seeded_run_over_mpi_goes_on_bitwise(rank: str, call: str, tmp_path: Path) -> None:
    assert go(tmp_path / "whole", "3") == 0
    assert go(tmp_path / "cut", "3", rank, call) != 0
    assert not (tmp_path / "cut/summary.json").exists()
    assert go(tmp_path / "cut", "3") == 0
    assert_same(tmp_path / "whole", tmp_path / "cut")


def test_a_stage_is_charged_once(tmp_path: Path) -> None:
    assert go(tmp_path / "cut", "none", "1", "2") != 0
    assert go(tmp_path / "cut", "none") == 0
    for book in read_run(tmp_path / "cut").ledgers.values():
        assert [round for round, _, _ in book.events if round < 0] == [-3, -2, -1]
    found = read_found(tmp_path / "cut")[1]
    assert found.encoding is not None
    numbers = [column for column in found.encoding.columns if isinstance(column, Number)]
    assert EVEN not in [number.shares for number in numbers], "the answers were repeated"
    assert numbers[0].high > 1e3
