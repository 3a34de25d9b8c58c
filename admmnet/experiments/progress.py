"""Being told how a comparison goes on."""

from __future__ import annotations


class Watch:
    """Is told of phases and steps; does nothing unless overridden."""

    def phase(self, name: str, total: int, done: int) -> None:
        """``name`` begins: so many steps, of which some were done by earlier calls."""

    def step(self, words: str) -> None:
        """Another step of the phase has ended."""

    def waiting(self) -> None:
        """No step has ended for a while."""

    def first(self, seconds: float, memory: int) -> None:
        """The first step took so many seconds, in a process of at most so many bytes until then."""
