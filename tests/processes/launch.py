"""Starting mpirun with a deadline."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
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
        return Warm(*command[2:], env=env, text=True)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True, encoding="utf-8")


def start_all(commands: Sequence[Sequence[str]], **environment: object) -> list[Ended]:
    """Run commands at once until all have ended by themselves."""
    processes, ends = [begin(*command, **environment) for command in commands], []
    try:
        for process in processes:
            out, err = process.communicate(timeout=DEADLINE)
            ends.append(Ended(process.wait(), out, err))
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return ends


def start(*command: str, deadline: float = DEADLINE) -> Ended:
    """Run a command in the project's folder; it fails the test when it does not end by itself."""
    process = begin(*command)
    try:
        out, err = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # mpirun then ends its ranks; SIGKILL would leave them behind
        try:
            out, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        pytest.fail(f"still running after {deadline:g} s: {' '.join(command)}\n{out}\n{err}")
    return Ended(process.wait(), out, err)


def here(capsys: pytest.CaptureFixture[str], *words: str) -> Ended:
    """Run the command line in this process."""
    capsys.readouterr()
    code = run_command_line(words)
    return Ended(code, *capsys.readouterr())


def mpirun_path() -> str:
    """The launcher beside this Python, or another one."""
    return shutil.which("mpirun", path=str(Path(sys.executable).parent)) or "mpirun"


def mpirun(ranks: int, *words: str, deadline: float = DEADLINE) -> Ended:
    """Run ``python WORDS`` on some ranks."""
    return start(mpirun_path(), "-n", str(ranks), sys.executable, *words, deadline=deadline)


def admmnet(ranks: int, *words: str, deadline: float = DEADLINE) -> Ended:
    """Run the command line on some ranks; on none: without mpirun."""
    if ranks == 0:
        return start(sys.executable, "-m", "admmnet", *words, deadline=deadline)
    return mpirun(ranks, "-m", "admmnet", *words, deadline=deadline)
