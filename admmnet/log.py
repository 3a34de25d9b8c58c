"""What happens in a run, as events: said by ``say``, heard by handlers of the logger ``admmnet`` (docs/hosts.md)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from admmnet.errors import RequestError

LOGGER = logging.getLogger("admmnet")
LOGGER.addHandler(logging.NullHandler())
LEVELS = {name: logging.getLevelNamesMapping()[name.upper()] for name in ("debug", "info", "warning", "error")}
REMIND = 30.0
"""Seconds after which a wait is told of, and told of again."""
_HELD: dict[str, Any] = {"run": None, "agent": None, "start": None, "round": None}


def say(event: str, text: str, level: int = logging.INFO, **facts: Any) -> None:
    """Tell of an event, in public facts alone: nothing of a record, no path of a key, no secret, whole seconds.

    ``facts`` are JSON values. A ``run`` (its folder), ``start`` and ``round`` hold for later events of this process.
    """
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", text, extra={"event": event, "facts": facts})


def say_again(told: dict[str, Any]) -> None:
    """Tell of an event of another process of this user's, as ``EventHandler`` gave it there."""
    rest = {name: value for name, value in told.items() if name not in ("event", "text", "level")}
    say(told["event"], told["text"], LEVELS[told["level"]], **rest)


class EventHandler(logging.Handler):
    """Gives ``take`` every event from level ``least`` on as one flat dict; ``agent`` is this process's, if any."""

    def __init__(self, take: Callable[[dict[str, Any]], object], least: int = logging.DEBUG, agent: int | None = None):
        super().__init__()
        self._take, self._least, self._held = take, least, _HELD | {"agent": agent}

    def emit(self, record: logging.LogRecord) -> None:
        """Pass an event on."""
        facts = dict(getattr(record, "facts", {}))
        self._held |= {name: facts[name] for name in ("run", "start", "round") if name in facts}
        if record.levelno < self._least or not hasattr(record, "event"):
            return
        when = datetime.fromtimestamp(int(record.created), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        head = {"time": when, "level": record.levelname.lower(), "event": record.event}
        try:
            self._take({**head, **self._held, "text": record.getMessage(), **facts})
        except Exception:  # a run does not end because it cannot be watched
            self.handleError(record)


class LogFile:
    """Lines of JSON at the end of a file, or on standard output for ``-``; RequestError if it cannot be opened."""

    def __init__(self, path: str) -> None:
        self._path, self._torn = path, False
        try:
            self._file = open(1 if path == "-" else path, "ab", buffering=0, closefd=path != "-")  # noqa: SIM115
        except OSError as error:
            raise RequestError(
                f"--log {path} cannot be opened: {error.strerror}; name a file that this user may write, or - for "
                "standard output"
            ) from None

    def write(self, event: dict[str, Any]) -> None:
        """Write a line; where the disk refuses, say so once: the run goes on, and later lines are tried."""
        line = json.dumps(event).encode() + b"\n"
        try:
            # in one piece, so that lines of several processes do not mix; a torn one gets its end first
            whole = self._file.write(b"\n" * self._torn + line) == len(line) + self._torn
            fault = "a part of a line alone"
        except OSError as error:
            whole, fault = False, str(error.strerror)
        if not whole and not self._torn:
            sys.stderr.write(f"admmnet: warning: --log {self._path} takes no more: {fault}; the run goes on\n")
        self._torn = not whole

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Waiting:
    """A wait of this process for others, told of every ``REMIND`` seconds of it; instants are the caller's."""

    def __init__(self) -> None:
        self.since: float | None = None
        self._told = 0

    def look(self, since: float, now: float, whom: Iterable[str]) -> None:
        """Take in that this process still waits."""
        if since != self.since:
            self.since, self._told = since, 0
        times = int((now - since) // REMIND)
        if times > self._told:
            self._told = times
            names = list(whom)
            text = f"waiting for {', '.join(names)} for {now - since:.0f} s"
            say("waiting", text, logging.WARNING, seconds=int(now - since), waiting_for=names)

    def end(self) -> None:
        """Take in that it is over."""
        self.since = None

    def seconds(self, now: float) -> int:
        """How long this process has waited, 0 if it does not."""
        return 0 if self.since is None else int(now - self.since)
