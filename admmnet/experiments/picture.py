"""What the picture of a comparison shows."""

from __future__ import annotations

from collections.abc import Sequence

from admmnet.experiments.figures import CompareResult, Line
from admmnet.experiments.grid import Grid
from admmnet.experiments.parsing import Entry
from admmnet.report.compare_plot import Curve, Point, Rule


def curves_of(lines: Sequence[Line]) -> list[Curve]:
    """Curves of the methods that have an epsilon."""
    found: dict[Entry, list[Point]] = {}
    for line in lines:
        if line.epsilon is not None and line.error is not None:
            found.setdefault(line.entry, []).append(Point(line.epsilon, line.error, line.spread))
    return [
        Curve(in_words(entry), entry.algorithm, _dash(entry), tuple(points))
        for entry, points in found.items()
    ]


def in_words(entry: Entry) -> str:
    """Name of a method in a picture, such as ``pp-admm, published``."""
    if not entry.private or entry.method == "proven":
        return entry.algorithm
    return f"{entry.algorithm}, published" + (" (noise proven)" if entry.accountant == "proven" else "")


def _dash(entry: Entry) -> str:
    if entry.method == "proven":
        return "solid"
    return "dashed" if entry.accountant == "published" else "dotted"


def rules_of(result: CompareResult) -> list[Rule]:
    """Horizontal lines: the larger class, the pooled optimum, and admm if it was compared."""
    rules = [("larger class", result.larger_class, "solid"), ("no privacy, pooled", result.pooled, "solid")]
    rules += [
        (f"{line.entry.algorithm}, no privacy", line.error, "dashed")
        for line in result.lines
        if line.epsilon is None
    ]
    return [Rule(label, value, dash) for label, value, dash in rules if value is not None]


def titles(result: CompareResult, grid: Grid) -> tuple[str, str]:
    """Title and subtitle of the picture."""
    survey, delta = result.surveys[0], result.delta
    seeds = f"{len(grid.seeds)} seeds" if len(grid.seeds) > 1 else "1 seed"
    tuned = ", tuned" if result.choices else ""
    place = f"on {survey.agents} agents" if survey.agents > 1 else "in one place"
    facts = f"{survey.train:,} training records {place}, delta = {delta:g}"
    return f"{survey.name}: test error against epsilon", f"{facts}, {seeds}{tuned}; bars: standard deviation"
