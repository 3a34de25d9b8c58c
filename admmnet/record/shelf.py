"""The ledgers in a run folder, read together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from admmnet.errors import CheckFailed
from admmnet.forms import decode
from admmnet.privacy.ledger.form import EndLine, EventLine, HeaderLine, Line, Total


def ledger_files(folder: Path) -> list[Path]:
    """Ledgers of a run, in the order of their agents; none where there is no run."""
    return sorted((folder / "ledger").glob("agent-*.jsonl"))


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
    found = []
    for path in ledger_files(folder):
        with suppress(OSError, CheckFailed):
            first, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
            header = decode(HeaderLine, first)
            ends = (one for line in reversed(lines) if (one := _line_of(line)) is not None)
            last = next(ends, None)
            charge = next(ends, None) if isinstance(last, EndLine) else last
            at = charge.at if isinstance(charge, EventLine) else None
            found.append(Followed(header, None if last is None else last.total, at))
    return found


def _line_of(line: bytes) -> EventLine | EndLine | None:
    with suppress(CheckFailed):
        found = decode(cast(Any, Line), line)
        return found if isinstance(found, EventLine | EndLine) else None
    return None


def measured(folder: Path) -> Iterator[tuple[int, int, int, float | None]]:
    """Round, agent, releases and test error of each whole row of metrics.csv; whatever is no row is left out."""
    try:
        lines = (folder / "metrics.csv").read_bytes().split(b"\n")[:-1]
    except OSError:
        return
    for row in (line.split(b",") for line in lines):
        with suppress(ValueError, IndexError):  # the header, or what is no row
            yield int(row[0]), int(row[1]), int(row[3]), float(row[2]) if row[2] else None
