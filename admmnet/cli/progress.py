"""What is said before a run, and one progress bar, on rank 0, where standard error is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from admmnet.running.events import RoundEvent
    from admmnet.running.plan import Plan


class Progress:
    """Bar over rounds with the consensus' test error beside it; nothing at all unless shown."""

    def __init__(self, *, shown: bool, advising: bool = False) -> None:
        self._shown, self._advising = shown, advising
        self.told: tuple[str, ...] = ()
        self._bar: Any = None
        self._task: Any = None

    def start(self, plan: Plan) -> None:
        """Say what is worth knowing before the run, and show the bar."""
        if self._advising:
            self.told = plan.advice
            for note in self.told:
                print(f"note: {note}", file=sys.stderr, flush=True)
        if not self._shown:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        agents = len(plan.graph)
        self._bar = Bar(
            TextColumn(plan.config.algorithm + (f" on {agents} agents" if agents > 1 else "")),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[error]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._words = "test MSE {:.4g}" if plan.data.task == "real" else "test error {:.1%}"
        self._task = self._bar.add_task("rounds", total=plan.rounds, error="")

    def round(self, event: RoundEvent) -> None:
        """Count a round."""
        if self._bar is not None:
            error = "" if event.test_error is None else self._words.format(event.test_error)
            self._bar.update(self._task, completed=event.round + 1, error=error)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
