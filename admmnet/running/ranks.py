"""Ranks under `admmnet launch`: a file of each that lives, and starts of all until one has finished (docs/hosts.md)."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from admmnet.errors import IN_PART, BudgetError, RequestError, RunError, Terminated
from admmnet.log import say

ALIVE = "alive"
"""Folder, in that of the run, of what ranks say of themselves."""
FINAL = (0, RequestError.exit_code, BudgetError.exit_code, IN_PART, 130)
"""Exit codes after which another start would end no other way."""
_LOOK = 500  # milliseconds between looks for ranks that have come
_END = 15.0  # seconds that ranks have to end after a signal


class Alive:
    """Writes what a rank's events tell to ``alive/rank-003.json`` of its run folder, at most once a second."""

    def __init__(self, rank: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rank, self._clock, self._next, self._path = rank, clock, 0.0, Path()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in an event."""
        if event["run"] is None or (event["event"] == "round" and self._clock() < self._next):
            return
        self._next = self._clock() + 1.0
        self._path = Path(event["run"]) / ALIVE / f"rank-{self._rank:03d}.json"
        said = {"rank": self._rank, "pid": os.getpid(), "host": socket.gethostname(), "round": event["round"]}
        with suppress(OSError):  # a full disk is told elsewhere
            self._path.parent.mkdir(exist_ok=True)
            self._path.write_text(json.dumps(said | {"code": event.get("code")}))

    def leave(self) -> None:
        """Remove the file: the rank ends as it should, or has said why not."""
        self._path.unlink(missing_ok=True) if self._path.name else None


def launch(command: Sequence[str], folder: Path, restarts: int) -> int:
    """Start ranks, and start them again while they fail; return the exit code.

    KeyboardInterrupt, also of SIGTERM, ends the ranks first.
    """
    for start in range(restarts + 1):
        shutil.rmtree(folder / ALIVE, ignore_errors=True)  # of an earlier launch, which was killed itself
        try:
            code, how = _started(command, folder / ALIVE)
        finally:
            shutil.rmtree(folder / ALIVE, ignore_errors=True)
        if code in FINAL:
            return code
        again = f"; start {start + 2} of {restarts + 1} follows" if start < restarts else ""
        say("start-ended", how)
        sys.stderr.write(f"admmnet: {how}{again}\n")
    return RunError.exit_code


def _started(command: Sequence[str], alive: Path) -> tuple[int, str]:
    """Run a launcher to its end; its exit code, and in words which ranks ended first."""
    # in a group of its own: Ctrl-C at the terminal reaches this process alone, which passes it on
    launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    try:
        fallen = _watched(launcher, alive)
        code = launcher.wait()
    except KeyboardInterrupt as error:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(launcher.pid, signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)
            launcher.wait(_END)
        with suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)
        error.told = True  # type: ignore[attr-defined]  # by the ranks
        raise
    return code, ", ".join(map(_how, fallen)) or f"the ranks ended with exit code {code} of {command[0]}"


def _how(rank: Mapping[str, Any]) -> str:
    ended = "was killed" if rank.get("code") is None else f"failed with exit code {rank['code']}"
    return f"rank {rank['rank']} (process {rank['pid']} on {rank['host']}) {ended}, last seen in round {rank['round']}"


def _watched(launcher: subprocess.Popen[bytes], alive: Path) -> list[Mapping[str, Any]]:
    """Wait for the end of a launcher; what ranks said that did not leave: the first on this host, else all of them."""
    fallen, poll, ranks = list[Mapping[str, Any]](), select.poll(), dict[int, Path]()
    known, end = set[Path](), os.pidfd_open(launcher.pid)
    poll.register(end, select.POLLIN)
    try:
        while True:
            ready = {handle for handle, _ in poll.poll(_LOOK)}
            first: list[Mapping[str, Any]] = [
                said for handle in sorted(ready & ranks.keys()) if (said := _read(ranks[handle])) is not None
            ]
            fallen = fallen or first
            for handle in ready & ranks.keys():
                poll.unregister(handle)
            if end in ready:
                return fallen or [
                    said for path in sorted(alive.glob("rank-*.json")) if (said := _read(path)) is not None
                ]
            for path in set(alive.glob("rank-*.json")) - known:
                said = _read(path)
                if said is not None and said["host"] == socket.gethostname():
                    with suppress(ProcessLookupError):
                        handle = os.pidfd_open(said["pid"])
                        ranks[handle] = path
                        poll.register(handle, select.POLLIN)
                if said is not None:
                    known.add(path)
    finally:
        for handle in (end, *ranks):
            os.close(handle)


def _read(path: Path) -> Mapping[str, Any] | None:
    """What a rank says of itself; None where it has left, or is writing."""
    with suppress(OSError, ValueError):
        said: Mapping[str, Any] = json.loads(path.read_text())
        return said
    return None
