"""Agents and ranks that are started again: the run goes on, says why, and charges nothing twice."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.cli.launch import alive, started
from tests.people_runs import write_people

from .launch import DEADLINE, ROOT, admmnet
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


@pytest.mark.parametrize("transport", ["mpi", "zmq"])
def test_a_killed_agent_is_named_and_the_run_goes_on(transport: str, tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(DIES)
    out, log = tmp_path / "run", tmp_path / "log"
    words = ["--algorithm", f"{tmp_path / 'dies.py'}:Dies", "--rounds", "6", "--topology", "ring:3", "--quiet"]
    words += ["--out", str(out), "--log", str(log)]
    again = ["--restarts", "2"]
    if transport == "mpi":
        ended = admmnet(0, "launch", "-n", "3", *again, "--", "run", *words)
        named = "rank 1 (process "
    else:
        ended = admmnet(0, "run", "--transport", "zmq", "--resume", "auto", *again, *words)
        named = "the process of agent 1 was ended by SIGKILL"
    assert ended.code == 0, ended.err
    (said,) = ended.messages
    assert named in said
    assert said.endswith("; start 2 of 3 follows")
    assert not (out / "alive").exists()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    starts = [(one["start"], one["round"]) for one in events if one["event"] == "start"]
    assert sorted(set(starts)) == [(1, 0), (2, 3)]
    assert {one["agent"] for one in events if one["event"] == "start"} == ({None} if transport == "mpi" else {0, 1, 2})
    assert run_command_line(["ledger", "verify", str(out)]) == 0
    charged = [json.loads(line) for line in (out / "ledger" / "agent-001.jsonl").read_text().splitlines()]
    rounds = [line["round"] for line in charged if line["kind"] == "event"]
    assert sorted(set(rounds)) == [*range(6)]
    assert len(rounds) == 6 * rounds.count(0)  # as often as in a run of one start


@pytest.mark.timeout(240 + 30 * KILLS)
@pytest.mark.parametrize("transport", ["mpi", "zmq"])
def test_agents_killed_at_random_instants_are_started_again(transport: str, tmp_path: Path) -> None:
    """The run ends by itself, and with exit code 3 only where more were killed than may start again."""
    stream, agents, restarts = np.random.default_rng(KILLS), 5, 2
    words = f"--topology ring:{agents} --rounds 40 --algorithm pp-admm --epsilon 20 --delta 1e-4 --checkpoint-every 2"
    words += f" --quiet --no-test --data {write_people(tmp_path / 'people.npz', 160)}"
    launch = ["launch", "-n", str(agents), "--restarts", str(restarts)]
    launch += ["--mpirun", f"{sys.executable} -m tests.processes.logged_agent mpirun", "--", "run"]
    start = ["run", "--transport", "zmq", "--resume", "auto", "--restarts", str(restarts)]
    kills, trial, enough, whole = 0, 0, max(2, KILLS // 2), math.inf
    while kills < enough:  # nobody is killed in the first one, which tells how long they take
        folder, account, log = (tmp_path / f"{name}{trial}" for name in ("run", "account", "log"))
        files = ["--account", str(account), "--out", str(folder)]
        trial, own, code, begun = trial + 1, 0, -1, time.monotonic()
        while code:
            crew, here = Crew(log, *(launch if transport == "mpi" else start), *words.split(), *files), 0
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


@pytest.mark.parametrize(("codes", "code", "starts"), [((2,), 2, 1), ((5,), 5, 1), ((3, 0), 0, 2), ((9, 9, 9), 3, 3)])
def test_only_what_may_end_otherwise_is_started_again(
    codes: tuple[int, ...], code: int, starts: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The launcher is a stand-in that ends with these codes, one a start, and leaves a rank that said nothing."""
    program = (
        "import pathlib, sys; folder = pathlib.Path(sys.argv[1]); ended = len(list(folder.glob('ended-*')));"
        "(folder / f'ended-{ended}').touch(); (folder / 'alive').mkdir();"
        "(folder / 'alive/rank-004.json').write_text(sys.argv[2]); sys.exit(int(sys.argv[3 + ended]))"
    )
    said = json.dumps({"rank": 4, "pid": 1, "host": "elsewhere", "round": 7, "code": None})
    command = [sys.executable, "-c", program, str(tmp_path), said, *map(str, codes)]
    assert started(command, tmp_path / "alive", restarts=2) == code
    assert len(list(tmp_path.glob("ended-*"))) == starts
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == starts - (code in (0, 2, 5))
    for line in lines:
        assert "rank 4 (process 1 on elsewhere) was killed, last seen in round 7" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_ranks(number: int, tmp_path: Path) -> None:
    begins = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
    waits = "try: print('here', flush=True); signal.pause()\nfinally: print('gone', flush=True)"
    stand_in = tmp_path / "waits.py"
    stand_in.write_text(f"{begins}\n{waits}\n")
    words = ["-m", "admmnet", "launch", "-n", "2", "--restarts", "3", "--mpirun", f"{sys.executable} {stand_in}"]
    process = subprocess.Popen(
        [sys.executable, *words, "--", "run", "-o", str(tmp_path / "run")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in background jobs
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            process.send_signal(number)
            out, err = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert (process.returncode, out) == (130 if number == signal.SIGINT else 3, "gone\n")
    assert "admmnet: " not in err  # the ranks have said it


def test_a_rank_says_where_it_is_once_a_second(tmp_path: Path) -> None:
    now, seen = [100.0], []
    take = alive(2, lambda: now[0])
    take({"event": "line-up", "run": None, "round": None})
    told = [(100.0, "start", 0), (100.5, "round", 1), (101.5, "round", 2), (101.6, "error", 3), (101.7, "finished", 4)]
    for now[0], event, round in told:
        take({"event": event, "run": str(tmp_path), "round": round, "code": 4 if event == "error" else None})
        said = json.loads((tmp_path / "alive" / "rank-002.json").read_text())
        assert (said["rank"], said["pid"]) == (2, os.getpid())
        seen.append((said["round"], said["code"]))
    assert seen == [(0, None), (0, None), (2, None), (3, 4), (4, 0)]


def test_what_cannot_be_launched_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("run",), ("run", "--out", "a", "--resume", "auto"), ("compare", "--out", "a")):
        assert run_command_line(["launch", "-n", "2", "--", *words]) == 2
        assert "give the words of a run behind --" in capsys.readouterr().err
    assert run_command_line(["run", "--restarts", "1", "--transport", "local"]) == 2
    assert "--restarts goes with --transport zmq --out DIR --resume auto" in capsys.readouterr().err
