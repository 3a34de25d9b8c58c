"""The last moment of a run on several hosts: whoever fails in it, nobody is stuck, and there is one model."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.identity.keys import Identity
from admmnet.record.finish import staged_statement
from tests.people_runs import write_people

from .launch import DEADLINE, Process, begin
from .test_everywhere import model
from .test_zmq_run import in_folders, network_of

pytestmark = pytest.mark.processes
WORDS = ("--algorithm", "pp-admm", "--rounds", "3", "--epsilon", "20", "--delta", "1e-4", "--private", "--no-test")
MORE = ("--no-account", "--quiet", "--checkpoint-every", "1", "--heartbeat-deadline", "2", "--shutdown-deadline", "10")
AGENTS, VICTIM = 3, 2


def same_words(folder: Path) -> tuple[str, ...]:
    return (*network_of(folder, AGENTS), "--data", write_people(folder / "people.npz"), *WORDS, *MORE)


class Hosts:
    """Agents on a path, of which the last one has a fault at the end."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self.words = folder, (*same_words(folder), *words)
        self.processes: dict[int, Process] = {}

    def start(self, agent: int, fault: str = "none:9:0") -> None:
        words = ["--id", str(agent), *self.words, "--resume", "auto", "-o", str(self.folder / str(agent))]
        module = "tests.processes.faulty_agent"
        self.processes[agent] = begin(sys.executable, "-m", module, "agent", *words, ADMMNET_FAULT=fault)

    def ended(self, agent: int) -> tuple[int, str]:
        _, told = self.processes[agent].communicate(timeout=DEADLINE)
        return self.processes[agent].returncode, told

    def check(self) -> None:
        """All have finished with one model, and every folder holds, alone and beside the others."""
        folders = [self.folder / str(i) for i in range(AGENTS)]
        assert len({model(folder)["theta"].tobytes() for folder in folders}) == 1
        for folder in folders:
            others = [word for other in folders if other != folder for word in ("--against", str(other))]
            assert run_command_line(["ledger", "verify", str(folder), *others]) == 0
            for book in read_run(folder).ledgers.values():
                assert book.count == len({(round, event.mechanism) for round, event, _ in book.events})


FEW = [("kill", 0, VICTIM), ("full", 0, VICTIM), ("kill", 1, VICTIM), ("kill", 2, VICTIM), ("full", 0, 1)]
ALL = [(how, point, victim) for how in ("kill", "full") for point in range(4) for victim in range(AGENTS)]


@pytest.mark.parametrize(("how", "point", "victim"), ALL if os.environ.get("ADMMNET_LIES") == "all" else FEW)
def test_the_others_finish_and_give_their_files(how: str, point: int, victim: int, tmp_path: Path) -> None:
    """At every point of the end; ``ADMMNET_LIES=all`` takes each agent and each point."""
    hosts = Hosts(tmp_path, "--linger", "600")  # much longer than anybody waits here
    for agent in range(AGENTS):
        hosts.start(agent, f"end-{how}:{victim}:{point}")
    code, told = hosts.ended(victim)
    assert code == (0 if how == "full" and point == 3 else 3 if how == "full" else -9), told
    hosts.start(victim)
    ends = [hosts.ended(agent) for agent in range(AGENTS)]
    assert [code for code, _ in ends] == [0] * AGENTS, ends
    hosts.check()


def test_who_was_away_longer_adopts(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, "--linger", "0")
    for agent in range(AGENTS):
        hosts.start(agent, f"end-kill:{VICTIM}:0")
    assert [hosts.ended(agent)[0] for agent in range(AGENTS)] == [0, 0, -9]
    own, other = tmp_path / str(VICTIM), tmp_path / "0"
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == 0
    hosts.check()
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert [code for code, _ in in_folders(folder, range(AGENTS), *same_words(folder))] == [0] * AGENTS
    return folder


def edited(path: Path, change: Callable[[Any], None]) -> None:
    said = json.loads(path.read_bytes())
    change(said)
    path.write_bytes(json.dumps(said, indent=2).encode() + b"\n")


def one_signature(said: Any) -> None:
    said["staged"] = {"0": said["staged"]["0"]}


def by_a_stranger(said: Any) -> None:
    said["staged"]["1"] = Identity.fresh().sign(staged_statement(said["run"], 1, said["digest"])).hex()


def of_another_run(said: Any) -> None:
    said["run"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("model", "model, rounds or ledgers are not those that the agents have signed"),
        (one_signature, "1 of 3 agents have signed, 2 must"),
        (by_a_stranger, "agent 1 has not signed this end"),
        (of_another_run, "is of another run"),
        ("ledger", "is not the ledger with which agent 2 finished"),
        ("missing", "has no finish.json"),
    ],
)
def test_an_end_that_is_none_is_not_adopted(
    change: Any, told: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = (Path(shutil.copytree(finished / str(i), tmp_path / str(i))) for i in (VICTIM, 0))
    for name in ("summary.json", "manifest.json", "finish.json", "model.npz"):
        (own / name).unlink()
    if change == "model":
        with np.load(other / "model.npz") as found:
            arrays = dict(found)
        np.savez(other / "model.npz", **arrays | {"theta": arrays["theta"] * (1.0 + 1e-15)})
    elif change == "ledger":
        ledger = own / "ledger/agent-002.jsonl"
        ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    elif change == "missing":
        (other / "finish.json").unlink()
    else:
        edited(other / "finish.json", change)
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == (2 if change == "missing" else 1)
    assert told in capsys.readouterr().err
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_an_encoding_of_another_agent_is_not_adopted(finished: Path, tmp_path: Path) -> None:
    """No signature covers it: its own, written before the first round, stays."""
    own, other = (Path(shutil.copytree(finished / str(i), tmp_path / str(i))) for i in (VICTIM, 0))
    for name in ("summary.json", "manifest.json", "finish.json", "model.npz"):
        (own / name).unlink()
    (own / "encoding.json").write_text("own\n")
    (other / "encoding.json").write_text("another\n")
    (other / "whitening.npy").write_text("another\n")
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == 0
    assert (own / "encoding.json").read_text() == "own\n"
    assert not (own / "whitening.npy").exists()
    assert (own / "model.npz").read_bytes() == (other / "model.npz").read_bytes()


def test_too_few_for_an_end_go_on_together(tmp_path: Path) -> None:
    """Two of three are killed as their last files are due: the third one waits for them, and all end again."""
    hosts = Hosts(tmp_path, "--linger", "40")
    hosts.start(0)
    for agent in (1, 2):
        hosts.start(agent, f"end-kill:{agent}:0")
    assert [hosts.ended(agent)[0] for agent in (1, 2)] == [-9, -9]
    for agent in (1, 2):
        hosts.start(agent)
    ends = [hosts.ended(agent) for agent in range(AGENTS)]
    assert [code for code, _ in ends] == [0] * AGENTS
    assert "has ended this start" in ends[0][1] or "is lost" in ends[0][1]
    hosts.check()
