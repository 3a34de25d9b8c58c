"""What becomes of a whole run over ZeroMQ when something goes wrong: who says so, how it ends, what the ledgers hold.

The table of docs/wire.md names these tests.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunFolder, read_run
from admmnet.cli import run_command_line
from tests.folder_forms import check_folder
from tests.people_runs import write_people

from .launch import Ended, begin, here, start
from .test_everywhere import assert_same
from .test_spawn import children_of, wait_for

pytestmark = pytest.mark.processes
DEADLINE = 60.0
"""Seconds; these runs take two to ten, most of them waiting for one of the deadlines below."""
PLAIN = ("--algorithm", "pp-admm", "--rounds", "4", "--seed", "3", "--quiet")
WORDS = (*PLAIN, "--heartbeat-deadline", "1", "--shutdown-deadline", "3")
PATH, ALL = ("--topology", "path:3"), ("--topology", "complete:3")
CONTINUE = ("--on-loss", "continue")


def people(folder: Path) -> tuple[str, ...]:
    """Words for a few public records beside a run folder."""
    return "--data", write_people(folder.parent / "people.npz"), "--simulate"


def faulty(fault: str, folder: Path, *words: str) -> Ended:
    """Run three agents, one of them with a fault (``faulty_agent``)."""
    module = (sys.executable, "-m", "tests.processes.faulty_agent", "run", fault)
    return start(*module, *WORDS, *people(folder), *words, "-o", str(folder), deadline=DEADLINE)


def gone_on(fault: str, folder: Path, *words: str, says: str = "") -> RunFolder:
    """Folder of such a run in which the others go on, with what one of them says at most; its ledgers verify."""
    ended = faulty(fault, folder, *words, *CONTINUE)
    assert ended.code == 5, ended.err
    assert [message.startswith(f"admmnet: {says}") for message in ended.messages] == [True] * bool(says), ended.err
    assert run_command_line(["ledger", "verify", str(folder)]) == 0
    found = read_run(folder)
    assert found.summary is not None
    return found


def lost_at(found: RunFolder) -> list[int | None]:
    assert found.summary is not None
    return [entry.lost_at for entry in found.summary.per_agent]


def whole(folder: Path, *words: str) -> Path:
    """Folder of such a run in one process, without a fault."""
    assert run_command_line(["run", *PLAIN, *people(folder), *words, "-o", str(folder)]) == 0
    return folder


def assert_unfinished_but_sound(folder: Path) -> None:
    assert not (folder / "summary.json").exists()
    assert run_command_line(["ledger", "verify", str(folder)]) == 0
    assert not all(account.finished for account in read_run(folder).ledgers.values())


def rounds_of(folder: Path) -> list[int]:
    rows = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()[1:]]
    return [int(row[0]) for row in rows if row[1] == "-1"]


# an agent is lost


PATIENT = ("--heartbeat-deadline", "1000", "--connect-deadline", "1000")
"""Only the starter's word of a death comes within the tests' own deadline."""


@pytest.mark.parametrize(
    ("fault", "words", "reason"),
    [
        ("kill:1:2", PATIENT, "agent 1 is lost in round 2: its process was ended by SIGKILL"),
        ("stop:1:2", (), "agent 1 is lost in round 2: its process or host has ended, or cannot be reached"),
        ("hang:1:2", ("--round-deadline", "5"), "agent 1 is lost in round 2: its host answers"),
    ],
    ids=["kill", "stop", "hang"],
)
def test_a_lost_agent_ends_all(fault: str, words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    assert_ends_all(faulty(fault, tmp_path / "run", *PATH, *words), 3, reason, tmp_path / "run")


def test_an_agent_killed_while_the_network_connects(tmp_path: Path) -> None:
    ended = faulty("start:1:0", tmp_path / "run", *PATH, *PATIENT)
    assert ended.code == 3, ended.err
    (message,) = ended.messages
    assert message == (
        "admmnet: the process of agent 1 was ended by SIGKILL before the first round: nothing was charged; start again"
    )
    assert not (tmp_path / "run").exists()


def assert_ends_all(ended: Ended, code: int, message: str, folder: Path) -> None:
    assert ended.code == code, ended.err
    assert len(ended.messages) == 1, ended.err
    assert ended.messages[0].startswith(f"admmnet: {message}")
    assert "Traceback" not in ended.err
    assert_unfinished_but_sound(folder)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunFolder]:
    """Folder of a run of three that goes on after a fault."""
    return cache(lambda fault: gone_on(fault, tmp_path_factory.mktemp("lost") / "run", *ALL))


@pytest.mark.parametrize("fault", ["kill:0:2", "stop:2:2"])
def test_the_others_go_on_without_a_lost_agent(fault: str, without: Callable[[str], RunFolder]) -> None:
    lost, folder = int(fault.split(":")[1]), without(fault)
    assert lost_at(folder) == [2 if i == lost else None for i in range(3)]
    assert json.loads((folder.path / "lost.json").read_text()) == {str(lost): 2}
    check_folder(folder.path)
    # nothing is said of the model of before, and the mean is of those that hold the answer
    summary: Any = folder.summary
    error, shown = summary["test_error"], [entry["test_error"] for entry in summary["per_agent"]]
    assert shown == [None if i == lost else error["consensus"] for i in range(3)]
    assert (error["mean"], error["std"]) == (error["consensus"], 0.0)
    # the lost agent's ledger stands, and its charges of the round that nobody heard of, too
    accounts = list(folder.ledgers.values())
    assert [account.finished for account in accounts] == [i != lost for i in range(3)]
    # the answer is the average of those that went on, at all of them
    with np.load(folder.path / "model.npz") as model:
        assert (model["theta"] == model["consensus"]).all()
    assert {round for round, _, _ in accounts[lost].events} >= {0, 1}
    assert any(f"agent {lost} was lost in round 2" in note for note in summary["notes"])
    assert rounds_of(folder.path) == [0, 1, 2, 3]


def test_the_last_value_of_a_lost_agent_is_kept(without: Callable[[str], RunFolder], tmp_path: Path) -> None:
    folders = without("stop:2:2").path, whole(tmp_path / "whole", *ALL)
    lines = [(folder / "metrics.csv").read_text().splitlines() for folder in folders]
    heard = 1 + 2 * 4  # header, and two rounds of three agents and the network
    assert lines[0][:heard] == lines[1][:heard]
    assert lines[0][heard:] != lines[1][heard:]
    # its figures stay what they were when it was last heard
    before, *after = [line.split(",")[2:] for line in lines[0][heard - 4 :] if line.split(",")[1] == "2"]
    assert [row[:3] for row in after] == [before[:3]] * 2
    with np.load(folders[0] / "model.npz") as model:
        assert np.isfinite(model["theta"]).all()
        assert np.abs(model["theta"][2]).max() > 0.0


@pytest.mark.parametrize("lost", [0, 1])
def test_a_joining_gate_goes_on_without_a_core_member_or_a_relay(lost: int, tmp_path: Path) -> None:
    """On a ring the core 0, 2, 4 has the relay 1 or 3 between its parts; each of those two is asked."""
    words = ("--algorithm", "ipp-admm", "--split", "sizes:16:1:16:1:18", "--topology", "ring:5", "--epsilon", "20")
    folder = gone_on(f"kill:{lost}:2", tmp_path / "run", *words, "--gate-threshold", "0.25")
    assert lost_at(folder) == [2 if i == lost else None for i in range(5)]
    assert folder.summary is not None
    entries = folder.summary.per_agent
    assert [entries[i]["joined_at"] for i in (0, 2, 4) if i != lost] == [0] * (3 - (lost == 0))
    assert rounds_of(tmp_path / "run") == [0, 1, 2, 3]
    with np.load(tmp_path / "run" / "model.npz") as model:
        assert np.isfinite(model["theta"]).all()


def test_of_a_network_that_falls_apart_one_part_goes_on(tmp_path: Path) -> None:
    ended = faulty("kill:1:2", tmp_path / "run", *PATH, *CONTINUE)
    assert ended.code == 5, ended.err
    folder = read_run(tmp_path / "run")
    assert lost_at(folder) == [None, 2, 2]
    assert rounds_of(tmp_path / "run") == [0, 1, 2, 3]
    assert [account.finished for account in folder.ledgers.values()] == [True, False, False]


# an agent fails by itself


@pytest.mark.parametrize(
    ("fault", "message"),
    [("fail:1:2", "the cable is cut"), ("full:1:2", "cannot write the ledger")],
    ids=["error", "full-disk"],
)
def test_an_agent_that_fails_ends_all(fault: str, message: str, tmp_path: Path) -> None:
    assert_ends_all(faulty(fault, tmp_path / "run", *PATH), 3, message, tmp_path / "run")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("interrupt:1:2", "interrupted; the ledgers hold everything that was sent"),
        ("full:0:2", "cannot write the ledger"),
    ],
    ids=["interrupt", "full-disk-of-the-writer"],
)
def test_the_others_go_on_without_an_agent_that_fails(fault: str, message: str, tmp_path: Path) -> None:
    """What ends an agent is its own affair: the others neither end nor have its exit code."""
    failed, folder = int(fault.split(":")[1]), gone_on(fault, tmp_path / "run", *ALL, says=message)
    assert lost_at(folder) == [2 if i == failed else None for i in range(3)]


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
