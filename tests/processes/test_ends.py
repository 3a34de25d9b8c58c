"""Runs that are ended from outside: Ctrl-C, SIGTERM and SIGKILL, on every transport."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.record.format import epsilon
from admmnet.running.ends import last_words, terminating
from tests.people_runs import write_people
from tests.run_folders import made

from .launch import DEADLINE, Ended, Process, begin, mpirun_path
from .places import Place

pytestmark = pytest.mark.processes
WORDS = ("--algorithm", "pp-admm", "--agents", "3", "--rounds", "4", "--epsilon", "5")
LIBRARY = """
import sys
from tests.processes import faulty_agent
from admmnet import run
faulty_agent.arm("hang", 2)
run(algorithm="pp-admm", agents=3, rounds=4, epsilon=5, transport="mpi", no_test=True, no_account=True, out=sys.argv[1])
"""


class Arrivals:
    """A pipe to which processes write when they stand in a round, and then wait."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "arrived"
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDWR)  # never at its end

    def signal(self, process: Process, processes: int, number: int) -> None:
        """Send a signal once so many have come."""
        for _ in range(processes):
            assert select.select([self._end], [], [], DEADLINE)[0]
            assert os.read(self._end, 1)
        os.close(self._end)
        process.send_signal(number)


def signalled(place: Place, folder: Path, number: int, round: int = 2) -> Ended:
    """Send a signal to a run whose processes all stand in a round."""
    arrivals = Arrivals(folder)
    place.begin(arrived=arrivals.path, fault=f"hang:all:{round}")
    arrivals.signal(place.process, 1 if place.transport == "local" else 3, number)
    return place.ended()


def place_of(folder: Path, transport: str) -> Place:
    return Place(
        folder, "run", *WORDS, "--data", write_people(folder / "people.npz"), transport=transport, account=False
    )


@pytest.mark.parametrize(
    ("transport", "number", "how", "code"),
    [
        ("local", signal.SIGTERM, "ended by SIGTERM", 3),
        ("local", signal.SIGINT, "interrupted", 130),
        ("mpi", signal.SIGTERM, "ended by SIGTERM", 3),
        ("mpi", signal.SIGINT, "interrupted", 130),
        ("zmq", signal.SIGTERM, "ended by SIGTERM", 3),
        ("zmq", signal.SIGINT, "interrupted", 130),
        ("zmq", signal.SIGKILL, "", -9),
    ],
)
def test_the_end_says_what_was_spent_and_how_to_go_on(
    transport: str,
    number: int,
    how: str,
    code: int,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Agents end with their starter, also if that says nothing; sockets and settings are gone then."""
    monkeypatch.setenv("TMPDIR", str(sockets := tmp_path_factory.mktemp("s")))
    place = place_of(tmp_path, transport)
    ended = signalled(place, tmp_path, number)
    assert ended.code == code, ended.err
    assert not (place.folder / "summary.json").exists()
    assert run_command_line(["ledger", "verify", str(place.folder)]) == 0
    if how:
        (message,) = ended.messages
        assert message.startswith(f"admmnet: {how}; the ledgers hold everything that was sent: epsilon ")
        assert message.endswith(f", the largest of 3 agents; go on with `admmnet run --resume {place.folder}`")
        books = read_run(place.folder).ledgers.values()
        spent = max(float(book.totals.epsilon_proven(book.delta)) for book in books if book.delta is not None)
        said = float(message.split("epsilon ")[1].split(" so far")[0])
        assert spent <= said <= spent * (1.0 + 1e-3)
    assert [one for one in sockets.iterdir() if one.name.startswith("admmnet")] == []
    # and the command that it names goes on
    assert run_command_line(["run", "--resume", str(place.folder), "--transport", "local", "--quiet"]) == 0


def test_the_library_says_so_too(tmp_path: Path) -> None:
    """In the exception that its caller gets; of several ranks, in the message of the first."""
    arrivals = Arrivals(tmp_path)
    words = (mpirun_path(), "-n", "3", sys.executable, "-c", LIBRARY, str(tmp_path / "run"))
    process = begin(*words, ADMMNET_ARRIVED=arrivals.path)
    arrivals.signal(process, 3, signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.wait() != 0
    found = re.findall(r"the ledgers hold everything that was sent: epsilon [\d.]+ so far, .*", err)
    assert len(found) == 1, err
    assert found[0].endswith(f"go on with `admmnet run --resume {tmp_path / 'run'}`")
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


def test_a_program_that_handles_sigterm_keeps_its_handler() -> None:
    mine = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        ours = signal.getsignal(signal.SIGTERM)
        with terminating():
            assert signal.getsignal(signal.SIGTERM) is ours
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with terminating():
            assert signal.getsignal(signal.SIGTERM) not in (ours, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, mine)


def test_spent_is_read_from_the_last_whole_line(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", rounds=2)
    for other in sorted((folder / "ledger").iterdir())[1:]:
        other.unlink()
    file = folder / "ledger" / "agent-000.jsonl"
    header, first, second, *_ = file.read_bytes().splitlines(keepends=True)
    spent = epsilon(json.loads(first)["total"]["epsilon_spent"])
    assert 0.0 < float(spent) < float(epsilon(json.loads(second)["total"]["epsilon_spent"]))
    file.write_bytes(header)
    assert "epsilon 0 so far; " in last_words(folder)
    for torn in (b"", second[:-3], b"no line of ours\n"):
        file.write_bytes(header + first + torn)
        assert f"epsilon {spent} so far; " in last_words(folder)
    file.write_bytes(b"")
    assert "nothing was charged" in last_words(folder)
    assert last_words(None) == "nothing was charged: the first round had not begun"
