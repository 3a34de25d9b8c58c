"""Figures as CSV: tidy rows written, read back, and summed up over seeds. Every word and picture is made from these."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from admmnet.experiments.folder import write_whole

Row = dict[str, Any]
"""Numbers are floats or ints, what is undefined is None."""


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of equal columns; numbers read back exactly, None is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer.writerow(names)
    writer.writerows(["" if row.get(name) is None else row[name] for name in names] for row in rows)
    write_whole(path, text.getvalue())


def read_table(path: Path) -> list[Row]:
    """Rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    if text == "":
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return int(text) if text.lstrip("-").isdigit() else number


def where(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows whose columns have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Values of a column, in the order in which they come, without None."""
    return [value for value in dict.fromkeys(row.get(name) for row in rows) if value is not None]


@dataclass(frozen=True)
class Summary:
    """Mean, sample standard deviation (0 of one run), median and number of values."""

    mean: float
    spread: float
    median: float
    count: int


def summed_up(values: Iterable[float | None]) -> Summary | None:
    """Sum up what is defined; None if nothing is."""
    known = [float(value) for value in values if value is not None and not math.isnan(value)]
    if not known:
        return None
    return Summary(fmean(known), stdev(known) if len(known) > 1 else 0.0, median(known), len(known))


def by(rows: Iterable[Row], key: str, value: str) -> dict[Any, Summary]:
    """Sum up a column for every value of another one, in increasing order of that."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        if row.get(key) is not None:
            groups.setdefault(row[key], []).append(row.get(value))
    found = {name: summed_up(groups[name]) for name in sorted(groups)}
    return {name: summary for name, summary in found.items() if summary is not None}


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table for report.md."""
    parts = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    parts += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(parts)


def grid_table(
    rows: Sequence[Row],
    *,
    line: str,
    column: str,
    value: str,
    show: Callable[[Summary], str],
    head: str,
) -> str:
    """Table of summed-up values: a line for each value of one column, a column for each of another."""
    columns = distinct(rows, column)
    lines = []
    for name in distinct(rows, line):
        found = [
            summed_up(row.get(value) for row in where(rows, **{line: name, column: own})) for own in columns
        ]
        lines.append([short(name), *("-" if summary is None else show(summary) for summary in found)])
    return markdown([head, *map(short, columns)], lines)


def percent(summary: Summary) -> str:
    """Mean and spread of shares, in %."""
    return f"{100.0 * summary.mean:.2f} ± {100.0 * summary.spread:.2f}"


def four(summary: Summary) -> str:
    """Mean and spread with four digits."""
    return f"{summary.mean:.4g} ± {summary.spread:.2g}"


def short(value: Any) -> str:
    """A value as text."""
    if not isinstance(value, float | int):
        return str(value)
    return f"{value:.3g}" if 0.0 < abs(value) < 1e-3 else f"{value:g}"


def several(count: int, noun: str) -> str:
    """A number of things: ``1 seed``, ``5 seeds``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
