"""Finished runs as figures: rows and what is picked from them, a line for each method and epsilon, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from admmnet.errors import AdmmnetError, counted
from admmnet.experiments.grid import Cell
from admmnet.experiments.parsing import Entry
from admmnet.record.format import parameter
from admmnet.report.figure import COLOURS, MARKERS, Curve, Look, Panel, Picture, Rule
from admmnet.types import Vector

Row = dict[str, Any]
"""Facts and figures of one run; None where undefined."""


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows whose columns have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Values of a column, in the order in which they come, without None."""
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def split(rows: list[Row], *names: str) -> Iterator[tuple[Any, ...]]:
    """Values of columns, and last the rows that have them, where there are any."""
    for values in product(*(distinct(rows, name) for name in names)):
        if own := pick(rows, **dict(zip(names, values, strict=True))):
            yield (*values, own)


def values(rows: Iterable[Row], name: str) -> Vector:
    """What is known of a column."""
    return np.array([row[name] for row in rows if row.get(name) is not None], dtype=float)


def by(rows: list[Row], key: str, name: str) -> dict[Any, Vector]:
    """Values of a column for every value of another one, in increasing order of that."""
    found = {one: values(own, name) for one, own in split(rows, key)}
    return {one: found[one] for one in sorted(found) if len(found[one])}


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


def guess(summary: dict[str, Any]) -> Any:
    """Test figure of a run's one fixed prediction, the larger class or the mean."""
    held = summary["references"]
    return held.get("larger_class", held.get("mean"))


def over(rows: Sequence[Row], name: str, kind: Callable[[list[float]], float] = fmean) -> float | None:
    """Mean of a column, or another figure of it, None where any value is undefined."""
    values = [row[name] for row in rows]
    return None if None in values else kind(values)


def line_of(entry: Entry, epsilon: float | None, rows: Sequence[Row]) -> dict[str, Any]:
    """A method at an epsilon, over its finished runs in the order of their seeds; ``spread`` needs two."""
    found = {"name": str(entry), **asdict(entry), "epsilon": epsilon, "seeds": len(rows)}
    found |= {name: over(rows, name, max) for name in ("epsilon_proven", "epsilon_published", "epsilon_if_all_collude")}
    found |= {name: over(rows, name) for name in ("train_loss", "releases", "bytes_sent", "seconds")}
    found |= {name: rows[0][name] for name in ("colluders", "adjacency")}
    spread = over(rows, "test_error", stdev) if len(rows) > 1 else None
    errors = [row["test_error"] for row in rows]
    return found | {"error": over(rows, "test_error"), "spread": spread, "errors": errors}


class CompareResult(NamedTuple):
    """What a comparison leaves in memory.

    ``told`` has all that ``--json`` prints; rows are those of compare.csv by their runs. ``failed`` has errors by what
    did not run; ``undrawn`` says why there is no picture, with the remedy.
    """

    folder: Path
    told: dict[str, Any]
    rows: dict[Cell, Row]
    failed: dict[str, AdmmnetError]
    undrawn: str | None


# pictures


def curve(label: str, look: Look, found: Mapping[Any, Any], factor: float = 1.0) -> Curve:
    """Means of values by x, times a factor, with their standard deviations."""
    y = [factor * float(np.mean(own)) for own in found.values()]
    spread = [factor * (float(np.std(own, ddof=1)) if len(own) > 1 else 0.0) for own in found.values()]
    return Curve(label, look, [float(x) for x in found], y, spread)


def curves(
    rows: list[Row], column: str, looks: Mapping[Any, tuple[str, Look]] | str, x: str, y: str, factor: float = 1.0
) -> tuple[Curve, ...]:
    """Return y over x for each value of a column that has rows, with its label and look, or by the column's symbol."""
    if isinstance(looks, str):
        own = zip(distinct(rows, column), map(Look, COLOURS, MARKERS), strict=False)
        looks = {value: (f"{looks} = {parameter(value)}", look) for value, look in own}
    found = ((looks[value], by(pick(rows, **{column: value}), x, y)) for value in looks)
    return tuple(curve(label, look, own, factor) for (label, look), own in found if own)


def over_epsilon(rows: list[Row], title: str, looks: Mapping[Any, tuple[str, Look]], *, real: bool = False) -> Panel:
    """Test figure over epsilon, a line a method; rules without privacy, and for the pooled optimum if rows have it."""
    factor, label = (1.0, "test MSE") if real else (100.0, "test error in %")
    plain = split([row for row in rows if row["epsilon"] is None], "method")
    rules = [Rule(looks[m][0], factor * float(values(own, "test_error").mean()), looks[m][1].dash) for m, own in plain]
    rules += [Rule("pooled optimum", factor * value, "dotted") for value in distinct(rows, "pooled")]
    lines, ticks = curves(rows, "method", looks, "epsilon", "test_error", factor), tuple(distinct(rows, "epsilon"))
    return Panel(title, "epsilon", label, lines, tuple(rules), xlog=True, ylog=real, ticks=ticks)


def picture_of(told: Mapping[str, Any]) -> Picture | None:
    """Picture of what a comparison told; None where nothing that has an epsilon has finished."""
    rows, looks = list[Row](), dict[str, tuple[str, Look]]()
    for line in told["lines"]:
        facts = {"method": line["name"], "epsilon": line["epsilon"], "pooled": told["references"]["pooled"]}
        rows += [facts | {"test_error": error} for error in line["errors"] if error is not None]
        families = list(dict.fromkeys(one["algorithm"] for one in told["lines"]))
        number = families.index(line["algorithm"]) % len(COLOURS)  # forms of a method share colour and marker
        dash = "solid" if line["method"] == "proven" else "dashed" if line["accountant"] == "published" else "dotted"
        looks[line["name"]] = line["name"], Look(COLOURS[number], MARKERS[number], dash)
    panel = over_epsilon(rows, "", looks, real=told["metric"] != "error")
    if not panel.curves:
        return None
    data = told["data"][0]
    seeds = counted(max(line["seeds"] for line in told["lines"]), "seed")
    place = f"on {data['agents']} agents" if data["agents"] > 1 else "in one place"
    note = f"{data['train']:,} training records {place}, delta = {told['delta']:g}, {seeds}"
    note += f"{', tuned' if told['tuning'] else ''}; bars: standard deviation"
    return Picture(f"{data['name']}: test error against epsilon", ((panel,),), note, height=3.4, width=6.4)
