"""The starter of agents, with small programs in their place: what it passes on, how it ends, what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
import os, signal, sys, time
parent, report = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--parent", "--report"))
def say(text): os.write(report, text.encode() + b"\\n")
def wait(): os.read(parent, 1)
def fail(code, *lines): print(*lines, sep="\\n", file=sys.stderr); sys.exit(code)
"""
WAITS = "wait()"
DEAF = "signal.signal(signal.SIGINT, lambda *_: None); signal.signal(signal.SIGTERM, lambda *_: None)"
STUBBORN = f"{DEAF}; wait()"
STARTED = "say('{}')"


def config(**values: Any) -> RunConfig:
    deadlines: dict[str, Any] = {"heartbeat_deadline": 0.2, "shutdown_deadline": 0.3}
    return RunConfig(transport="zmq", **(deadlines | values))


def starter(
    *programs: str, on_round: OnRound | None = None, start: Callable[[], None] = lambda: None, **values: float | str
) -> Starter:
    commands = [[sys.executable, "-c", HEAD + program] for program in programs]
    return Starter(commands, config(**values).sections.network, lambda said: start(), on_round)


def in_time(work: Callable[[], list[ProcessEnd]]) -> dict[int, ProcessEnd]:
    begin = time.monotonic()
    ends = work()
    assert time.monotonic() - begin < QUICK
    return {end.agent: end for end in ends}


def test_every_round_is_passed_on_once_whoever_reports_it() -> None:
    seen: list[object] = []
    events = [RoundEvent(t, 3, 0.25, None, {0: 0.5}, {0: t, 1: 2}, (1,)) for t in range(3)]
    said = [msgspec.json.encode(AgentReport(event)).decode() for event in (None, *events)]
    words = f"[say(text) for text in {said}]"
    in_time(starter(words, words, start=lambda: seen.append("start"), on_round=seen.append).run)
    assert seen == ["start", *events]


def test_those_who_stay_behind_are_ended() -> None:
    ends = in_time(starter("fail(3, 'admmnet: agent 0 is lost', 'x' * 300_000)", WAITS, STUBBORN).run)
    assert [ends[agent].code for agent in range(3)] == [3, -signal.SIGTERM, -signal.SIGKILL]
    assert ends[0].text == f"admmnet: agent 0 is lost\n{'x' * 300_000}\n"  # much text does not stop an agent


def test_what_an_agent_has_said_before_it_had_to_be_ended_is_told(tmp_path: Path) -> None:
    said = str(tmp_path / "said")
    os.mkfifo(said)
    ended = "signal.signal(signal.SIGTERM, lambda *_: fail(3, 'admmnet: ended by SIGTERM'))"
    says = f"{ended}; print('admmnet: found', file=sys.stderr, flush=True); open({said!r}, 'w').close()"
    ends = in_time(starter(f"open({said!r}).read(); fail(3)", f"{says}; wait()").run)
    assert ends[1].text == "admmnet: found\n"


def test_a_killed_agent_gives_the_others_time_to_notice() -> None:
    # longer than a shutdown deadline, shorter than it and a heartbeat deadline together
    notices = "import select; select.select([parent], [], [], 1.0); fail(3, 'admmnet: agent 0 was lost')"
    ends = in_time(starter("os.kill(os.getpid(), signal.SIGKILL)", notices, heartbeat_deadline=QUICK).run)
    assert [ends[0].code, ends[1].code] == [-signal.SIGKILL, 3]


def test_a_killed_agent_is_told_of_at_once_and_one_that_said_why_itself_is_not() -> None:
    killed, failed = "os.kill(os.getpid(), signal.SIGKILL)", "fail(3, 'admmnet: by myself')"
    gone: list[tuple[int, str]] = []
    for program in (killed, failed):
        one = starter(program, WAITS)
        one.gone = lambda agent, how: gone.append((agent, how))
        assert in_time(one.run)[1].code == -signal.SIGTERM
    assert gone == [(0, "was ended by SIGKILL")]


def test_an_error_of_ours_ends_the_agents() -> None:
    def refuse() -> None:
        raise OSError("no such file")

    begin = time.monotonic()
    with pytest.raises(OSError, match="no such file"):
        starter(f"{STARTED}; {WAITS}", STUBBORN, start=refuse).run()
    assert time.monotonic() - begin < QUICK


AS_A_PROGRAM = """
import sys
from tests.processes.test_spawn import DEAF, STARTED, WAITS, starter
from admmnet.running.ends import terminating

def started():
    print("started", flush=True)

with terminating():
    starter(WAITS, f"{DEAF}; {STARTED}; {WAITS}", start=started, heartbeat_deadline=60).run()
"""


def test_a_signal_reaches_all_and_ends_them() -> None:
    process = subprocess.Popen([sys.executable, "-c", AS_A_PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    children = children_of(process.pid)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=QUICK)
    assert b"Terminated" in err
    assert process.returncode != 0
    assert len(children) == 2
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_agents_know_nothing_of_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "5")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "5")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
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
        ([(2, "admmnet: no such file\n"), (3, LOST)], RequestError, "no such file\nadmmnet: " + LOST[9:-1]),
        ([(3, LOST), (2, "admmnet: no such file\n")], RequestError, "no such file\nadmmnet: " + LOST[9:-1]),
        ([(4, "admmnet: no round\n")] * 3, BudgetError, "no round"),
        ([(3, "admmnet: one\ntwo\n")], RunError, "one\ntwo"),
        ([(-9, ""), (-15, "")], RunError, "the process of agent 0 was ended by SIGKILL"),
        ([(7, ""), (7, "")], RunError, "the process of agent 0 ended with exit code 7"),
        ([(130, "admmnet: interrupted; the ledgers hold\n"), (-9, "")], KeyboardInterrupt, ""),
    ],
)
def test_the_end_that_explains_most(
    ends: Sequence[tuple[int, str]], kind: type[BaseException], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind) as caught:
        judge(*ends)
    assert str(caught.value).startswith(message)
    assert caught.type is kind
    assert capsys.readouterr().err == ""


def test_one_that_finished_has_seen_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """Texts are passed on once, other than ours as they are."""
    said = "admmnet: the others went on without agent 2\n"
    judge((0, ""), (-9, ""), (3, f"Warning: odd\n{said}"), (3, f"Warning: odd\n{said}"))
    assert capsys.readouterr().err == f"Warning: odd\n{said}"


# refused before a process is started


def test_a_loader_in_memory_is_refused(tmp_path: Path) -> None:
    def loader(*_: object) -> None:
        raise AssertionError

    with pytest.raises(RequestError, match="cannot see the records of a loader in memory"):
        run(RunConfig(transport="zmq", out=str(tmp_path / "run")), loader=loader)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_a_folder_too_deep_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(RequestError, match="too long a path for sockets; set TMPDIR"):
        run(config(out=str(tmp_path / "run")))
    assert list(deep.iterdir()) == []
