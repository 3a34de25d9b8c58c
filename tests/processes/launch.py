"""Starting commands with a deadline."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from admmnet.cli import run_command_line

from .warm import Warm

ROOT = Path(__file__).resolve().parents[2]
FAULTY = "tests.processes.faulty_agent"
DEADLINE = 60.0
"""Seconds; a run of these tests takes about one, a hang for ever."""

Process = subprocess.Popen[str] | Warm


class Ended(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        """Our own error lines, without the launcher's."""
        return [line for line in self.err.splitlines() if line.startswith("admmnet: ")]


def begin(*command: str, **environment: object) -> Process:
    """Start a command in the project's folder, with more variables in its environment."""
    env = os.environ | {name: str(value) for name, value in environment.items()}
    if command[:2] == (sys.executable, "-m"):
        return Warm(*command[2:], env=env)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True, encoding="utf-8")


def start_all(commands: Sequence[Sequence[str]], deadline: float = DEADLINE, **environment: object) -> list[Ended]:
    """Run commands at once until all have ended; what does not end by itself fails the test."""
    processes = [begin(*command, **environment) for command in commands]
    try:
        told = [process.communicate(timeout=deadline) for process in processes]
        return [Ended(process.wait(), *said) for process, said in zip(processes, told, strict=True)]
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)  # mpirun then ends its ranks; SIGKILL would leave them behind
                with suppress(subprocess.TimeoutExpired):
                    sys.stdout.write("".join(process.communicate(timeout=20)))
            process.kill()
            process.communicate()


def start(*command: str, deadline: float = DEADLINE) -> Ended:
    """Run a command in the project's folder."""
    return start_all([command], deadline)[0]


def here(capsys: pytest.CaptureFixture[str], *words: str) -> Ended:
    """Run the command line in this process."""
    capsys.readouterr()
    code = run_command_line(words)
    return Ended(code, *capsys.readouterr())


def mpirun_path() -> str:
    """The launcher beside this Python, or another one."""
    return shutil.which("mpirun", path=str(Path(sys.executable).parent)) or "mpirun"


def mpirun(ranks: int, *words: str, deadline: float = DEADLINE) -> Ended:
    """Run ``python WORDS`` on some ranks; on none: without mpirun."""
    launcher = (mpirun_path(), "-n", str(ranks)) if ranks else ()
    return start(*launcher, sys.executable, *words, deadline=deadline)


def admmnet(ranks: int, *words: str) -> Ended:
    """Run the command line on some ranks; on none: without mpirun."""
    return mpirun(ranks, "-m", "admmnet", *words)
