"""A run's progress in a notebook: a bar under the cell, updated in place."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

from admmnet.running.events import RoundEvent, standing

EVERY = 0.5
"""Seconds between two updates."""


def in_notebook() -> bool:
    """Whether a kernel of IPython runs here; IPython in a terminal has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """Shows rounds, error and epsilon; ``start`` and ``round`` are called as ``on_start`` and ``on_round``."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._due = 0.0

    def start(self, plan: Any) -> None:
        """Note the method, its unit of progress and the kind of its error."""
        self._name = plan.config.algorithm
        self._unit = "epoch" if plan.config.baseline else "round"
        self._metric = "mean-squared-error" if plan.task == "real" else "error"

    def round(self, event: RoundEvent) -> None:
        """Show a round, if it is the last or the bar is due; a notebook that shows nothing ends no run."""
        done = event.round + 1
        if time.monotonic() < self._due and done < event.rounds:
            return
        self._due = time.monotonic() + EVERY
        words = ", ".join((f"{self._name}: {self._unit} {done} of {event.rounds}", *standing(event, self._metric)))
        from html import escape

        bar = f"<progress value='{done}' max='{event.rounds}'></progress> {escape(words)}"
        with suppress(Exception):
            self._show({"text/plain": words, "text/html": bar})

    def _show(self, content: dict[str, str]) -> None:
        if self._handle is not None:
            self._handle.update(content, raw=True)
            return
        from IPython.display import display

        self._handle = display(content, raw=True, display_id=True)
