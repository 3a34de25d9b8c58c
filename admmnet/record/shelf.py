"""The ledgers in a run folder, read together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from admmnet.errors import CheckFailed
from admmnet.forms import decode
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger
from admmnet.privacy.ledger.form import EndLine, EventLine, HeaderLine, Line, Total
from admmnet.record.folder import sha256

_RECORDS = re.compile(rb'"records":(\d+)')


class ReadLedger(NamedTuple):
    """A ledger that verifies: its file, sha256 of that, and what is in it."""

    path: Path
    digest: str
    ledger: audit.VerifiedLedger


def ledger_files(folder: Path) -> list[Path]:
    """Ledgers of a run, in the order of their agents; none where there is no run."""
    return sorted((folder / "ledger").glob("agent-*.jsonl"))


def close_all(ledgers: Sequence[Ledger], *, commit: bool = True) -> None:
    """Close them all, also where some cannot be closed, which is said of the first; ``commit`` as of ``Ledger``."""
    errors: list[BaseException] = []
    for ledger in ledgers:
        try:
            ledger.close(commit=commit)
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]


class Followed(NamedTuple):
    """A ledger as far as it is written, unverified: header, last total stated, round of the last charge."""

    header: HeaderLine
    total: Total | None
    round: int | None

    @property
    def spent(self) -> float | None:
        """Epsilon spent by the accountant that guards the budget; None without a budget, or where it is infinite."""
        if self.header.budget.epsilon is None or self.total is None:
            return None if self.header.budget.epsilon is None else 0.0
        return self.total.epsilon_published if self.header.accountant == "published" else self.total.epsilon_spent


def followed(folder: Path) -> list[Followed]:
    """Ledgers of a run that may still be written, as far as they can be read."""
    return [found for path in ledger_files(folder) if (found := _followed(path)) is not None]


def _followed(path: Path) -> Followed | None:
    try:
        first, *lines = path.read_bytes().split(b"\n")[:-1]
    except (OSError, ValueError):
        return None
    header = _line_of(first)
    if not isinstance(header, HeaderLine):
        return None
    last = map(_line_of, lines[-2:])  # a charge, and the end
    ends = [line for line in last if isinstance(line, EventLine | EndLine)]
    rounds = [line.at for line in ends if isinstance(line, EventLine)]
    return Followed(header, ends[-1].total if ends else None, rounds[-1] if rounds else None)


def _line_of(line: bytes) -> Any:
    with suppress(CheckFailed):
        return decode(cast(Any, Line), line)
    return None


def read_all(files: Sequence[Path], *, keep: bool = True) -> list[ReadLedger | str]:
    """Read and verify ledgers: what is in each file, or its fault.

    Agents with as many records have the same lines, so that these files are read one after the other.
    """
    found = {path: _read(path, keep) for path in sorted(files, key=lambda path: (_records(path), path))}
    return [found[path] for path in files]


def _read(path: Path, keep: bool) -> ReadLedger | str:
    try:
        return ReadLedger(path, sha256(path), audit.read(path, keep=keep))
    except CheckFailed as error:
        return str(error)


def _records(path: Path) -> int:
    """How many records the first header in a file says; what is wrong with it, who reads it says."""
    try:
        with path.open("rb") as file:
            found = _RECORDS.search(file.readline(1 << 20))
    except OSError:
        found = None
    return 0 if found is None else int(found[1])


def measured(folder: Path) -> Iterator[tuple[int, int, int, float | None]]:
    """Round, agent, releases and test error of each whole row of metrics.csv; whatever is no row is left out."""
    try:
        lines = (folder / "metrics.csv").read_bytes().split(b"\n")[:-1]
    except OSError:
        return
    for row in (line.split(b",") for line in lines):
        with suppress(ValueError, IndexError):  # the header, or what is no row
            yield int(row[0]), int(row[1]), int(row[3]), float(row[2]) if row[2] else None
