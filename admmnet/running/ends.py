"""A run that is ended from outside, by Ctrl-C or SIGTERM: its last message and exit code (docs/cli.md)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from admmnet.errors import RequestError, Terminated
from admmnet.record.format import epsilon
from admmnet.transport.collective import KEPT


@contextmanager
def terminating() -> Iterator[None]:
    """Let SIGTERM raise ``Terminated`` in this block, in the main thread, unless somebody has said what it does."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # batch systems send it to a launcher and to what it started
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def speaking() -> Iterator[dict[str, Any]]:
    """Put into an interrupt of this block what the run spent and how it goes on, once ``folder`` is filled in."""
    known: dict[str, Any] = {"folder": None}
    try:
        yield known
    except KeyboardInterrupt as error:
        error.args = error.args or (last_words(**known),)
        raise
    finally:
        KEPT.end()


def last_words(folder: Path | None) -> str:
    """What an interrupted run has spent, by the ledgers in its folder, and the command that goes on with it."""
    from admmnet.record.folder import PART, SUMMARY, followed  # here: the command line starts faster
    from admmnet.running.arguments import saved_config

    ledgers = followed(folder) if folder is not None else []
    if folder is None or not ledgers:
        return "nothing was charged: the first round had not begun"
    spent = [0.0 if one.total is None else one.total.epsilon_spent for one in ledgers]
    known = [value for value in spent if value is not None]
    figure = ""
    if known:
        whose = f", the largest of {len(spent)} agents" if len(spent) > 1 else ""
        figure = f": epsilon {epsilon(max(known))} so far{whose}"
    alone = (folder / PART).exists()
    go_on = f"go on with `--resume {folder}` at every agent" if alone else f"go on with `admmnet run --resume {folder}`"
    try:
        if (folder / SUMMARY).exists():
            go_on = "the run has finished"
        else:
            saved_config(folder)
    except RequestError:
        go_on = "it cannot go on: run anew with --account, so that spent budget counts"
    return f"the ledgers hold everything that was sent{figure}; {go_on}"
