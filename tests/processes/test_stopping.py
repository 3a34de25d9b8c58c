"""``on_round`` ends a run of several processes: all draw the same conclusion, in the same round."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from tests.people_runs import summary_of

from .launch import mpirun, start
from .stopping_run import called

pytestmark = pytest.mark.processes
RANKS = {"mpi": 2, "zmq": 1}


def ended(how: str, transport: str, folder: Path) -> list[Any]:
    words = ("-m", "tests.processes.stopping_run", how, transport, str(folder))
    done = mpirun(RANKS["mpi"], *words) if transport == "mpi" else start(sys.executable, *words)
    assert done.code == 0, done.err
    assert not done.messages
    return sorted(json.loads(line) for line in done.out.splitlines())


def test_what_nobody_catches_is_said_once_as_the_callers(tmp_path: Path) -> None:
    done = mpirun(2, "-m", "tests.processes.stopping_run", "uncaught", "mpi", str(tmp_path / "run"))
    assert done.code == 3
    assert done.messages == ["admmnet: on_round raised ValueError: the tracker is gone"]
    assert "raise StopRun if how" in done.err  # the line in the caller's own code


def contents(folder: Path) -> tuple[bytes, list[bytes]]:
    ledgers = sorted((folder / "ledger").iterdir())
    return (folder / "metrics.csv").read_bytes(), [path.read_bytes() for path in ledgers]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local") / "run"
    assert called("stop", "local", str(folder)) == [0, [0, 1, 2], "3"]
    return folder


@pytest.mark.parametrize(("transport", "how"), [("mpi", "stop"), ("mpi", "first"), ("zmq", "stop")])
def test_every_process_ends_in_the_round_of_stop_run(transport: str, how: str, local: Path, tmp_path: Path) -> None:
    """The same rounds, ledgers and figures as in one process, although only the writer was called, or has on_round."""
    seen = [[0, [0, 1, 2], "3"], *([rank, [], "3"] for rank in range(1, RANKS[transport]))]
    assert ended(how, transport, tmp_path / "run") == seen
    assert contents(tmp_path / "run") == contents(local)
    assert summary_of(tmp_path / "run")["stopped"] is True
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("transport", ["mpi", "zmq"])
def test_what_on_round_raises_reaches_its_caller_and_ends_all(transport: str, tmp_path: Path) -> None:
    first, *others = ended("fail", transport, tmp_path / "run")
    assert first == [0, [0, 1, 2], "ValueError: the tracker is gone"]
    message = "RunError: on_round failed at the process that writes the run folder: the run ends there"
    assert others == [[rank, [], message] for rank in range(1, RANKS[transport])]
    folder = read_run(tmp_path / "run")
    assert folder.summary is None
    assert {max(round for round, *_ in book.events) for book in folder.ledgers.values()} <= {2}
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0
