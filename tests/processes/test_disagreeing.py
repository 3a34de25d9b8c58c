"""Ranks that were given the same run as one process does; others all end, with one message that names what differs.

As a program, of two ranks: it calls ``run`` again and again, and writes into a folder how every call ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RequestError, run
from admmnet.transport import open_world
from tests.people_runs import summary_of

from .launch import mpirun, mpirun_path, start

pytestmark = pytest.mark.processes
STREAM = np.random.default_rng(0)
X = STREAM.standard_normal((80, 3))
y = (X[:, 0] > 0.0).astype(int)
TEST = X[:30] + 1.0, y[:30]
PRIVATE: dict[str, Any] = {"seed": None, "private": True, "no_test": True, "no_account": True}
SHARDS = [(X[:40], y[:40]), (X[40:], y[40:])]
SPOILED = np.where(np.arange(120).reshape(40, 3) == 14, np.nan, X[40:]), y[40:]


def shards(given: Any) -> dict[str, Any]:
    return {"X": None, "y": None, "shards": given, "test": TEST, "graph": nx.path_graph(2)}


ALIKE: dict[str, tuple[Any, ...]] = {
    "own shards": (shards({0: SHARDS[0]}), shards({1: SHARDS[1]})),
    "all shards": (shards(SHARDS), shards(SHARDS)),
    "one table": ({}, {}),
}
"""What each rank gives for a run that is that of one process."""
OTHER = "process 1 was given another "
CASES: dict[str, tuple[Any, ...]] = {
    "data": ({}, {"X": None, "y": None, "data": "census"}, f"{OTHER}data"),
    "kind": (shards(SHARDS), shards({1: SHARDS[1]}), f"{OTHER}shards"),
    "mode": ({"no_test": True}, PRIVATE, f"{OTHER}seed"),
    "data_seed": (PRIVATE | {"data_seed": 0}, PRIVATE | {"data_seed": 1}, f"{OTHER}data_seed"),
    "rounds": ({"rounds": 3}, {"rounds": 4}, f"{OTHER}rounds"),
    "account": (PRIVATE, PRIVATE | {"no_account": False, "account": "books"}, f"{OTHER}account"),
    "stoppable": ({"stoppable": True, "on_round": print}, {"stoppable": False, "on_round": print}, f"{OTHER}stoppable"),
    "loader": ({"X": None, "y": None}, {"X": None, "y": None, "loader": print}, f"{OTHER}loader"),
    "schema": ({"schema": {"labels": [1, 0]}}, {"schema": {"labels": [0, 1]}}, f"{OTHER}schema"),
    "resume": ({}, {"resume": "nowhere"}, f"{OTHER}resume"),
    "out": ({"out": "folder-0"}, {"out": "folder-1"}, f"{OTHER}out"),
    "test": ({"test": TEST}, {"no_test": True}, f"{OTHER}test"),
    "contents": ({}, {"X": X * 2}, "process 1 was given other records"),
    "transport": ({"transport": "mpi"}, {"transport": "local"}, "--transport local runs in one process, but the l"),
    "a fault": (shards({0: SHARDS[0]}), shards({1: SPOILED}), "shards[1]: row 4 (the first is 0), column 'x3': nan is"),
    "of another": (shards({1: SHARDS[0]}), shards({0: SHARDS[1]}), "shards lacks agent 0 of this process"),
}
"""What each rank gives, and what is said of it."""


def called(given: dict[str, Any], out: Path) -> Any:
    common: dict[str, Any] = {"X": X, "y": y, "algorithm": "noisy-gd", "rounds": 3, "seed": 0, "agents": 2, "out": out}
    return run(**common | given)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks said of every case."""
    path = tmp_path_factory.mktemp("ranks")
    ended = mpirun(2, "-m", "tests.processes.test_disagreeing", str(path))
    assert ended.code == 0, ended.err
    return path


@pytest.mark.parametrize("case", ALIKE)
def test_ranks_make_the_vectors_of_one_process(case: str, folder: Path, tmp_path: Path) -> None:
    """Each gives all records, or its own agent's alone."""
    local = called(shards(SHARDS) if case == "own shards" else ALIKE[case][0], tmp_path / "local")
    assert summary_of(folder / case)["transport"] == "mpi"
    with np.load(folder / case / "model.npz") as model:
        np.testing.assert_array_equal(model["theta"], local.theta)


@pytest.mark.parametrize("case", CASES)
def test_every_process_is_told_what_differs(case: str, folder: Path) -> None:
    told = [json.loads((folder / f"{case}.{rank}.json").read_text()) for rank in range(2)]
    assert told[0] == told[1]
    assert CASES[case][2] in told[0]
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
    assert (ended.code, len(ended.messages)) == (2, 1), ended.err
    assert told in ended.messages[0]
    assert not (tmp_path / "run").exists()


if __name__ == "__main__":
    rank, place = open_world("auto").rank, Path(sys.argv[1])
    for case, given in (ALIKE | CASES).items():
        told = "it ran"
        try:
            called(given[rank], place / case)
        except RequestError as error:
            told = str(error)
        (place / f"{case}.{rank}.json").write_text(json.dumps(told))
