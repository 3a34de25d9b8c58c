"""What it means that a process is lost, or has ended the run: the errors, and who is cut off with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from admmnet.errors import RunError, printable
from admmnet.transport.zmq.wire import BadFrame


class Lost(RunError):
    """A process is lost, and the run ends with it.

    Attributes
    ----------
    told : bool
        Whether another process tells the user: of processes that one command started, one speaks for all.
    """

    told = False


class RunEnded(RunError):
    """Another process has ended the run, with an exit code of its own; `told` as of ``Lost``."""

    told = False

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


def reachable(start: int, edges: Iterable[tuple[int, int]], lost: Collection[int]) -> set[int]:
    """Processes to which a way of living ones leads, with the start."""
    links = [(a, b) for a, b in edges if a not in lost and b not in lost]
    found, new = {start}, {start}
    while new:
        new = {b for a, b in links if a in new} | {a for a, b in links if b in new}
        new -= found
        found |= new
    return found


def text_of(value: Any, key: str) -> str:
    """Text in a JSON value.

    Raises
    ------
    BadFrame
        If there is none.
    """
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise BadFrame("payload")
    return printable(value[key], 1000)
