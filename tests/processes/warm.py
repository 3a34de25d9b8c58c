"""Modules in processes of their own that have imported the package already: a start costs no second of imports.

They have one order of sets, that of the process they are forked from. Python starts anew, with another order for each,
for agents that one command starts, and for every rank of mpirun.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from pathlib import Path

import numpy as np

from tests.doc_pages import ROOT

FORKS = multiprocessing.get_context("forkserver")
"""Starts a process that has imported these modules."""
FORKS.set_forkserver_preload(
    ["tests.processes.places", "tests.running.test_private_mode", "admmnet.cli.again", "admmnet.running.entrance"]
)


def _run(module: str, words: Sequence[str], env: Mapping[str, str], cwd: Path, ends: Sequence[Connection]) -> None:
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, end in enumerate(ends, 1):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, how, encoding="utf-8") for number, how in enumerate("rww"))
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    tempfile.tempdir = None
    np.random.seed()  # noqa: NPY002  # else all draw the same
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a server that the package started blocks it
    sys.argv = [module, *words]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()


class Warm:
    """``python -m MODULE WORDS`` in a folder, with what tests use of ``subprocess.Popen``."""

    def __init__(self, module: str, *words: str, env: Mapping[str, str], cwd: Path = ROOT) -> None:
        ours, theirs = zip(*(FORKS.Pipe(duplex=False) for _ in range(2)), strict=True)
        self._process = FORKS.Process(target=_run, args=(module, words, dict(env), cwd, theirs))
        self._process.start()
        _LIVE.add(self)
        assert self._process.pid is not None
        self.pid, self._said = self._process.pid, ["", ""]
        self._readers = [threading.Thread(target=self._read, args=one, daemon=True) for one in enumerate(ours)]
        for end, reader in zip(theirs, self._readers, strict=True):
            end.close()
            reader.start()

    def _read(self, place: int, end: Connection) -> None:
        with end, open(end.fileno(), encoding="utf-8", closefd=False) as stream:
            self._said[place] = stream.read()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it has said, once it has ended, and all to whom it has passed its streams."""
        self.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._said[0], self._said[1]

    def close(self) -> None:
        """Kill it if it still runs."""
        self.kill()
        self._process.join(10.0)
        for reader in self._readers:
            reader.join(10.0)


SIMPLE = re.compile(r"admmnet [^$|<>;&`*~\n]+")
"""A line that needs no shell."""


_LIVE = set[Warm]()


def kill_all() -> None:
    """Kill those that still run; none leaves an open file to a later test."""
    while _LIVE:
        _LIVE.pop().close()


Finalize(None, kill_all, exitpriority=100)  # before multiprocessing joins them, which has no limit
