"""Starting mpirun with a deadline."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 60.0
"""Seconds; a run of these tests takes about one, a hang for ever."""


FORKS = multiprocessing.get_context("forkserver")
"""Starts a process that has imported what victims need already."""
FORKS.set_forkserver_preload(
    ["tests.processes.test_resume", "tests.processes.test_crash", "tests.running.test_private_mode"]
)


class Ended(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        """Our own error lines, without the launcher's."""
        return [line for line in self.err.splitlines() if line.startswith("admmnet: ")]


def start(*command: str, deadline: float = DEADLINE) -> Ended:
    """Run a command in the project's folder; it fails the test when it does not end by itself."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        out, err = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        process.terminate()  # mpirun then ends its ranks; SIGKILL would leave them behind
        try:
            out, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        pytest.fail(f"still running after {deadline:g} s: {' '.join(command)}\n{out}\n{err}")
    return Ended(process.returncode, out, err)


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
