"""Ranks that were given the same run as one process does; others all end, with one message that names what differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from admmnet import run
from tests.people_runs import summary_of
from tests.processes.disagreeing_run import ALIKE, CASES, SHARDS, settings, shards
from tests.processes.launch import mpirun, mpirun_path, start

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks said of every case."""
    path = tmp_path_factory.mktemp("ranks")
    ended = mpirun(2, "-m", "tests.processes.disagreeing_run", str(path))
    assert ended.code == 0, ended.err
    return path


@pytest.mark.parametrize("case", ALIKE)
def test_ranks_make_the_vectors_of_one_process(case: str, folder: Path, tmp_path: Path) -> None:
    """Each gives all records, or its own agent's alone."""
    local = run(**settings(shards(SHARDS) if case == "own shards" else ALIKE[case][0], tmp_path / "local"))
    assert summary_of(folder / case)["transport"] == "mpi"
    with np.load(folder / case / "model.npz") as model:
        np.testing.assert_array_equal(model["theta"], local.theta)


@pytest.mark.parametrize("case", CASES)
def test_every_process_is_told_what_differs(case: str, folder: Path) -> None:
    told = [json.loads((folder / f"{case}.{rank}.json").read_text()) for rank in range(2)]
    assert told[0] == told[1]
    other = CASES[case][2]
    assert (f"process 1 was given {other} than process 0" if other.startswith(("another", "other")) else other) in told[
        0
    ]
    assert not (folder / case).exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rounds", "x"], "rounds = 'x' is not allowed"),
        (["--transport", "local"], "--transport local runs in one process"),
    ],
)
def test_ranks_with_other_flags_end(words: list[str], told: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "admmnet", "run", "--seed", "0", "-o", str(tmp_path / "run"), "--rounds", "3"]
    ended = start(mpirun_path(), "-n", "1", *command, ":", "-n", "1", *command, *words)
    assert ended.code == 2, ended.err
    assert len(ended.messages) == 1, ended.err
    assert told in ended.messages[0]
    assert not (tmp_path / "run").exists()
