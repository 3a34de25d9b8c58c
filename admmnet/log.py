"""What happens in a run, as events: said by ``say``, heard by whoever listens in this process (docs/hosts.md)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from admmnet.errors import RequestError

LEVELS = ("debug", "info", "warning", "error")
HEARERS: list[Hearer] = []
"""Those of this process."""
REMIND = 30.0
"""Seconds after which a wait is told of, and told of again."""


def say(event: str, text: str, level: str = "info", **facts: Any) -> None:
    """Tell of an event in public facts, JSON values: nothing of a record, no path of a key, no secret, whole seconds.

    A ``run`` (its folder), ``start`` and ``round`` hold for later events of this process.
    """
    for hearer in HEARERS:
        hearer.hear(event, text, level, facts)


class Hearer:
    """Gives ``take`` every event of a block from level ``least`` on as a flat dict; ``agent`` is this process's."""

    def __init__(self, take: Callable[[dict[str, Any]], object], least: str = "debug", agent: int | None = None):
        self._take, self._least = take, least
        self._held: dict[str, Any] = {"run": None, "agent": agent, "start": None, "round": None}

    def __enter__(self) -> None:
        HEARERS.append(self)

    def __exit__(self, *error: object) -> None:
        HEARERS.remove(self)

    def hear(self, event: str, text: str, level: str, facts: dict[str, Any]) -> None:
        """Take in an event."""
        self._held |= {name: facts[name] for name in ("run", "start", "round") if name in facts}
        if LEVELS.index(level) >= LEVELS.index(self._least):
            head = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "level": level, "event": event}
            self._take({**head, **self._held, "text": text, **facts})


class LogFile:
    """Lines of JSON at the end of a file, or on standard output for ``-``; RequestError if it cannot be opened."""

    def __init__(self, path: str) -> None:
        self._path, self._torn = path, False
        try:
            self.file = open(1 if path == "-" else path, "ab", buffering=0, closefd=path != "-")  # noqa: SIM115
        except OSError as error:
            remedy = "name a file that this user may write, or - for standard output"
            raise RequestError(f"--log {path} cannot be opened: {error.strerror}; {remedy}") from None

    def write(self, event: dict[str, Any]) -> None:
        """Write a line; where the disk refuses, say so once: the run goes on, and later lines are tried."""
        # in one piece, so that lines of several processes do not mix; a torn one gets its end first
        line = b"\n" * self._torn + json.dumps(event).encode() + b"\n"
        try:
            whole = self.file.write(line) == len(line)
        except OSError:
            whole = False
        if not whole and not self._torn:
            sys.stderr.write(
                f"admmnet: warning: --log {self._path} takes no more, as on a full disk; the run goes on\n"
            )
        self._torn = not whole


class Waiting:
    """A wait for others that began at ``since``, None for none; told of every ``REMIND`` seconds."""

    since: float | None = None
    _reminded = 0

    def look(self, since: float, now: float, whom: Iterable[str]) -> None:
        """Take in that this process still waits; instants are the caller's."""
        self._reminded, self.since = self._reminded if since == self.since else 0, since
        if now - since >= REMIND * (self._reminded + 1):
            self._reminded, seconds, names = int((now - since) // REMIND), int(now - since), list(whom)
            text = f"waiting for {', '.join(names)} for {seconds} s"
            say("waiting", text, "warning", seconds=seconds, waiting_for=names)
