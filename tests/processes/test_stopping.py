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

from .launch import Ended, mpirun, start
from .stopping_run import called

pytestmark = pytest.mark.processes


def ended(how: str, transport: str, folder: Path) -> Ended:
    words = ("-m", "tests.processes.stopping_run", how, transport, str(folder))
    return mpirun(2, *words) if transport == "mpi" else start(sys.executable, *words)


def said(done: Ended) -> list[Any]:
    assert (done.code, done.messages) == (0, []), done.err
    return sorted(json.loads(line) for line in done.out.splitlines())


def contents(folder: Path) -> tuple[bytes, list[bytes]]:
    ledgers = sorted((folder / "ledger").iterdir())
    return (folder / "metrics.csv").read_bytes(), [path.read_bytes() for path in ledgers]


@pytest.mark.parametrize(("transport", "how", "others"), [("mpi", "first", [[1, [], "3"]]), ("zmq", "stop", [])])
def test_every_process_ends_in_the_round_of_stop_run(transport: str, how: str, others: Any, tmp_path: Path) -> None:
    """The same rounds, ledgers and figures as in one process, although only the writer was called, or has on_round."""
    assert called("stop", "local", str(tmp_path / "local")) == [0, [0, 1, 2], "3"]
    assert said(ended(how, transport, tmp_path / "run")) == [[0, [0, 1, 2], "3"], *others]
    assert contents(tmp_path / "run") == contents(tmp_path / "local")
    assert summary_of(tmp_path / "run")["stopped"] is True
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


def test_what_on_round_raises_reaches_its_caller_and_ends_all(tmp_path: Path) -> None:
    message = "RunError: on_round failed at the process that writes the run folder: the run ends there"
    first, *others = said(ended("fail", "mpi", tmp_path / "run"))
    assert (first, others) == ([0, [0, 1, 2], "ValueError: the tracker is gone"], [[1, [], message]])
    folder = read_run(tmp_path / "run")
    assert folder.summary is None
    assert {max(round for round, *_ in book.events) for book in folder.ledgers.values()} <= {2}


def test_what_nobody_catches_is_said_once_as_the_callers(tmp_path: Path) -> None:
    done = ended("uncaught", "mpi", tmp_path / "run")
    assert done.code == 3
    assert done.messages == ["admmnet: on_round raised ValueError: the tracker is gone"]
    assert "raise StopRun if how" in done.err  # the line in the caller's own code
