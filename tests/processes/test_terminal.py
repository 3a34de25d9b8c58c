"""What a person sees of a run on a terminal, and in the log of a run that has none."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from admmnet import RoundEvent, RunConfig
from admmnet.cli import run_command_line
from admmnet.cli.run import Progress
from tests.people_runs import finished_run

from .launch import mpirun

pytestmark = pytest.mark.processes
WORDS = ["run", "--algorithm", "pp-admm", "--rounds", "3", "--agents", "3", "--seed", "0", "-o"]


def on_terminal(columns: int, *words: str) -> str:
    """What the command line wrote on a terminal of so many columns, without colours."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    command, env, said = [sys.executable, "-m", "admmnet", *words], os.environ | {"TERM": "xterm-256color"}, b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        with suppress(OSError):  # the other end is closed
            while True:
                said += os.read(ours, 65536)
    os.close(ours)
    assert process.returncode == 0, said
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())


def test_bar_closing_table_and_what_others_show_fit_the_terminal(tmp_path: Path) -> None:
    run, finished = str(tmp_path / "new"), str(finished_run(tmp_path))
    for columns, words in ((80, [*WORDS, run]), (80, ["ledger", "show", run]), (50, ["watch", finished, "--once"])):
        said = on_terminal(columns, *words)
        assert words[0] != "run" or ("pp-admm on 3 agents" in said and "/3" in said)
        assert "\u2026" not in said
        table = [line for line in re.split(r"[\r\n]+", said) if re.match(r" +\d ", line) or "\u2500" in line]
        assert max(len(line) for line in table if "/" not in line) <= columns, said


def test_lines_under_mpirun(tmp_path: Path) -> None:
    """The first rank's alone."""
    now = "import sys; from admmnet.cli import run, run_command_line as c; run.EVERY = 0.0; "
    ended = mpirun(2, "-c", f"{now}sys.exit(c({[*WORDS, str(tmp_path / 'run')]}))")
    assert ended.code == 0, ended.err
    told = re.compile(
        r"round [12] of 3: test error [\d.]+%, epsilon [\d.]+ spent, [\d.e-]+ s so far, about [\d.e-]+ s left"
    )
    lines = [line for line in ended.err.splitlines() if line.startswith("round ")]
    assert len(lines) in (1, 2), ended.err
    assert all(map(told.fullmatch, lines))


def test_a_line_comes_every_30_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a clock that makes every round last four seconds: after 32, 64 and 96; none of the last round."""
    clock = iter(range(0, 8000, 4))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    for quiet in ((), ("--quiet",)):
        assert run_command_line([*WORDS, str(tmp_path / f"run{len(quiet)}"), "--rounds", "24", *quiet]) == 0
        lines = [line.split(",")[0] for line in capsys.readouterr().err.splitlines() if line.startswith("round ")]
        assert [line.split()[1] for line in lines] == ([] if quiet else ["7", "15", "23"])


def test_a_run_that_goes_on_knows_its_own_pace(capsys: pytest.CaptureFixture[str]) -> None:
    """Its first round was not made in this process's time alone: 4 of 10 s, after 90 others."""

    class Plan:
        advice: tuple[Any, ...] = ()
        task, rounds, graph = "binary", 100, (0, 1)
        config = RunConfig()

    bar = Progress()
    bar.start(Plan())  # type: ignore[arg-type]
    bar._start -= 20.0
    bar._due = 0.0
    bar.round(RoundEvent(94, 100, 0.25, None, {}, {}, (3,)))
    bar._due, bar._start = 0.0, bar._start - 4.0
    bar.round(RoundEvent(96, 100, None, None, {0: 0.5, 1: 0.25}, {}, ()))
    assert capsys.readouterr().err.splitlines() == [
        "round 95 of 100: test error 25.00%, 1 agent away, 20 s so far, about 1 min 40 s left",
        "round 97 of 100: epsilon 0.5 spent, 24 s so far, about 24 s left",
    ]
