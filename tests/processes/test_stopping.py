"""``on_round`` ends a run of several processes: all draw the same conclusion, in the same round.

As a program: ``stop|first|fail|uncaught TRANSPORT FOLDER``; it prints a line of JSON a process, how the call ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from admmnet import RoundEvent, StopRun, read_run, run
from admmnet.cli import run_command_line
from admmnet.transport import open_world
from tests.people_runs import summary_of

from .launch import Ended, mpirun

pytestmark = pytest.mark.processes
SETTINGS: dict[str, Any] = {"algorithm": "ipp-admm", "data": "census", "agents": 3, "rounds": 6, "epsilon": 5.0}


def called(how: str, transport: str, folder: str) -> list[Any]:
    """Rank, rounds that ``on_round`` was told of, and how the call ended."""
    seen: list[int] = []

    def hear(event: RoundEvent) -> None:
        seen.append(event.round)
        if event.round == 2:
            raise StopRun if how in ("stop", "first") else ValueError("the tracker is gone")

    rank = open_world(transport).rank
    on_round = None if how == "first" and rank else hear
    try:
        result = run(**SETTINGS, seed=0, transport=transport, out=folder, on_round=on_round)
    except Exception as error:
        if how == "uncaught":
            raise
        return [rank, seen, f"{type(error).__name__}: {error}"]
    return [rank, seen, str(result.summary["rounds"])]


def ended(how: str, transport: str, folder: Path) -> Ended:
    return mpirun(2 if transport == "mpi" else 0, "-m", "tests.processes.test_stopping", how, transport, str(folder))


def said(done: Ended) -> list[Any]:
    assert (done.code, done.messages) == (0, []), done.err
    return sorted(json.loads(line) for line in done.out.splitlines())


@pytest.mark.parametrize(("transport", "how", "others"), [("mpi", "first", [[1, [], "3"]]), ("zmq", "stop", [])])
def test_every_process_ends_in_the_round_of_stop_run(transport: str, how: str, others: Any, tmp_path: Path) -> None:
    """The same rounds, ledgers and figures as in one process, although only the writer was called, or has on_round."""
    one, local = tmp_path / "run", tmp_path / "local"
    assert called("stop", "local", str(local)) == [0, [0, 1, 2], "3"]
    assert said(ended(how, transport, one)) == [[0, [0, 1, 2], "3"], *others]
    for path in (local / "metrics.csv", *(local / "ledger").iterdir()):
        assert (one / path.relative_to(local)).read_bytes() == path.read_bytes()
    assert summary_of(one)["stopped"] is True
    assert run_command_line(["ledger", "verify", str(one)]) == 0


def test_what_on_round_raises_reaches_its_caller_and_ends_all(tmp_path: Path) -> None:
    message = "RunError: on_round failed at the process that writes the run folder: the run ends there"
    first, *others = said(ended("fail", "mpi", tmp_path / "run"))
    assert (first, others) == ([0, [0, 1, 2], "ValueError: the tracker is gone"], [[1, [], message]])
    folder = read_run(tmp_path / "run")
    assert folder.summary is None
    assert {max(round for round, *_ in book.events) for book in folder.ledgers.values()} <= {2}


def test_what_nobody_catches_is_said_once_as_the_callers(tmp_path: Path) -> None:
    done = ended("uncaught", "mpi", tmp_path / "run")
    assert (done.code, done.messages) == (3, ["admmnet: on_round raised ValueError: the tracker is gone"])
    assert "raise StopRun if how" in done.err  # the line in the caller's own code


if __name__ == "__main__":
    sys.stdout.write(json.dumps(called(*sys.argv[1:])) + "\n")
