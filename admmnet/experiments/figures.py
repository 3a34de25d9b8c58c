"""Finished runs as figures: a tidy row each, a line for each method and epsilon, and the whole."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from admmnet.experiments.grid import Cell
from admmnet.experiments.parsing import Entry
from admmnet.experiments.tasks import Survey
from admmnet.experiments.tuning import Choice


@dataclass(frozen=True)
class Row:
    """A line of compare.csv: figures of one run as its summary.json has them; None where undefined."""

    algorithm: str
    method: str
    accountant: str | None
    adjacency: str
    epsilon_target: float | None
    epsilon_proven: float | None
    epsilon_published: float | None
    seed: int
    test_error: float | None
    train_loss: float | None
    releases: int
    bytes_sent: int
    seconds: float
    colluders: int | None = None
    epsilon_if_all_collude: float | None = None


def row_of(cell: Cell, summary: dict[str, Any]) -> Row:
    """Return the row of a finished run."""
    privacy = summary["privacy"]
    return Row(
        summary["algorithm"],
        summary["method"],
        privacy["accountant"],
        privacy["adjacency"],
        privacy["epsilon_target"],
        privacy["epsilon_proven"],
        privacy["epsilon_published"],
        cell.seed,
        summary["test_error"]["consensus"],
        summary["train_loss"],
        sum(entry["releases"] for entry in summary["per_agent"]),
        summary["bytes_sent"],
        summary["seconds"]["total"],
        privacy.get("colluders"),
        privacy.get("epsilon_if_all_collude"),
    )


def to_csv(rows: Iterable[Row]) -> str:
    """Return the rows as CSV; numbers read back exactly, what is undefined is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Row))
    for row in rows:
        writer.writerow("" if value is None else value for value in astuple(row))
    return text.getvalue()


@dataclass(frozen=True)
class Line:
    """A method at an epsilon, over its finished runs: means, the largest epsilons, None where any is undefined.

    ``spread`` is the sample standard deviation of the consensus' test error, None of one run; ``errors`` are those of
    all runs in the order of their seeds.
    """

    entry: Entry
    epsilon: float | None
    seeds: int
    error: float | None
    spread: float | None
    train_loss: float | None
    epsilon_proven: float | None
    epsilon_published: float | None
    releases: float
    bytes_sent: float
    seconds: float
    colluders: int | None = None
    epsilon_if_all_collude: float | None = None
    adjacency: str = "replace-one"
    errors: tuple[float | None, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the line for JSON."""
        entry = {"algorithm": self.entry.algorithm, "method": self.entry.method}
        entry["accountant"] = self.entry.accountant
        own = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        return entry | own | {"errors": list(self.errors)}


def line_of(entry: Entry, epsilon: float | None, rows: Sequence[Row]) -> Line:
    """Return the line of one or more rows of one method and epsilon."""
    errors = _known([row.test_error for row in rows])
    losses = _known([row.train_loss for row in rows])
    return Line(
        entry,
        epsilon,
        len(rows),
        fmean(errors) if errors else None,
        stdev(errors) if len(errors) > 1 else None,
        fmean(losses) if losses else None,
        max(_known([row.epsilon_proven for row in rows]), default=None),
        max(_known([row.epsilon_published for row in rows]), default=None),
        fmean(row.releases for row in rows),
        fmean(row.bytes_sent for row in rows),
        fmean(row.seconds for row in rows),
        rows[0].colluders,
        max(_known([row.epsilon_if_all_collude for row in rows]), default=None),
        rows[0].adjacency,
        tuple(row.test_error for row in sorted(rows, key=lambda row: row.seed)),
    )


@dataclass(frozen=True)
class Failed:
    """A run that failed, and why."""

    words: str
    message: str
    trace: str = ""


@dataclass(frozen=True)
class CompareResult:
    """What a comparison leaves in memory.

    ``folder`` holds compare.json, compare.csv, compare.png and the run folders; ``surveys`` are facts and references,
    one for each split of the data; ``rows`` is the content of compare.csv and ``lines`` sums it up over seeds;
    ``notes`` must be known to quote the figures; ``undrawn`` says why there is no picture, with the remedy.
    """

    folder: Path
    delta: float
    surveys: tuple[Survey, ...]
    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    choices: tuple[Choice, ...]
    failed: tuple[Failed, ...]
    notes: tuple[str, ...]
    pictures: tuple[Path, ...]
    undrawn: str | None

    @property
    def real(self) -> bool:
        """Whether test errors are mean squares of real targets, not shares of wrong predictions."""
        return self.surveys[0].task == "real"

    @property
    def larger_class(self) -> float | None:
        """Test error of the larger class, averaged over splits."""
        return _mean([survey.larger_class for survey in self.surveys])

    @property
    def pooled(self) -> float | None:
        """Test error of the optimum without privacy on all training records, averaged over splits."""
        return _mean([survey.pooled for survey in self.surveys])

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON, without the rows, which compare.csv holds."""
        return {
            "folder": str(self.folder),
            "delta": self.delta,
            "data": [asdict(survey) for survey in self.surveys],
            "references": {"larger_class": self.larger_class, "pooled": self.pooled},
            "lines": [line.as_dict() for line in self.lines],
            "tuning": [choice.as_dict() for choice in self.choices],
            "failed": [{"run": failed.words, "reason": failed.message} for failed in self.failed],
            "notes": list(self.notes),
            "csv": str(self.folder / "compare.csv"),
            "pictures": [str(picture) for picture in self.pictures],
        }


def _known(values: Sequence[float | None]) -> list[float]:
    """Return the values, none of them if any is undefined."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
