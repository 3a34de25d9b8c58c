"""admmnet run; and what long commands say on standard error while they work: a bar on a terminal, else lines."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import asked, event_flags, explain_flag, lines, notes, output_flags, talks, telling
from admmnet.cli.settings import SettingsCommand, leave, settings_of, tell
from admmnet.config.run_config import RunConfig
from admmnet.errors import counted
from admmnet.experiments import Watch
from admmnet.record.format import count, epsilon, error, seconds, size
from admmnet.transport import World, open_world
from admmnet.transport.collective import KEPT

if TYPE_CHECKING:
    from admmnet.running.events import RoundEvent
    from admmnet.running.plan import Plan


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@output_flags
@event_flags
@explain_flag
@click.pass_obj
def run(world: World, /, config: str | None, **flags: Any) -> None:
    """Train one model on the network's records and write a run folder.

    Under mpirun every rank is an agent (or hosts a block of them); without it the agents are simulated in
    this process. Flags override CONFIG.toml, which overrides the defaults.
    """
    settings = settings_of(config, flags)
    world = world if settings.baseline else open_world(settings.transport)
    with telling() if world.rank == 0 else nullcontext():  # it speaks for all ranks
        train(settings, world)


def train(settings: RunConfig, world: World) -> None:
    """Run, with what ``Progress`` shows, and print the table."""
    from admmnet.library import run as run_settings

    KEPT.begin()
    how: dict[str, Any] = {"stoppable": False, "debug": bool(asked("debug"))}
    with Progress(silent=world.rank > 0) as bar:
        result = run_settings(settings, world=world, on_start=bar.start, on_round=bar.round, **how)
    if world.rank == 0:
        tell(result, bar.advice)
    leave(result.summary)


EVERY = 30.0
"""Seconds from line to line."""


class Progress(Watch):
    """Rounds of a run with their figures, or phases of a grid and their steps, where a command ``talks``.

    A bar where standard error is a terminal, else lines, at most one in `EVERY` seconds. An interrupt tells what of a
    grid is ``kept``.
    """

    def __init__(self, kept: str = "", *, silent: bool = False) -> None:
        self._kept, self._shown, self._due = kept, talks() and not silent, time.monotonic() + EVERY
        self.advice: tuple[str, ...] = ()
        self._drawn: Any = None
        self._task: Any = None
        self._before: int | None = None

    def start(self, plan: Plan) -> None:
        """Say what is worth knowing before a run, and show the bar."""
        if not self._shown:
            return
        notes(*(plan.advice if plan.advice != self.advice else ()))  # a run that goes on has said them
        self.advice = plan.advice
        self._metric = "mean-squared-error" if plan.task == "real" else "error"
        name = plan.config.algorithm
        if len(plan.graph) > 1:
            name += f" on {len(plan.graph)} agents"
        self._begin("epoch" if plan.config.baseline else "round", plan.rounds, None, name)

    def round(self, event: RoundEvent) -> None:
        """Count a round."""
        if not self._shown:
            return
        if self._before is None:  # the first that is told of is the first that was done
            self._before = event.round
        self._done = event.round
        kind, largest = "error" if self._metric == "error" else "MSE", max(event.epsilon.values(), default=None)
        told = [] if event.test_error is None else [f"test {kind} {error(event.test_error, self._metric)}"]
        told += [] if largest is None else [f"epsilon {epsilon(largest)} spent"]
        self.step(*told, *([f"{counted(len(event.away), 'agent')} away"] if event.away else []))

    def phase(self, name: str, total: int, done: int) -> None:
        """Show the next bar."""
        if self._shown and name and total > done:
            there = f", {count(done)} are there" if done else ""
            lines(f"{name}: {count(total - done)} to make{there}", err=True)
        self._begin(name or "preparing", total, done, name or "preparing")

    def first(self, took: float, memory: int) -> None:
        """Say what one takes."""
        if self._shown:
            lines(f"the first took {seconds(took)}, in a process of {size(memory)} of memory", err=True)

    def step(self, *words: str | None) -> None:
        """Count a step."""
        self._done += 1
        self.waiting(*words)

    def _begin(self, name: str, total: int, done: int | None, words: str) -> None:
        """Count to ``total``, from what is done; None if that is not known yet. A line says the name, a bar words."""
        self._name, self._total, self._before, self._start = name, total, done, time.monotonic()
        self._done = done or 0
        if not (self._shown and sys.stderr.isatty()):
            return
        if self._drawn is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bars

            ends = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
            middle = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._drawn = Bars(ends[0], *middle, ends[1], console=Console(stderr=True), transient=True)
            self._drawn.start()
        else:
            self._drawn.remove_task(self._task)
        self._task = self._drawn.add_task(words, total=total, completed=self._done, words="")

    def waiting(self, *words: str | None) -> None:
        """Say how it stands."""
        if not self._shown:
            return
        if self._drawn is not None:
            own = {"words": ", ".join(filter(None, words))} if words else {}
            self._drawn.update(self._task, completed=self._done, **own)
            return
        now = time.monotonic()
        if now < self._due or self._done >= self._total:
            return
        self._due, passed, new = now + EVERY, now - self._start, self._done - (self._before or 0)
        left = f", about {seconds(passed / new * (self._total - self._done))} left" if new else ""
        told = ", ".join(filter(None, (*words, f"{seconds(passed)} so far{left}")))
        print(f"{self._name} {self._done} of {self._total}: {told}", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()
            self._drawn = None
        if self._kept and isinstance(error, KeyboardInterrupt):
            error.args = (f"{self._kept} are kept, and the same call goes on with the others",)
