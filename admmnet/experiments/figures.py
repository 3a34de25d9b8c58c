"""Finished runs as figures: a row each, a line for each method and epsilon, and the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from admmnet.errors import AdmmnetError
from admmnet.experiments.grid import Case, Cell
from admmnet.experiments.parsing import Entry, Values
from admmnet.experiments.rows import Row

COLUMNS = (
    *("algorithm", "method", "accountant", "adjacency", "epsilon_target", "epsilon_proven", "epsilon_published"),
    *("seed", "test_error", "train_loss", "releases", "bytes_sent", "seconds"),
    *("colluders", "epsilon_if_all_collude"),
)
"""Of compare.csv."""
UNCOVERED = "the choice reads validation errors without noise, which no figure covers; it never reads test records"


def row_of(cell: Cell, summary: dict[str, Any]) -> Row:
    """Line of compare.csv: figures of a finished run, as its summary.json has them."""
    own = {
        "seed": cell.seed,
        "test_error": summary["test_error"]["consensus"],
        "releases": sum(entry["releases"] for entry in summary["per_agent"]),
        "seconds": summary["seconds"]["total"],
    }
    said = summary | summary["privacy"] | own
    return {name: said.get(name) for name in COLUMNS}


def over(rows: Sequence[Row], name: str, kind: Callable[[list[float]], float] = fmean) -> float | None:
    """Mean of a column, or another figure of it, None where any value is undefined."""
    values = [row[name] for row in rows]
    return None if None in values else kind(values)


def line_of(entry: Entry, epsilon: float | None, rows: Sequence[Row]) -> dict[str, Any]:
    """A method at an epsilon, over its finished runs in the order of their seeds; ``spread`` needs two."""
    found = {"name": entry.text, **asdict(entry), "epsilon": epsilon, "seeds": len(rows)}
    found |= {name: over(rows, name, max) for name in ("epsilon_proven", "epsilon_published", "epsilon_if_all_collude")}
    found |= {name: over(rows, name) for name in ("train_loss", "releases", "bytes_sent", "seconds")}
    found |= {name: rows[0][name] for name in ("colluders", "adjacency")}
    spread = over(rows, "test_error", stdev) if len(rows) > 1 else None
    errors = [row["test_error"] for row in rows]
    return found | {"error": over(rows, "test_error"), "spread": spread, "errors": errors}


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


class CompareResult(NamedTuple):
    """What a comparison leaves in memory.

    ``told`` has all that ``--json`` prints; rows are those of compare.csv by their runs. ``failed`` has errors by what
    did not run; ``undrawn`` says why there is no picture, with the remedy.
    """

    folder: Path
    told: dict[str, Any]
    rows: dict[Cell, Row]
    choices: tuple[Choice, ...]
    failed: dict[str, AdmmnetError]
    undrawn: str | None


def facts_of(summaries: Sequence[dict[str, Any]], data_seed: int) -> dict[str, Any]:
    """Facts and references of one split: those of a run on the network, where there is one."""
    found = max(summaries, key=lambda summary: summary["agents"] > 1)
    held = found["references"]
    own = {"larger_class": held.get("larger_class", held.get("mean")), "pooled": held["pooled"]}
    return {"data_seed": data_seed, "agents": found["agents"], **found["data"], **own}
