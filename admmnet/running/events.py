"""Events of a run for its caller, one a round, how the caller ends it, and reports to a starter (docs/results.md)."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, json

from admmnet.errors import RunError, StopRun
from admmnet.forms import read_form
from admmnet.log import HEARERS, say
from admmnet.record.folder import SUMMARY
from admmnet.record.forms import Summary
from admmnet.transport import World
from admmnet.transport.collective import share
from admmnet.types import Matrix

if TYPE_CHECKING:
    from admmnet.running.plan import Plan

GO, STOP, FAILED = 0.0, 1.0, 2.0
"""What follows from a call of ``on_round``, the graver the larger."""
LONGEST = 2**18
"""Bytes of a message at most, more than a socket takes in one piece."""
LINE = 0
"""File descriptor of an agent's socket to its starter: standard input."""
GOES_ON, STOPS = b"go", b"stop"
"""Answers to a round."""


Outcome = tuple[Path, Summary, Matrix]
"""What a finished run leaves: its folder, its summary, every agent's model of shape (N, d)."""


def outcome_of(folder: Path) -> Outcome:
    """Return the outcome of a finished run from its folder."""
    with np.load(folder / "model.npz", allow_pickle=False) as model:
        return folder, read_form(Summary, folder / SUMMARY), model["theta"]


@dataclass(frozen=True)
class RoundEvent:
    """Figures of a round that is over; of a private run they are public or made of what was released.

    Attributes
    ----------
    round : int
        Its number, 0 the first.
    rounds : int
        How many are planned.
    test_error : float or None
        Test error (of real targets: mean squared error) of the consensus; None without test records.
    train_loss : float or None
        Mean loss of the consensus over all training records; None in private runs.
    epsilon : mapping of int to float
        What each agent has spent so far; without agents that have no finite figure, as of methods without privacy.
    releases : mapping of int to int
        How often each agent has released something.
    away : tuple of int
        Agents that take no part, as the others go on without them.
    """

    round: int
    rounds: int
    test_error: float | None
    train_loss: float | None
    epsilon: Mapping[int, float]
    releases: Mapping[int, int]
    away: tuple[int, ...]

    def metrics(self, *, agents: bool = False) -> dict[str, float]:
        """Return the figures under names for trackers; those that are not known are left out.

        ``epsilon`` is the largest of all agents, ``releases`` the sum, ``away`` a count. With ``agents`` there are
        ``epsilon/3`` and ``releases/3`` of agent 3 as well.
        """
        largest = max(self.epsilon.values(), default=None)
        known = {"test_error": self.test_error, "train_loss": self.train_loss, "epsilon": largest}
        found = {name: value for name, value in known.items() if value is not None}
        found |= {"releases": float(sum(self.releases.values())), "away": float(len(self.away))}
        if agents:
            found |= {f"epsilon/{i}": value for i, value in self.epsilon.items()}
            found |= {f"releases/{i}": float(count) for i, count in self.releases.items()}
        return found


OnRound = Callable[[RoundEvent], None]


def say_round(round: int, event: RoundEvent | None) -> None:
    """Tell of a round that is over; its figures are the writer's."""
    figures = {} if event is None else {"rounds": event.rounds, **event.metrics()}
    say("round", f"round {round} is over", "debug", round=round, **figures)


def is_last(world: World, round: int, on_round: OnRound | None, event: RoundEvent | None, *, agreeing: bool) -> bool:
    """Tell of a round, at the writer with its event; return whether it is the last, alike at all processes.

    RunError if ``on_round`` failed at another process, or if one host's agent, alone in its folder, is to leave.
    """
    if HEARERS:
        say_round(round, event)
    verdict, failure = GO, None
    if on_round is not None and event is not None:
        try:
            on_round(event)
        except StopRun:
            verdict = STOP
        except Exception as error:
            verdict, failure = FAILED, error
    if agreeing:
        verdict = max(said for said in share(world, verdict, "verdict") if said in (GO, STOP, FAILED))
    if failure is not None:
        failure.shared, failure.by_caller = agreeing, True  # type: ignore[attr-defined]
        raise failure
    if verdict == FAILED:
        raise RunError("on_round failed at the process that writes the run folder: the run ends there").of_all()
    if verdict == STOP and not world.shared_folder:
        raise RunError(
            f"on_round raised StopRun after round {round}: this agent leaves the run; its ledger holds "
            "everything that it sent"
        )
    return verdict == STOP


class AgentReport(Struct, frozen=True, omit_defaults=True):
    """What an agent tells: a round, an event, or that its first round begins, with the advice and task of its plan."""

    round: RoundEvent | None = None
    event: dict[str, Any] | None = None
    advice: tuple[str, ...] = ()
    task: str = ""


class Reporter:
    """An agent's end of its standard input.

    ``answered`` says that the starter answers every round. The agent then waits for that, however long it takes.
    """

    def __init__(self, *, answered: bool) -> None:
        self._answered = answered

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
        if os.read(LINE, LONGEST) == STOPS:
            raise StopRun

    def _send(self, said: AgentReport) -> None:
        os.write(LINE, json.encode(said))

    def _wait(self, what: int) -> None:
        poll = select.poll()
        poll.register(LINE, what)
        poll.poll()
