"""Finished runs as figures: a row each, a line for each method and epsilon, and the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from admmnet.experiments.grid import Case, Cell
from admmnet.experiments.parsing import Entry, Values
from admmnet.experiments.pool import Failure

COLUMNS = (
    *("algorithm", "method", "accountant", "adjacency", "epsilon_target", "epsilon_proven", "epsilon_published"),
    *("seed", "test_error", "train_loss", "releases", "bytes_sent", "seconds"),
    *("colluders", "epsilon_if_all_collude"),
)
"""Of compare.csv."""
UNCOVERED = "the choice reads validation errors without noise, which no figure covers; it never reads test records"
Row = dict[str, Any]
"""A line of compare.csv: figures of one run as its summary.json has them; None where undefined."""


def row_of(cell: Cell, summary: dict[str, Any]) -> Row:
    """Return the row of a finished run."""
    own = {
        "seed": cell.seed,
        "test_error": summary["test_error"]["consensus"],
        "releases": sum(entry["releases"] for entry in summary["per_agent"]),
        "seconds": summary["seconds"]["total"],
    }
    said = summary | summary["privacy"] | own
    return {name: said.get(name) for name in COLUMNS}


class Line(NamedTuple):
    """A method at an epsilon, over its finished runs in the order of their seeds."""

    entry: Entry
    epsilon: float | None
    rows: tuple[Row, ...]

    def mean(self, name: str) -> float | None:
        """Mean of a column, None where any value is undefined."""
        values = [row[name] for row in self.rows]
        return None if None in values else fmean(values)

    def most(self, name: str) -> float | None:
        """Largest value of a column, None where any is undefined."""
        values = [row[name] for row in self.rows]
        return None if None in values else max(values)

    @property
    def error(self) -> float | None:
        """Mean test error."""
        return self.mean("test_error")

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the test error, None of one run."""
        values = [row["test_error"] for row in self.rows]
        return None if None in values or len(values) < 2 else stdev(values)

    def as_dict(self) -> dict[str, Any]:
        """Return the line for JSON."""
        found = {"name": self.entry.text, **asdict(self.entry), "epsilon": self.epsilon, "seeds": len(self.rows)}
        found |= {name: self.most(name) for name in ("epsilon_proven", "epsilon_published", "epsilon_if_all_collude")}
        found |= {name: self.mean(name) for name in ("train_loss", "releases", "bytes_sent", "seconds")}
        found |= {name: self.rows[0][name] for name in ("colluders", "adjacency")}
        return found | {"error": self.error, "spread": self.spread, "errors": [row["test_error"] for row in self.rows]}


class Choice(NamedTuple):
    """What was chosen for a case in so many trials, and the mean validation error of every combination.

    The costs are epsilons of all trials and one final run on the same records, None where undefined.
    """

    case: Case
    values: Values
    errors: dict[Values, float]
    trials: int
    cost_proven: float | None = None
    cost_published: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for JSON."""
        return {
            **asdict(self.case.entry),
            "epsilon": self.case.epsilon,
            "data_seed": self.case.data_seed,
            "chosen": dict(self.values),
            "validation_error": [{"settings": dict(values), "error": error} for values, error in self.errors.items()],
            "trials": self.trials,
            "epsilon_proven_with_trials": self.cost_proven,
            "epsilon_published_with_trials": self.cost_published,
            "uncovered": UNCOVERED,
        }


@dataclass(frozen=True)
class CompareResult:
    """What a comparison leaves in memory.

    ``folder`` holds compare.json, compare.csv, compare.png and the run folders; ``data`` are facts and references of
    each split of the data. ``rows`` is the content of compare.csv by its runs, and ``lines`` sums it up over seeds.
    ``failed`` and ``refused`` have reasons by what did not run, of ``missing`` runs in all. ``notes`` must be known to
    quote the figures; ``undrawn`` says why there is no picture, with the remedy.
    """

    folder: Path
    delta: float
    data: tuple[dict[str, Any], ...]
    rows: dict[Cell, Row]
    lines: tuple[Line, ...]
    choices: tuple[Choice, ...]
    failed: dict[str, Failure]
    refused: dict[tuple[Entry, float | None], Failure]
    missing: int
    notes: tuple[str, ...]
    pictures: tuple[Path, ...]
    undrawn: str | None

    @property
    def metric(self) -> str:
        """What test figures are: ``error``, or ``mean-squared-error`` of real targets."""
        return "mean-squared-error" if self.data[0]["task"] == "real" else "error"

    @property
    def larger_class(self) -> float | None:
        """Test error of the larger class, or of real targets' mean, averaged over splits."""
        return _mean([data["larger_class"] for data in self.data])

    @property
    def pooled(self) -> float | None:
        """Test error of the optimum without privacy on all training records, averaged over splits."""
        return _mean([data["pooled"] for data in self.data])

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON, without the rows, which compare.csv holds."""
        return {
            "folder": str(self.folder),
            "delta": self.delta,
            "data": list(self.data),
            "references": {"larger_class": self.larger_class, "pooled": self.pooled},
            "lines": [line.as_dict() for line in self.lines],
            "tuning": [choice.as_dict() for choice in self.choices],
            "failed": [{"run": words, "reason": failed.message} for words, failed in self.failed.items()],
            "refused": [
                {"name": entry.text, "epsilon": epsilon, "reason": failure.message}
                for (entry, epsilon), failure in self.refused.items()
            ],
            "missing": self.missing,
            "notes": list(self.notes),
            "csv": str(self.folder / "compare.csv"),
            "pictures": [str(picture) for picture in self.pictures],
        }


def facts_of(summaries: Sequence[dict[str, Any]], data_seed: int) -> dict[str, Any]:
    """Facts and references of one split: those of a run on the network, where there is one."""
    found = max(summaries, key=lambda summary: summary["agents"] > 1)
    held = found["references"]
    own = {"larger_class": held.get("larger_class", held.get("mean")), "pooled": held["pooled"]}
    return {"data_seed": data_seed, "agents": found["agents"], **found["data"], **own}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
