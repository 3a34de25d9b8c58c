"""What long commands say on standard error while they work: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from admmnet.cli.flags import notes
from admmnet.record.format import seconds

if TYPE_CHECKING:
    from admmnet.running.events import RoundEvent
    from admmnet.running.plan import Plan

EVERY = 30.0
"""Seconds from line to line."""


def new_bar() -> Any:
    """A bar on standard error that has begun: a task's description, how far it is, and its ``words``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    ends = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
    middle = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(ends[0], *middle, ends[1], console=Console(stderr=True), transient=True)
    bar.start()
    return bar


class Lines:
    """Lines for where there is no terminal, at most one in `EVERY` seconds."""

    def __init__(self) -> None:
        self._due = time.monotonic() + EVERY

    def begin(self, name: str, total: int, before: int | None = None) -> None:
        """Count to `total`, from what was done before; None: the first that is told is the first that was done."""
        self._name, self._total, self._before, self._start = name, total, before, time.monotonic()

    def tell(self, done: int, *words: str | None) -> None:
        """So many are done; the words say how it stands."""
        now = time.monotonic()
        self._before = done - 1 if self._before is None else self._before
        if now < self._due or done >= self._total:
            return
        self._due, passed = now + EVERY, now - self._start
        new = done - self._before
        left = f", about {seconds(passed / new * (self._total - done))} left" if new else ""
        told = ", ".join(filter(None, (*words, f"{seconds(passed)} so far{left}")))
        print(f"{self._name} {done} of {self._total}: {told}", file=sys.stderr, flush=True)


class Progress:
    """Bar over rounds with the figures beside it, or lines; nothing at all unless ``told``."""

    def __init__(self, *, told: bool) -> None:
        self._told = told
        self.told: tuple[str, ...] = ()
        self._bar: Any = None
        self._lines = Lines()

    def start(self, plan: Plan) -> None:
        """Say what is worth knowing before the run, and show the bar."""
        if not self._told:
            return
        notes(*(plan.advice if plan.advice != self.told else ()))  # a run that goes on has said them
        self.told = plan.advice
        self._lines.begin("epoch" if plan.config.baseline else "round", plan.rounds)
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
        from admmnet.running.events import standing  # here: it needs numpy, which helps and tables do without

        words = standing(event, self._metric)
        if self._bar is not None:
            self._bar.update(self._task, completed=event.round + 1, words=", ".join(words))
        else:
            self._lines.tell(event.round + 1, *words)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
