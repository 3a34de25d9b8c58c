"""Agents that are started again: the run goes on, says why, and charges nothing twice."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from tests.people_runs import write_people

from .launch import admmnet
from .test_resume import KILLS, Crew, check_accounts, check_folder, check_sent, crew_messages

pytestmark = pytest.mark.processes
DIES = '''
import os, signal, threading, time
from pathlib import Path
from admmnet.methods.pp_admm import PPADMM

class Dies(PPADMM):
    """Kills its process in round 3, once, when all have the checkpoint of that round: others end with it."""

    def propose(self, agent, round):
        mark = Path(__file__).with_name("mark")
        if agent.id == 1 and round == 3 and not mark.exists():
            mark.touch()
            until, parts = time.monotonic() + 60.0, Path(__file__).with_name("run") / "checkpoint/000003"
            while len([*parts.glob("part-*.state")]) < 3 and time.monotonic() < until:
                threading.Event().wait(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return (yield from super().propose(agent, round))
'''


def test_a_killed_agent_is_named_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(DIES)
    out, log = tmp_path / "run", tmp_path / "log"
    words = ["--algorithm", f"{tmp_path / 'dies.py'}:Dies", "--rounds", "6", "--topology", "ring:3", "--quiet"]
    words += ["--out", str(out), "--log", str(log)]
    ended = admmnet(0, "run", "--transport", "zmq", "--resume", "auto", "--restarts", "2", *words)
    assert ended.code == 0, ended.err
    (said,) = ended.messages
    assert "the process of agent 1 was ended by SIGKILL" in said
    assert said.endswith("; start 2 of 3 follows")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    starts = [(one["start"], one["round"]) for one in events if one["event"] == "start"]
    assert sorted(set(starts)) == [(1, 0), (2, 3)]
    assert {one["agent"] for one in events if one["event"] == "start"} == {0, 1, 2}
    assert run_command_line(["ledger", "verify", str(out)]) == 0
    charged = [json.loads(line) for line in (out / "ledger" / "agent-001.jsonl").read_text().splitlines()]
    rounds = [line["round"] for line in charged if line["kind"] == "event"]
    assert sorted(set(rounds)) == [*range(6)]
    assert len(rounds) == 6 * rounds.count(0)  # as often as in a run of one start


@pytest.mark.timeout(240 + 30 * KILLS)
def test_agents_killed_at_random_instants_are_started_again(tmp_path: Path) -> None:
    """The run ends by itself, and with exit code 3 only where more were killed than may start again."""
    stream, agents, restarts = np.random.default_rng(KILLS), 5, 2
    words = f"--topology ring:{agents} --rounds 40 --algorithm pp-admm --epsilon 20 --delta 1e-4 --checkpoint-every 2"
    words += f" --quiet --no-test --data {write_people(tmp_path / 'people.npz', 160)}"
    start = ["run", "--transport", "zmq", "--resume", "auto", "--restarts", str(restarts)]
    kills, trial, enough, whole = 0, 0, max(2, KILLS // 2), math.inf
    while kills < enough:  # nobody is killed in the first one, which tells how long they take
        folder, account, log = (tmp_path / f"{name}{trial}" for name in ("run", "account", "log"))
        files = ["--account", str(account), "--out", str(folder)]
        trial, own, code, begun = trial + 1, 0, -1, time.monotonic()
        while code:
            crew, here = Crew(log, *start, *words.split(), *files), 0
            while kills + own + here < enough:
                due = time.monotonic() + float(stream.uniform(0.01, 1.0)) * whole
                if not crew.wait(lambda: time.monotonic() > due):  # noqa: B023 (used at once)
                    break
                here += crew.kill(int(stream.integers(agents)))
            code, own = crew.ended(), own + here
            assert code == 0 or (code == 3 and here > restarts), crew.told
            books = check_folder(folder)
            check_sent(crew_messages(log), books, "pp-admm", own)
            check_accounts(books, account, "pp-admm")
        assert read_run(folder).summary is not None
        kills, whole = kills + own, min(whole, time.monotonic() - begun)


def test_what_cannot_be_started_again_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "--restarts", "1", "--transport", "local"]) == 2
    assert "--restarts goes with --transport zmq --out DIR --resume auto" in capsys.readouterr().err
