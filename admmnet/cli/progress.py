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


class Bar:
    """A bar where standard error is a terminal, else lines, at most one in `EVERY` seconds; nothing unless shown."""

    def __init__(self, *, shown: bool) -> None:
        self.shown, self._due = shown, time.monotonic() + EVERY
        self._drawn: Any = None
        self._task: Any = None

    def begin(self, name: str, total: int, before: int | None = None, *, words: str = "") -> None:
        """Count to `total`, from what was done before; None: the first that is told is the first that was done.

        A line says the name, a bar the ``words``, by default the name.
        """
        self._name, self._total, self._before, self._start = name, total, before, time.monotonic()
        if not (self.shown and sys.stderr.isatty()):
            return
        if self._drawn is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            ends = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
            middle = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._drawn = Progress(ends[0], *middle, ends[1], console=Console(stderr=True), transient=True)
            self._drawn.start()
        else:
            self._drawn.remove_task(self._task)
        self._task = self._drawn.add_task(words or name, total=total, completed=before or 0, words="")

    def tell(self, done: int, *words: str | None) -> None:
        """So many are done; the words say how it stands."""
        if not self.shown:
            return
        if self._drawn is not None:
            self._drawn.update(self._task, completed=done, words=", ".join(filter(None, words)))
            return
        now = time.monotonic()
        self._before = done - 1 if self._before is None else self._before
        if now < self._due or done >= self._total:
            return
        self._due, passed = now + EVERY, now - self._start
        new = done - self._before
        left = f", about {seconds(passed / new * (self._total - done))} left" if new else ""
        told = ", ".join(filter(None, (*words, f"{seconds(passed)} so far{left}")))
        print(f"{self._name} {done} of {self._total}: {told}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the bar."""
        if self._drawn is not None:
            self._drawn.stop()


class Progress:
    """Rounds with their figures; nothing at all unless ``told``."""

    def __init__(self, *, told: bool) -> None:
        self.told: tuple[str, ...] = ()
        self._bar = Bar(shown=told)

    def start(self, plan: Plan) -> None:
        """Say what is worth knowing before the run, and show the bar."""
        if not self._bar.shown:
            return
        notes(*(plan.advice if plan.advice != self.told else ()))  # a run that goes on has said them
        self.told = plan.advice
        self._metric = "mean-squared-error" if plan.task == "real" else "error"
        name = plan.config.algorithm
        if len(plan.graph) > 1:
            name += f" on {len(plan.graph)} agents"
        self._bar.begin("epoch" if plan.config.baseline else "round", plan.rounds, words=name)

    def round(self, event: RoundEvent) -> None:
        """Count a round."""
        if not self._bar.shown:
            return
        from admmnet.running.events import standing  # here: it needs numpy, which helps and tables do without

        self._bar.tell(event.round + 1, *standing(event, self._metric))

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
