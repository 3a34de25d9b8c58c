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
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO, Any

import numpy as np

from tests.doc_pages import ROOT

FORKS = multiprocessing.get_context("forkserver")
"""Starts a process that has imported these modules."""
FORKS.set_forkserver_preload(
    ["tests.processes.places", "tests.running.test_private_mode", "admmnet.cli.agent", "admmnet.running.entrance"]
)


def _run(module: str, words: Sequence[str], env: Mapping[str, str], cwd: Path, ends: Sequence[Connection]) -> None:
    for number, end in enumerate(ends):
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

    def __init__(self, module: str, *words: str, env: Mapping[str, str], text: bool = False, cwd: Path = ROOT) -> None:
        (take, give), (out, told), (err, failed) = (FORKS.Pipe(duplex=False) for _ in range(3))
        self._process = FORKS.Process(target=_run, args=(module, words, dict(env), cwd, (take, told, failed)))
        self._process.start()
        _LIVE.add(self)
        streams: list[IO[Any]] = []
        for end, how in ((give, "w"), (out, "r"), (err, "r")):
            number = os.dup(end.fileno())
            streams.append(os.fdopen(number, how, encoding="utf-8") if text else os.fdopen(number, f"{how}b"))
        for end in (take, give, out, told, err, failed):
            end.close()
        self.stdin, self.stdout, self.stderr = streams
        assert self._process.pid is not None
        self.pid, self._said = self._process.pid, ["", ""]
        self._readers: list[threading.Thread] = []

    @property
    def returncode(self) -> int | Any:
        return self._process.exitcode

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
        """All that it says, once it has ended."""
        until = None if timeout is None else time.monotonic() + timeout
        if not self._readers:
            for place in range(2):
                self._readers.append(threading.Thread(target=self._read, args=(place,), daemon=True))
                self._readers[-1].start()
        for reader in self._readers:
            reader.join(None if until is None else max(0.0, until - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        self.wait(None if until is None else max(1.0, until - time.monotonic()))
        self.stdin.close()
        return self._said[0], self._said[1]

    def _read(self, place: int) -> None:
        with (self.stdout, self.stderr)[place] as stream:
            self._said[place] += stream.read()

    def close(self) -> None:
        """Kill it if it still runs, and close its streams."""
        self.kill()
        for reader in self._readers:
            reader.join(10.0)
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                stream.close()


SIMPLE = re.compile(r"admmnet [^$|<>;&`*~\n]+")
"""A line that needs no shell."""


def run_line(line: str, env: Mapping[str, str], cwd: Path, deadline: float) -> tuple[int, str, str]:
    """Exit code, standard output and error of a ``SIMPLE`` line in a folder."""
    process = Warm("admmnet", *shlex.split(line)[1:], env=env, text=True, cwd=cwd)
    out, err = process.communicate(deadline)
    return process.wait(), out, err


_LIVE = set[Warm]()


def kill_all() -> None:
    """Kill those that still run; none leaves an open file to a later test."""
    while _LIVE:
        _LIVE.pop().close()


Finalize(None, kill_all, exitpriority=100)  # before multiprocessing joins them, which has no limit
