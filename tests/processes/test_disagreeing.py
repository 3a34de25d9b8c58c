"""Processes that were given other settings or records all end, with one message that names what differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.processes.disagreeing_run import CASES
from tests.processes.launch import mpirun, mpirun_path, start

pytestmark = pytest.mark.processes

WORDS = {
    "data": "process 1 was given data = census, process 0 data = arrays: give every process of a run the same",
    "kind": "process 1 was given shards = {agent: (X, y)}, process 0 shards = [(X, y), ...]",
    "seed": "process 1 was given seed = 1, process 0 seed = 0",
    "mode": "process 1 was given no seed, process 0 seed = 0",
    "data_seed": "process 1 was given data_seed = 1, process 0 data_seed = 0",
    "rounds": "process 1 was given rounds = 4, process 0 rounds = 3",
    "algorithm": "process 1 was given algorithm = pp-admm, process 0 algorithm = noisy-gd",
    "account": "process 1 was given account = DIR, process 0 no account",
    "checkpoints": "process 1 was given no checkpoint_every, process 0 checkpoint_every = 2",
    "stoppable": "process 1 was given stoppable = False, process 0 stoppable = True",
    "loader": "process 1 was given loader = a function, process 0 no loader",
    "schema": "process 1 was given schema.labels = [0, 1], process 0 schema.labels = [1, 0]",
    "resume": "process 1 was given resume = nowhere, process 0 no resume",
    "out": "process 1 was given out = folder-1, process 0 out = folder-0",
    "test": "process 1 was given no test, process 0 test = arrays",
    "test contents": "process 1 was given other test records than the first: contents with sha256 ",
    "private test contents": "process 1 was given other test records than the first: contents with sha256 ",
    "contents": "process 1 was given other records than the first: contents with sha256 ",
    "width": "process 1 was given other records than the first: X of shape [80, 2], not [80, 3]",
    "transport": "--transport local runs in one process, but the launcher started 2",
    "transport of the first": "--transport local runs in one process, but the launcher started 2",
    "world": "world = 3: it must be a World, or left out",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks said of every case."""
    path = tmp_path_factory.mktemp("ranks")
    ended = mpirun(2, "-m", "tests.processes.disagreeing_run", str(path))
    assert ended.code == 0, ended.err
    return path


@pytest.mark.parametrize("case", CASES)
def test_every_process_is_told_what_differs(case: str, folder: Path) -> None:
    told = [json.loads((folder / f"{case}.{rank}.json").read_text()) for rank in range(2)]
    assert told[0] == told[1]
    assert WORDS[case] in told[0]
    assert not (folder / case).exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rounds", "4"], "process 1 was given rounds = 4, process 0 rounds = 3"),
        (["--rounds", "x"], "rounds = 'x' is not allowed"),
        (["--bogus"], "No such option"),
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
