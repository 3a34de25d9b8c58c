"""Finished runs as figures: a tidy row each, a line for each method and epsilon, and the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from admmnet.experiments.folder import csv_text
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
    own = {
        "seed": cell.seed,
        "test_error": summary["test_error"]["consensus"],
        "releases": sum(entry["releases"] for entry in summary["per_agent"]),
        "seconds": summary["seconds"]["total"],
    }
    said = {"colluders": None, "epsilon_if_all_collude": None} | summary["privacy"] | summary | own
    return Row(**{field.name: said[field.name] for field in fields(Row)})


def to_csv(rows: Iterable[Row]) -> str:
    """Return the rows as CSV."""
    return csv_text([field.name for field in fields(Row)], map(astuple, rows))


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
        entry = {"name": self.entry.text, **asdict(self.entry)}
        own = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        return entry | own | {"errors": list(self.errors)}


def line_of(entry: Entry, epsilon: float | None, rows: Sequence[Row]) -> Line:
    """Return the line of one or more rows of one method and epsilon."""
    found = {field.name: [getattr(row, field.name) for row in rows] for field in fields(Row)}
    largest = ("epsilon_proven", "epsilon_published", "epsilon_if_all_collude")
    figures: dict[str, Any] = {name: max(_known(found[name]), default=None) for name in largest}
    figures |= {name: _mean(found[name]) for name in ("train_loss", "releases", "bytes_sent", "seconds")}
    errors = tuple(row.test_error for row in sorted(rows, key=lambda row: row.seed))
    return Line(
        entry,
        epsilon,
        len(rows),
        error=_mean(errors),
        spread=stdev(_known(errors)) if len(_known(errors)) > 1 else None,
        colluders=rows[0].colluders,
        adjacency=rows[0].adjacency,
        errors=errors,
        **figures,
    )


@dataclass(frozen=True)
class Failed:
    """A run that failed, and why."""

    words: str
    message: str
    trace: str = ""


@dataclass(frozen=True)
class Refused:
    """A method at an epsilon that cannot run, and why: the others do."""

    entry: Entry
    epsilon: float | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"name": self.entry.text, "epsilon": self.epsilon, "reason": self.reason}


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
    refused: tuple[Refused, ...]
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
            "refused": [one.as_dict() for one in self.refused],
            "notes": list(self.notes),
            "csv": str(self.folder / "compare.csv"),
            "pictures": [str(picture) for picture in self.pictures],
        }


def _known(values: Sequence[float | None]) -> list[float]:
    """Return the values, none of them if any is undefined."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _mean(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return fmean(known) if known else None
