"""What is said before and during a run, on standard error: a bar on a terminal, else a line ever more seldom."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from admmnet.errors import counted
from admmnet.record.format import epsilon, error, seconds

if TYPE_CHECKING:
    from admmnet.running.entrance import Plan
    from admmnet.running.events import RoundEvent

FIRST = 10.0
"""Seconds until the first line. Each later one comes when twice as much time has passed: logs stay short."""


def new_bar() -> Any:
    """A bar on standard error that has begun: a task's description, how far it is, and its ``words``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    ends = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
    middle = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(ends[0], *middle, ends[1], console=Console(stderr=True), transient=True)
    bar.start()
    return bar


class Progress:
    """Bar over rounds with the consensus' test error beside it, or lines; nothing at all unless ``told``."""

    def __init__(self, *, told: bool) -> None:
        self._told = told
        self.told: tuple[str, ...] = ()
        self._bar: Any = None
        self._begin, self._due = 0.0, FIRST
        self._before: int | None = None

    def start(self, plan: Plan) -> None:
        """Say what is worth knowing before the run, and show the bar."""
        if not self._told:
            return
        for note in plan.advice if plan.advice != self.told else ():  # a run that goes on has said them
            print(f"note: {note}", file=sys.stderr, flush=True)
        self.told = plan.advice
        self._begin, self._unit = time.monotonic(), "epoch" if plan.config.baseline else "round"
        self._metric = "mean-squared-error" if plan.task == "real" else "error"
        if sys.stderr.isatty():
            agents = len(plan.graph)
            name = plan.config.algorithm + (f" on {agents} agents" if agents > 1 else "")
            self._bar = new_bar()
            self._task = self._bar.add_task(name, total=plan.rounds, words="")

    def round(self, event: RoundEvent) -> None:
        """Count a round."""
        if not self._told:
            return
        name = "error" if self._metric == "error" else "MSE"
        words = "" if event.test_error is None else f"test {name} {error(event.test_error, self._metric)}"
        if self._bar is not None:
            self._bar.update(self._task, completed=event.round + 1, words=words)
            return
        passed = time.monotonic() - self._begin
        if self._before is None:
            self._before = event.round
        if passed >= self._due and event.round + 1 < event.rounds:
            self._due = 2.0 * passed
            print(self._line(event, words, passed), file=sys.stderr, flush=True)

    def _line(self, event: RoundEvent, words: str, passed: float) -> str:
        done = event.round + 1
        each = passed / (done - (self._before or 0))  # a run that goes on did not begin at 0
        largest = max(event.epsilon.values(), default=None)
        spent = None if largest is None else f"epsilon {epsilon(largest)} spent"
        away = f"{counted(len(event.away), 'agent')} away" if event.away else None
        left = f"{seconds(passed)} so far, about {seconds(each * (event.rounds - done))} left"
        return f"{self._unit} {done} of {event.rounds}: " + ", ".join(filter(None, (words, spent, away, left)))

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
