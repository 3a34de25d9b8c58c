"""Records in memory over MPI: every rank gives the same, or its own agents' alone, and what is wrong is said once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admmnet import run
from tests.people_runs import summary_of
from tests.processes.launch import Ended, mpirun
from tests.processes.library_run import AGENTS, PATH, given, records

pytestmark = pytest.mark.processes


def ranks(how: str, folder: Path) -> Ended:
    return mpirun(AGENTS, "-m", "tests.processes.library_run", how, str(folder))


@pytest.mark.parametrize("how", ["own", "list", "pool"])
def test_ranks_make_the_vectors_of_one_process(how: str, tmp_path: Path) -> None:
    ended = ranks(how, tmp_path / "mpi")
    assert ended.code == 0, ended.err
    alone = given(how, 0)
    if how == "own":
        alone["shards"] = {i: records(i) for i in range(AGENTS)}
    local = run(out=tmp_path / "local", **PATH, **alone)
    assert summary_of(tmp_path / "mpi")["transport"] == "mpi"
    with np.load(tmp_path / "mpi" / "model.npz") as model:
        np.testing.assert_array_equal(model["theta"], local.theta)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("a fault at one", r"shards[1]: row 4 (the first is 0), column 'x3': nan is not finite"),
        ("another type at one", "shards[1] is a str: it must be (X, y), rows and labels, or a data frame"),
        ("other records", "process 1 was given other records than the first"),
        ("of another", "shards has none of agent 0, who is one of this process's"),
        ("too few", "no process has a shard of agent 1"),
    ],
)
def test_what_is_wrong_is_said_once(how: str, words: str, tmp_path: Path) -> None:
    ended = ranks(how, tmp_path / "mpi")
    assert ended.code != 0
    assert words in ended.err
    if "type" not in how:  # said before there are ranks that could agree
        assert len(ended.messages) == 1, ended.err
        assert "Traceback" not in ended.err
    assert not (tmp_path / "mpi").exists()
