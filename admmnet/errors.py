"""The few exceptions that reach a person, each with the exit code of the command line."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from typing import IO, Self

IN_PART = 5
"""Exit code of a run that has finished without some agent of its network."""


class AdmmnetError(Exception):
    """Base of every error whose message is meant for the user: cause and remedy in one or two lines."""

    exit_code = 3
    shared = False
    """Whether every process of the run raises it, so that one of them reports it."""

    def __init__(self, *said: object, public: str | None = None) -> None:
        super().__init__(*said)
        self._public = public

    @property
    def public(self) -> str:
        """The message without what was read from records: all that another process, or a private run, shows."""
        return str(self) if self._public is None else self._public

    def of_all(self) -> Self:
        """Say that every process of the run raises it."""
        self.shared = True
        return self


class CheckFailed(AdmmnetError):
    """A verification found a fault (exit code 1)."""

    exit_code = 1


class RequestError(AdmmnetError, ValueError):
    """The request itself is wrong: a setting, a file, a graph, a data set (exit code 2). A ``ValueError``, too."""

    exit_code = 2


class MissingDataError(RequestError):
    """A data set is not there at all, which is no fault of its files."""


class DataError(RequestError):
    """Records are not as declared (exit code 2). Its text quotes them; ``public`` does not.

    Parameters
    ----------
    faults : str or iterable of str
        What is wrong, with line, column and value, the first of a file first. At most ``KEPT`` are kept.
    file : str, optional
        File they were read from; whoever opens it fills it in.
    reason : str
        What may be said of the file in public; nothing in it comes from the file.

    Attributes
    ----------
    faults : tuple of str
        Those that are kept, one at least.
    count : int
        Number of all.
    file, reason
        As given.
    """

    KEPT = 1000

    def __init__(
        self, faults: str | Iterable[str], file: str | None = None, reason: str = "is not as declared"
    ) -> None:
        found = iter([faults] if isinstance(faults, str) else faults)
        self.faults = tuple(fault for _, fault in zip(range(self.KEPT), found, strict=False))
        self.count = len(self.faults) + sum(1 for _ in found)
        self.file, self.reason = file, reason
        more = f" (the first of {self.count:,} faults)" if self.count > 1 else ""
        super().__init__(self.faults[0] + more)

    @property
    def public(self) -> str:
        """Name of the file and the remedy."""
        given = {"arrays": "numpy.savez(FILE, X=X, y=y)", "frame": "frame.to_csv(FILE, index=False)"}.get(
            str(self.file)
        )
        file = "FILE" if given or self.file is None else self.file
        more = f"`admmnet data check {file}`, with the run's --label or --schema, shows more on"
        if given:
            return f"the records given ({self.file}): what was given {self.reason}; after {given} {more} this machine"
        return f"{self.file or 'a file of records'} {self.reason}: {more} the machine that holds the file"


class RunError(AdmmnetError):
    """The run failed: an agent died, a solve missed its certificate (exit code 3)."""

    exit_code = 3


class StartEnded(RunError):
    """Something has ended this start of a run, which goes on in another one."""


class CertificateError(RunError):
    """A solve missed its certificate; the figures in the message depend on the records, ``public`` has none."""


class BudgetError(AdmmnetError):
    """The budget affords no round at all (exit code 4)."""

    exit_code = 4


KINDS: dict[int, type[AdmmnetError]] = {
    kind.exit_code: kind for kind in (RequestError, BudgetError, RunError, CheckFailed)
}
"""Errors by the exit codes by which other processes name them, those that explain most first."""


class PrivacyWarning(UserWarning):
    """Fits of this process share records: what they cost together; or a fit with an account ended without a model.

    It depends on the records, and is for who holds them. Worker processes (``n_jobs``) count their own fits.
    """


class StopRun(Exception):
    """Raised by ``on_round``: the run ends cleanly after this round, with its summary and its ledgers closed."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came, of a service manager or a batch system: the end of Ctrl-C, with exit code 3."""

    exit_code = 3


def says(who: str, text: str) -> str:
    """Words of another process, on one line and marked as its own."""
    said = " ".join(printable(text, 1000).split()).replace('"', "'")
    return f'{who} says: "{said}"'


def short(value: object, limit: int = 40) -> str:
    """Value as it goes into a message: on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 4] + "..." + text[-1]


def article(noun: str) -> str:
    """A noun with "a" or "an" before it."""
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def counted(number: int, noun: str) -> str:
    """Return "1 round" or "2 rounds"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def printable(text: str, most: int = 2000) -> str:
    """Text of another process, at most so long, without what steers a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text[:most])


def columns_of(out: IO[str]) -> int | None:
    """Characters of a line: a terminal's; else COLUMNS, if standard output or error is asked about; None for any."""
    standard = out in (sys.stdout, sys.stderr) and re.fullmatch("[1-9][0-9]*", os.environ.get("COLUMNS", ""))
    return shutil.get_terminal_size().columns if standard or out.isatty() else None


def broken(text: str, out: IO[str]) -> str:
    """Text with its lines broken at words to their width, below what follows ``mode:`` and the like.

    No line ends between a number and its unit.
    """
    if (width := columns_of(out)) is None:
        return text
    from textwrap import fill  # here: the command line starts faster

    lines = list[str]()
    for line in text.split("\n"):
        start = re.match(r"(\w+( \w+)?: +)? *", line)
        indent = " " * (start.end() if start and start.end() < width // 2 else 0)
        glued = re.sub(r"(?<=\d) (?=(s|min|h|kB|MB|%)\b)", "\u00a0", line)
        lines.append(fill(glued, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))
    return "\n".join(lines).replace("\u00a0", " ")
