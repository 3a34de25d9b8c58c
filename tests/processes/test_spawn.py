"""The starter of agents, with small programs in their place: what it passes on, how it ends, what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from admmnet import RequestError, RunConfig, RunError, run
from admmnet.errors import BudgetError
from admmnet.running import spawn
from admmnet.running.events import OnRound, RoundEvent
from admmnet.running.reports import AgentReport
from admmnet.running.spawn import ProcessEnd, Starter, environment

pytestmark = pytest.mark.processes
QUICK = 15.0
"""Seconds; each of these takes less than two."""

HEAD = """
import os, select, signal, sys, time
parent, report = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--parent", "--report"))
def say(text): os.write(report, text.encode() + b"\\n")
def wait(): os.read(parent, 1)
def fail(code, *lines): print(*lines, sep="\\n", file=sys.stderr); sys.exit(code)
def kill(): os.kill(os.getpid(), signal.SIGKILL)
"""
WAITS = "wait()"
DEAF = "signal.signal(signal.SIGINT, lambda *_: None); signal.signal(signal.SIGTERM, lambda *_: None)"
STARTED = "say('{}')"


def starter(
    *programs: str, on_round: OnRound | None = None, start: Callable[[], None] = lambda: None, heartbeat: float = 0.2
) -> Starter:
    config = RunConfig(transport="zmq", heartbeat_deadline=heartbeat, shutdown_deadline=0.3)
    commands = [[sys.executable, "-c", HEAD + program] for program in programs]
    return Starter(commands, config.sections.network, lambda said: start(), on_round)


def in_time(one: Starter) -> dict[int, ProcessEnd]:
    begin = time.monotonic()
    ends = one.run()
    assert time.monotonic() - begin < QUICK
    return {end.agent: end for end in ends}


def test_every_round_is_passed_on_once_whoever_reports_it() -> None:
    seen: list[object] = []
    events = [RoundEvent(t, 3, 0.25, None, {0: 0.5}, {0: t, 1: 2}, (1,)) for t in range(3)]
    said = [msgspec.json.encode(AgentReport(event)).decode() for event in (None, *events)]
    words = f"[say(text) for text in {said}]"
    in_time(starter(words, words, start=lambda: seen.append("start"), on_round=seen.append))
    assert seen == ["start", *events]


def test_those_who_stay_behind_are_ended() -> None:
    ends = in_time(starter("fail(3, 'admmnet: agent 0 is lost', 'x' * 300_000)", WAITS, f"{DEAF}; {WAITS}"))
    assert [ends[agent].code for agent in range(3)] == [3, -signal.SIGTERM, -signal.SIGKILL]
    assert ends[0].text == f"admmnet: agent 0 is lost\n{'x' * 300_000}\n"  # much text does not stop an agent


def test_what_an_agent_has_said_before_it_had_to_be_ended_is_told(tmp_path: Path) -> None:
    said = str(tmp_path / "said")
    os.mkfifo(said)
    ended = "signal.signal(signal.SIGTERM, lambda *_: fail(3, 'admmnet: ended by SIGTERM'))"
    says = f"{ended}; print('admmnet: found', file=sys.stderr, flush=True); open({said!r}, 'w').close()"
    assert in_time(starter(f"open({said!r}).read(); fail(3)", f"{says}; wait()"))[1].text == "admmnet: found\n"


def test_a_killed_agent_gives_the_others_time_to_notice() -> None:
    """Longer than a shutdown deadline, shorter than it and a heartbeat deadline together."""
    notices = "select.select([parent], [], [], 1.0); fail(3, 'admmnet: agent 0 was lost')"
    ends = in_time(starter("kill()", notices, heartbeat=QUICK))
    assert [ends[0].code, ends[1].code] == [-signal.SIGKILL, 3]


def test_a_killed_agent_is_told_of_at_once_and_one_that_said_why_itself_is_not() -> None:
    gone: list[tuple[int, str]] = []
    for program in ("kill()", "fail(3, 'admmnet: by myself')"):
        one = starter(program, WAITS)
        one.gone = lambda agent, how: gone.append((agent, how))
        assert in_time(one)[1].code == -signal.SIGTERM
    assert gone == [(0, "was ended by SIGKILL")]


def test_an_error_of_ours_ends_the_agents() -> None:
    def refuse() -> None:
        raise OSError("no such file")

    begin = time.monotonic()
    with pytest.raises(OSError, match="no such file"):
        starter(f"{STARTED}; {WAITS}", f"{DEAF}; {WAITS}", start=refuse).run()
    assert time.monotonic() - begin < QUICK


AS_A_PROGRAM = """
from tests.processes.test_spawn import DEAF, STARTED, WAITS, starter
from admmnet.running.ends import terminating
with terminating():
    starter(WAITS, f"{DEAF}; {STARTED}; {WAITS}", start=lambda: print("started", flush=True), heartbeat=60).run()
