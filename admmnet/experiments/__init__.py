"""Methods side by side: a grid of seeded runs over methods, epsilons and seeds (docs/compare.md, "In Python")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admmnet.registry import lazily

if TYPE_CHECKING:
    from admmnet.experiments.driver import compare
    from admmnet.experiments.figures import CompareResult
    from admmnet.experiments.grid import Comparison

__all__ = ["CompareResult", "Comparison", "Watch", "compare"]


class Watch:
    """Is told how work goes on, of phases and steps; does nothing unless overridden."""

    def phase(self, name: str, total: int, done: int) -> None:
        """``name`` begins: so many steps, of which some were done by earlier calls."""

    def step(self, words: str) -> None:
        """Another step of the phase has ended."""

    def waiting(self) -> None:
        """Work goes on."""

    def first(self, seconds: float, memory: int) -> None:
        """The first step took so many seconds, in a process of at most so many bytes until then."""


_HOMES = {"CompareResult": "figures", "Comparison": "grid", "compare": "driver"}
__getattr__, __dir__ = lazily(__name__, _HOMES)
