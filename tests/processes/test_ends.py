"""Runs that are ended from outside: Ctrl-C, SIGTERM and SIGKILL, on every transport."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.record.format import epsilon
from admmnet.running.ends import last_words, terminating
from tests.people_runs import write_people
from tests.run_folders import made

from .launch import DEADLINE, Process, begin, mpirun_path
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


def send(number: int, process: Process, arrived: Path, processes: int) -> None:
    """Send a signal once so many processes stand in a round."""
    until = time.monotonic() + DEADLINE
    while len([*arrived.iterdir()]) < processes:
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(number)


@pytest.mark.parametrize(
    ("transport", "number", "how", "code"),
    [
        *((transport, signal.SIGTERM, "ended by SIGTERM", 3) for transport in ("local", "mpi", "zmq")),
        *((transport, signal.SIGINT, "interrupted", 130) for transport in ("local", "mpi", "zmq")),
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
    people, arrived = write_people(tmp_path / "people.npz"), tmp_path / "arrived"
    arrived.mkdir()
    place = Place(tmp_path, "run", *WORDS, "--data", people, transport=transport, account=False)
    place.begin(arrived=arrived, fault="hang:all:2")
    send(number, place.process, arrived, 1 if transport == "local" else 3)
    ended = place.ended()
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
    (arrived := tmp_path / "arrived").mkdir()
    folder = str(tmp_path / "run")
    process = begin(mpirun_path(), "-n", "3", sys.executable, "-c", LIBRARY, folder, ADMMNET_ARRIVED=arrived)
    send(signal.SIGTERM, process, arrived, 3)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.wait() != 0
    (found,) = re.findall(r"the ledgers hold everything that was sent: epsilon [\d.]+ so far, .*", err)
    assert found.endswith(f"go on with `admmnet run --resume {folder}`")
    assert run_command_line(["ledger", "verify", folder]) == 0


def test_a_program_that_handles_sigterm_keeps_its_handler() -> None:
    for mine in (lambda *_: None, signal.SIG_DFL):
        before = signal.signal(signal.SIGTERM, mine)
        with terminating():
            assert (signal.getsignal(signal.SIGTERM) is mine) is (mine is not signal.SIG_DFL)
        assert signal.signal(signal.SIGTERM, before) is mine


def test_spent_is_read_from_the_last_whole_line(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", rounds=2)
    file, *others = sorted((folder / "ledger").iterdir())
    for other in others:
        other.unlink()
    header, first, second, *_ = file.read_bytes().splitlines(keepends=True)
    spent = epsilon(json.loads(first)["total"]["epsilon_spent"])
    assert 0.0 < float(spent) < float(epsilon(json.loads(second)["total"]["epsilon_spent"]))
    for content, told in (
        (header, "epsilon 0 so far; "),
        *((header + first + torn, f"epsilon {spent} so far; ") for torn in (b"", second[:-3], b"no line of ours\n")),
        (b"", "nothing was charged"),
    ):
        file.write_bytes(content)
        assert told in last_words(folder)
    assert last_words(None) == "nothing was charged: the first round had not begun"