"""


def test_a_signal_reaches_all_and_ends_them() -> None:
    process = subprocess.Popen([sys.executable, "-c", AS_A_PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=QUICK)
    assert b"Terminated" in err
    assert process.returncode != 0
    assert len(children) == 2
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


def test_agents_know_nothing_of_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PMI_SIZE", "5"), ("OMPI_COMM_WORLD_SIZE", "5"), ("PYTHONPATH", "elsewhere")):
        monkeypatch.setenv(name, value)
    values = environment()
    assert not {name for name in values if name.startswith(("PMI", "OMPI"))}
    here, other = values["PYTHONPATH"].split(os.pathsep)
    assert (Path(here) / "admmnet" / "__init__.py").is_file()
    assert other == "elsewhere"


# what the ends mean


def judge(*ends: tuple[int, str]) -> None:
    spawn._judge([ProcessEnd(agent, code, text) for agent, (code, text) in enumerate(ends)])


LOST = "admmnet: agent 1 was lost in round 3: it ended\n"


@pytest.mark.parametrize(
    ("ends", "kind", "message"),
    [
        ([(3, LOST), (-9, ""), (3, LOST)], RunError, "agent 1 was lost in round 3: it ended"),
        ([(3, LOST), (2, "admmnet: no such file\n")], RequestError, "no such file\nadmmnet: " + LOST[9:-1]),
        ([(4, "admmnet: no round\n")] * 3, BudgetError, "no round"),
        ([(3, "admmnet: one\ntwo\n")], RunError, "one\ntwo"),
        ([(-9, ""), (-15, "")], RunError, "the process of agent 0 was ended by SIGKILL"),
        ([(7, ""), (7, "")], RunError, "the process of agent 0 ended with exit code 7"),
        ([(130, "admmnet: interrupted; the ledgers hold\n"), (-9, "")], KeyboardInterrupt, ""),
    ],
)
def test_the_end_that_explains_most(
    ends: list[tuple[int, str]], kind: type[BaseException], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind) as caught:
        judge(*ends)
    assert str(caught.value).startswith(message)
    assert caught.type is kind
    assert capsys.readouterr().err == ""


def test_one_that_finished_has_seen_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """Texts are passed on once, other than ours as they are."""
    said = "Warning: odd\nadmmnet: the others went on without agent 2\n"
    judge((0, ""), (-9, ""), (3, said), (3, said))
    assert capsys.readouterr().err == said


def test_what_is_refused_before_a_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader in memory, which agents cannot see; a folder that is too deep for sockets."""
    config = RunConfig(transport="zmq", out=str(tmp_path / "run"))
    with pytest.raises(RequestError, match="cannot see the records of a loader in memory"):
        run(config, loader=lambda *_: pytest.fail("it was asked"))
    (deep := tmp_path / ("x" * 100)).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(RequestError, match="too long a path for sockets; set TMPDIR"):
        run(config)
    assert [*deep.iterdir()] == []
    assert not (tmp_path / "run").exists()
