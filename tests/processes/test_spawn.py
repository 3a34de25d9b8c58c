"""The starter of agents, with small programs in their place: what it passes on, how it ends, what it leaves."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admmnet import RequestError, RunConfig, RunError, run
from admmnet.errors import BudgetError
from admmnet.running import spawn
from admmnet.running.events import AgentReport, OnRound, RoundEvent
from admmnet.running.spawn import ProcessEnd, Starter, environment

pytestmark = pytest.mark.processes
QUICK = 15.0
"""Seconds; each of these takes less than two."""

HEAD = """
import os, select, signal, sys, time
def say(text): os.write(0, text.encode() + b"\\n")
def wait(): select.select([0], [], [])
def fail(code, *lines): print(*lines, sep="\\n", file=sys.stderr); sys.exit(code)
def kill(): os.kill(os.getpid(), signal.SIGKILL)
"""
WAITS = "wait()"
DEAF = "signal.signal(signal.SIGINT, lambda *_: None); signal.signal(signal.SIGTERM, lambda *_: None)"


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


LOSES = "fail(3, 'admmnet: agent 0 is lost', 'x' * 300_000)"
NOTICES = "select.select([0], [], [], 1.0); fail(3, 'admmnet: agent 0 was lost')"
SAYS = "signal.signal(signal.SIGTERM, lambda *_: fail(3, 'late')); print('found', file=sys.stderr, flush=True)"


@pytest.mark.parametrize(
    ("programs", "heartbeat", "ended", "gone"),
    [
        ([LOSES, WAITS, f"{DEAF}; {WAITS}"], 0.2, [3, -signal.SIGTERM, -signal.SIGKILL], []),
        # a killed agent gives the others longer than a shutdown deadline alone, and is told of at once
        (["kill()", NOTICES], QUICK, [-signal.SIGKILL, 3], [(0, "was ended by SIGKILL")]),
        (["kill()", WAITS], 0.2, [-signal.SIGKILL, -signal.SIGTERM], [(0, "was ended by SIGKILL")]),
        # what an agent has said before it had to be ended is told
        (["open('{said}').read(); fail(3)", SAYS + "; open('{said}', 'w').close(); wait()"], 0.2, [3, 3], []),
    ],
)
def test_those_who_stay_behind_are_ended(
    programs: list[str], heartbeat: float, ended: list[int], gone: list[Any], tmp_path: Path
) -> None:
    os.mkfifo(said := tmp_path / "said")
    one, told = starter(*(text.replace("{said}", str(said)) for text in programs), heartbeat=heartbeat), list[Any]()
    one.gone = lambda *how: told.append(how)
    ends = in_time(one)
    assert ([ends[agent].code for agent in range(len(programs))], told) == (ended, gone)
    if LOSES in programs:  # much text does not stop an agent
        assert ends[0].text == f"admmnet: agent 0 is lost\n{'x' * 300_000}\n"
    assert ended != [3, 3] or ends[1].text == "found\n"


def test_an_error_of_ours_ends_the_agents() -> None:
    def refuse() -> None:
        raise OSError("no such file")

    begin = time.monotonic()
    with pytest.raises(OSError, match="no such file"):
        starter(f"say('{{}}'); {WAITS}", f"{DEAF}; {WAITS}", start=refuse).run()
    assert time.monotonic() - begin < QUICK


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
