"""Runs that are ended from outside: Ctrl-C and SIGTERM, on every transport."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.record.format import epsilon
from admmnet.running.ends import last_words, terminating
from tests.people_runs import write_people
from tests.run_folders import made

from .launch import DEADLINE, Ended, begin, mpirun_path

pytestmark = pytest.mark.processes
AGENTS = 3
COMMANDS = {"local": [], "mpi": [mpirun_path(), "-n", str(AGENTS)], "zmq": []}


def signalled(
    transport: str, number: int, folder: Path, *, library: bool = False, round: int = 2, **more: int
) -> Ended:
    """Send a signal to a run once all its processes stand in a round."""
    os.mkfifo(folder / "arrived")
    settings: dict[str, Any] = {"data": write_people(folder / "people.npz"), "no_test": True, "no_account": True}
    settings |= {"epsilon": 5, "algorithm": "pp-admm", "rounds": 4, "agents": AGENTS, "transport": transport}
    settings |= {"out": str(folder / "run"), **more}
    flags = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in settings.items()]
    words = ["library", json.dumps(settings)] if library else ["run", *flags]
    command = [*COMMANDS[transport], sys.executable, "-m", "tests.processes.signalled_run", *words]
    arrived = os.open(folder / "arrived", os.O_RDWR)  # never at its end
    process = begin(*command, ADMMNET_ARRIVED=folder / "arrived", ADMMNET_ROUND=round)
    try:
        for _ in range(1 if transport == "local" else AGENTS):
            assert select.select([arrived], [], [], DEADLINE)[0]
            assert os.read(arrived, 1)
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
    finally:
        os.close(arrived)
        process.kill()
        process.wait()
    return Ended(process.returncode, out, err)


@pytest.mark.parametrize("transport", COMMANDS)
@pytest.mark.parametrize(
    ("number", "how", "code"), [(signal.SIGTERM, "ended by SIGTERM", 3), (signal.SIGINT, "interrupted", 130)]
)
def test_the_end_says_what_was_spent_and_how_to_go_on(
    transport: str, number: int, how: str, code: int, tmp_path: Path
) -> None:
    ended = signalled(transport, number, tmp_path)
    assert ended.code == code, ended.err
    (message,) = ended.messages
    assert message.startswith(f"admmnet: {how}; the ledgers hold everything that was sent: epsilon ")
    assert message.endswith(f", the largest of 3 agents; go on with `admmnet run --resume {tmp_path / 'run'}`")
    assert "Traceback" not in ended.err
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0
    books = read_run(tmp_path / "run").ledgers.values()
    spent = max(float(book.totals.epsilon_proven(book.delta)) for book in books if book.delta is not None)
    said = float(message.split("epsilon ")[1].split(" so far")[0])
    assert spent <= said <= spent * (1.0 + 1e-3)
    # and the command that it names goes on
    assert run_command_line(["run", "--resume", str(tmp_path / "run"), "--transport", "local", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("transport", "number"), [("local", signal.SIGTERM), ("mpi", signal.SIGINT), ("zmq", signal.SIGTERM)]
)
def test_the_library_says_so_too(transport: str, number: int, tmp_path: Path) -> None:
    """In the exception that its caller gets; of several ranks, in the message of the first."""
    ended = signalled(transport, number, tmp_path, library=True)
    assert ended.code != 0
    words = re.findall(r"the ledgers hold everything that was sent: epsilon [\d.]+ so far, .*", ended.err)
    assert len(words) == 1, ended.err
    assert words[0].endswith(f"go on with `admmnet run --resume {tmp_path / 'run'}`")
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


def test_before_the_first_charge_nothing_was_spent(tmp_path: Path) -> None:
    ended = signalled("local", signal.SIGTERM, tmp_path, round=0)
    (message,) = ended.messages
    assert ": epsilon 0 so far, the largest of 3 agents; " in message
    assert last_words(None) == "nothing was charged: the first round had not begun"


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
