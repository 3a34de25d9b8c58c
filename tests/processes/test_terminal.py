"""What a person sees of a run on a terminal, and in the log of a run that has none."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from admmnet import RoundEvent, RunConfig
from admmnet.cli import progress, run_command_line
from admmnet.cli.compare import GridProgress
from tests.people_runs import finished_run

from .launch import DEADLINE, ROOT, mpirun

pytestmark = pytest.mark.processes
WORDS = ["run", "--algorithm", "pp-admm", "--rounds", "3", "--agents", "3", "--seed", "0", "-o"]
LINE = re.compile(
    r"round [12] of 3: test error \d+\.\d\d%, epsilon [\d.]+ spent, [\d.e-]+ s so far, about [\d.e-]+ s left"
)


def on_terminal(columns: int, *words: str) -> tuple[int, str]:
    """Exit code of the command line on a terminal of so many columns, and all that it wrote there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "admmnet", *words]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment["TERM"] = "xterm-256color"
    process = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said, deadline = b"", time.monotonic() + DEADLINE
    try:
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                said += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        return process.wait(timeout=DEADLINE), said.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("transport", ["local", "zmq"])
def test_a_bar_on_a_terminal(transport: str, tmp_path: Path) -> None:
    code, said = on_terminal(100, *WORDS, str(tmp_path / "run"), "--transport", transport)
    assert code == 0, said
    assert "pp-admm on 3 agents" in said
    assert "/3" in said


@pytest.mark.parametrize("columns", [50, 140])
def test_watch_fits_the_terminal(columns: int, tmp_path: Path) -> None:
    folder = os.path.relpath(finished_run(tmp_path), ROOT)
    code, said = on_terminal(columns, "watch", folder, "--once")
    assert code == 0, said
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", said)]
    assert max(len(line) for line in lines if "/" not in line) <= columns
    assert [line.split()[0] for line in lines if re.match(r" +\d ", line)][-4:] == ["0", "1", "2", "3"]


def test_closing_table_and_ledgers_fit_80_columns(tmp_path: Path) -> None:
    run = os.path.relpath(tmp_path / "run", ROOT)
    for words in ([*WORDS, run], ["ledger", "show", run], ["calibrate", "--agents", "3"]):
        code, said = on_terminal(80, *words)
        assert code == 0, said
        said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
        assert "\u2026" not in said
        assert (
            max(len(line) for line in re.split(r"[\r\n]+", said) if re.match(r" +\d ", line) or "\u2500" in line) <= 80
        )


def test_lines_under_mpirun(tmp_path: Path) -> None:
    """The first rank's alone; --quiet silences them."""
    now = "import sys; from admmnet.cli import progress, run_command_line as c; progress.EVERY = 0.0; "
    for quiet in ((), ("--quiet",)):
        words = [*WORDS, str(tmp_path / f"run{len(quiet)}"), *quiet]
        ended = mpirun(2, "-c", f"{now}sys.exit(c({words}))")
        assert ended.code == 0, ended.err
        lines = [line for line in ended.err.splitlines() if line.startswith("round ")]
        assert len(lines) in ((0,) if quiet else (1, 2)), ended.err
        assert all(map(LINE.fullmatch, lines))


def test_a_line_comes_every_30_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a clock that makes every round last four seconds: after 32, 64 and 96; none of the last round."""
    clock = iter(range(0, 4000, 4))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    words = [*WORDS, str(tmp_path / "run")]
    words[words.index("3")] = "24"
    assert run_command_line(words) == 0
    lines = [line.split(",")[0] for line in capsys.readouterr().err.splitlines() if line.startswith("round ")]
    assert [line.split()[1] for line in lines] == ["7", "15", "23"]


def test_lines_of_a_comparison(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve seconds a step, over two phases, of which the first had been begun."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for shown in (True, False):
        with GridProgress(shown=shown) as told:
            for phase, total, done in (("references", 3, 1), ("runs", 8, 0)):
                told.phase(phase, total, done)
                for step in range(total - done):
                    now[0] += 12.0
                    told.step(f"seed {step}")
    assert capsys.readouterr().err.splitlines() == [
        "references: 2 to make, 1 are there",
        "runs: 8 to make",
        "runs 1 of 8: seed 0, 12 s so far, about 1 min 24 s left",
        "runs 4 of 8: seed 3, 48 s so far, about 48 s left",
        "runs 7 of 8: seed 6, 1 min 24 s so far, about 12 s left",
    ]


def test_a_run_that_goes_on_knows_its_own_pace(capsys: pytest.CaptureFixture[str]) -> None:
    """Its first round was not made in this process's time alone: 4 of 10 s, after 90 others."""

    class Plan:
        advice: tuple[Any, ...] = ()
        task, rounds, graph = "binary", 100, (0, 1)
        config = RunConfig()

    bar = progress.Progress(told=True)
    bar.start(Plan())  # type: ignore[arg-type]
    bar._bar._start -= 20.0
    bar._bar._due = 0.0
    bar.round(RoundEvent(94, 100, 0.25, None, {}, {}, (3,)))
    bar._bar._due, bar._bar._start = 0.0, bar._bar._start - 4.0
    bar.round(RoundEvent(96, 100, None, None, {0: 0.5, 1: 0.25}, {}, ()))
    assert capsys.readouterr().err.splitlines() == [
        "round 95 of 100: test error 25.00%, 1 agent away, 20 s so far, about 1 min 40 s left",
        "round 97 of 100: epsilon 0.5 spent, 24 s so far, about 24 s left",
    ]
