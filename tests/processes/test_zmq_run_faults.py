"""A whole run over ZeroMQ when something goes wrong: who says so, how it ends, what the ledgers hold."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from tests.people_runs import write_people

from .launch import Ended, begin, here, start
from .test_everywhere import assert_same
from .test_spawn import children_of, wait_for

pytestmark = pytest.mark.processes
DEADLINE = 60.0
"""Seconds; these runs take two to ten, most of them waiting for one of the deadlines below."""
PLAIN = ("--algorithm", "pp-admm", "--rounds", "4", "--seed", "3", "--quiet")
WORDS = (*PLAIN, "--heartbeat-deadline", "1", "--shutdown-deadline", "3")
PATH = ("--topology", "path:3")


def people(folder: Path) -> tuple[str, ...]:
    """Words for a few public records beside a run folder."""
    return "--data", write_people(folder.parent / "people.npz"), "--simulate"


def faulty(fault: str, folder: Path, *words: str) -> Ended:
    """Run three agents, one of them with a fault (``faulty_agent``)."""
    module = (sys.executable, "-m", "tests.processes.faulty_agent", "run", fault)
    return start(*module, *WORDS, *people(folder), *words, "-o", str(folder), deadline=DEADLINE)


def whole(folder: Path, *words: str) -> Path:
    """Folder of such a run in one process, without a fault."""
    assert run_command_line(["run", *PLAIN, *people(folder), *words, "-o", str(folder)]) == 0
    return folder


def assert_unfinished_but_sound(folder: Path) -> None:
    assert not (folder / "summary.json").exists()
    assert run_command_line(["ledger", "verify", str(folder)]) == 0
    assert not all(account.finished for account in read_run(folder).ledgers.values())


# an agent is lost


PATIENT = ("--heartbeat-deadline", "1000", "--connect-deadline", "1000")
"""Only the starter's word of a death comes within the tests' own deadline."""


@pytest.mark.parametrize(
    ("fault", "words", "reason"),
    [
        ("kill:1:2", PATIENT, "the process of agent 1 was ended by SIGKILL"),
        ("stop:1:2", (), "the process or host of agent 1 has ended, or cannot be reached"),
        ("hang:1:2", ("--round-deadline", "5"), "the part of agent 1 did not come within 5 s"),
    ],
    ids=["kill", "stop", "hang"],
)
def test_a_lost_agent_ends_all(fault: str, words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    assert_ends_all(faulty(fault, tmp_path / "run", *PATH, *words), 3, reason, tmp_path / "run")


def test_an_agent_killed_while_the_network_connects(tmp_path: Path) -> None:
    ended = faulty("start:1:0", tmp_path / "run", *PATH, *PATIENT)
    assert ended.code == 3, ended.err
    (message,) = ended.messages
    assert message == "admmnet: the process of agent 1 was ended by SIGKILL"
    assert not (tmp_path / "run").exists()


def assert_ends_all(ended: Ended, code: int, message: str, folder: Path) -> None:
    assert ended.code == code, ended.err
    assert len(ended.messages) == 1, ended.err
    assert ended.messages[0].startswith(f"admmnet: {message}")
    assert "Traceback" not in ended.err
    assert_unfinished_but_sound(folder)


# an agent fails by itself


@pytest.mark.parametrize(
    ("fault", "message"),
    [("fail:1:2", "the cable is cut"), ("full:1:2", "cannot write the ledger")],
    ids=["error", "full-disk"],
)
def test_an_agent_that_fails_ends_all(fault: str, message: str, tmp_path: Path) -> None:
    assert_ends_all(faulty(fault, tmp_path / "run", *PATH), 3, message, tmp_path / "run")


def test_only_monotonic_clocks_matter(tmp_path: Path) -> None:
    ended = faulty("clock:1:1", tmp_path / "run", *PATH)
    assert (ended.code, ended.messages) == (0, []), ended.err
    assert_same(whole(tmp_path / "local", *PATH), tmp_path / "run")


# what is wrong before the first round


def own_files(folder: Path, agents: Sequence[int], *, spoiled: int | None = None) -> tuple[str, ...]:
    """Settings of a run in which every agent has a file; some may lack theirs, one may hold a nan."""
    stream = np.random.default_rng(5)
    for name in (*map(str, agents), "test"):
        X = stream.uniform(-1, 1, (60, 3))
        if name == str(spoiled):
            X[7, 1] = np.nan
        np.savez(folder / f"{name}.npz", X=X, y=np.where(X[:, 0] > 0, 1, -1))
    settings = folder / "settings.toml"
    settings.write_text("[data.schema]\nlabels = [-1, 1]\nfeatures = 3\n")
    return (str(settings), "--data", str(folder / "{agent}.npz"), "--test", str(folder / "test.npz"))


def refused(capsys: pytest.CaptureFixture[str], code: int, folder: Path, *words: str) -> str:
    """What a run over zmq says, once, that ends before there is a folder."""
    ended = here(capsys, "run", *WORDS, *PATH, *words, "--transport", "zmq", "-o", str(folder))
    assert ended.code == code, ended.err
    assert not folder.exists()
    (message,) = ended.messages
    return message


@pytest.mark.parametrize(("agents", "spoiled"), [((0, 2), None), ((0, 1, 2), 1)], ids=["missing", "nan"])
def test_the_data_of_one_agent(
    agents: tuple[int, ...], spoiled: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = own_files(tmp_path, agents, spoiled=spoiled)
    assert "1.npz" in refused(capsys, 2, tmp_path / "run", *words)


@pytest.mark.parametrize(("epsilon", "code"), [("0", 2), ("1e-170", 4)])
def test_a_budget_for_nothing(epsilon: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (*people(tmp_path / "run"), "--method", "published", "--epsilon", epsilon)
    assert "epsilon" in refused(capsys, code, tmp_path / "run", *words)


# the starter


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_starter_is_the_end_of_all(
    number: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    os.mkfifo(tmp_path / "arrived")
    sockets = tmp_path_factory.mktemp("s")
    words = (*WORDS, *people(tmp_path / "run"), *PATH, "-o", str(tmp_path / "run"))
    command = (sys.executable, "-m", "tests.processes.faulty_agent", "run", "hang:1:2", *words)
    process = begin(*command, ADMMNET_ARRIVED=tmp_path / "arrived", TMPDIR=sockets)
    try:
        arrived = os.open(tmp_path / "arrived", os.O_RDONLY | os.O_NONBLOCK)
        assert select.select([arrived], [], [], DEADLINE)[0]  # one agent hangs in round 2
        os.close(arrived)
        agents = children_of(process.pid)
        assert len(agents) == 3
        handles = [os.pidfd_open(pid) for pid in agents]
        process.send_signal(number)
        _, error = process.communicate(timeout=DEADLINE)
        for handle in handles:
            assert wait_for(handle, DEADLINE)
            os.close(handle)
    finally:
        process.kill()
        process.wait()
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        code, how = (3, "ended by SIGTERM") if number == signal.SIGTERM else (130, "interrupted")
        assert process.returncode == code, error
        assert error.strip().startswith(f"admmnet: {how}; the ledgers hold everything that was sent: epsilon ")
    assert_unfinished_but_sound(tmp_path / "run")
    assert list(sockets.iterdir()) == []  # sockets and settings are gone, whoever had to remove them
