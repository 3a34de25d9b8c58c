"""Messages of an agent's process to the process that started it, and the answers."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json

from admmnet.errors import StopRun
from admmnet.running.events import RoundEvent

if TYPE_CHECKING:
    from admmnet.running.plan import Plan

LONGEST = 2**18
"""Bytes of a message at most, more than a socket takes in one piece."""
GO, STOP = b"go", b"stop"
"""Answers to a round."""


class AgentReport(Struct, frozen=True, omit_defaults=True):
    """What an agent tells: a round, an event, or that its first round begins, with the advice and task of its plan."""

    round: RoundEvent | None = None
    event: dict[str, Any] | None = None
    advice: tuple[str, ...] = ()
    task: str = ""


class Reporter:
    """An agent's end, given as a file descriptor.

    ``answered`` says that the starter answers every round. The agent then waits for that, however long it takes.
    """

    def __init__(self, line: int, *, answered: bool) -> None:
        self._line, self._answered = line, answered

    def start(self, plan: Plan) -> None:
        """Say that the first round begins."""
        with suppress(OSError):  # full or closed: the bar stands still, the run does not
            self._send(AgentReport(advice=plan.advice, task=plan.task))

    def event(self, told: dict[str, Any]) -> None:
        """Tell of an event, as an ``Hearer`` gives it."""
        with suppress(OSError):
            self._send(AgentReport(event=told))

    def round(self, event: RoundEvent) -> None:
        """Tell of a round; StopRun if the answer says so."""
        if not self._answered:
            with suppress(OSError):
                self._send(AgentReport(event))
            return
        self._wait(select.POLLOUT)
        self._send(AgentReport(event))
        self._wait(select.POLLIN)
        if os.read(self._line, LONGEST) == STOP:
            raise StopRun

    def _send(self, said: AgentReport) -> None:
        os.write(self._line, json.encode(said))

    def _wait(self, what: int) -> None:
        poll = select.poll()
        poll.register(self._line, what)
        poll.poll()
