"""Processes that are forked: none outlives its test or pytest, and no two draw the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .launch import DEADLINE, ROOT
from .test_resume import runs
from .warm import Warm, kill_all

pytestmark = pytest.mark.processes
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
SLEEPER = ("timeit", "-n1", "-r1", "-s", STUBBORN, "time.sleep(120)")


def test_what_still_runs_is_killed() -> None:
    process = Warm(*SLEEPER, env=os.environ, text=True)
    assert process.stdout.readline() == "1\n"
    kill_all()
    process.wait(DEADLINE)
    assert process.stdout.closed
    assert process.returncode == -9


def test_none_outlives_who_has_started_it() -> None:
    program = f"""
import os
from tests.processes.warm import Warm
if __name__ == "__main__":
    process = Warm(*{SLEEPER}, env=os.environ, text=True)
    process.stdout.readline()
    print(process.pid)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, timeout=DEADLINE, check=True
    )
    assert not runs(int(found.stdout))


def test_no_two_draw_the_same() -> None:
    words = ("timeit", "-n1", "-r1", "import numpy; print(numpy.random.random())")
    drawn = [Warm(*words, env=os.environ, text=True).communicate(DEADLINE)[0].splitlines()[0] for _ in range(2)]
    assert drawn[0] != drawn[1]
