"""Figures as CSV: tidy rows written, read back, and summed up over seeds. Every word and picture is made from these."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from admmnet.errors import counted
from admmnet.experiments.folder import csv_text
from admmnet.files import write_whole
from admmnet.papers.statistics import Sample
from admmnet.record.format import parameter

Row = dict[str, Any]
"""Numbers are floats or ints, undefined ones None."""


class RowTable(list[Row]):
    """Rows, and parts of them."""

    def where(self, **wanted: Any) -> RowTable:
        """Rows whose columns have these values."""
        return RowTable(row for row in self if all(row.get(name) == value for name, value in wanted.items()))

    def known(self, name: str) -> RowTable:
        """Rows where a column is defined."""
        return RowTable(row for row in self if row.get(name) is not None)

    def changed(self, name: str, value: Callable[[Row], Any]) -> RowTable:
        """Rows with a column that follows from the others."""
        return RowTable(row | {name: value(row)} for row in self)

    def distinct(self, name: str) -> list[Any]:
        """Values of a column, in the order in which they come, without None."""
        return list(dict.fromkeys(row[name] for row in self.known(name)))

    def split(self, *names: str) -> Iterator[tuple[Any, RowTable]]:
        """Values of columns, a single one bare, with the rows that have them, where there are any."""
        for values in product(*map(self.distinct, names)):
            own = self.where(**dict(zip(names, values, strict=True)))
            if own:
                yield (values if len(names) > 1 else values[0]), own

    def sample(self, value: str) -> Sample | None:
        """Sum up a column; None if nothing of it is defined."""
        return Sample.of(row.get(value) for row in self)

    def by(self, key: str, value: str) -> dict[Any, Sample]:
        """Sum up a column for every value of another one, in increasing order of that."""
        found = {one: own.sample(value) for one, own in self.split(key)}
        return {one: sample for one, sample in sorted(found.items()) if sample is not None}


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows of equal columns as ``csv_text`` does."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_whole({path: csv_text(names, (map(row.get, names) for row in rows)).encode()})


def read_table(path: Path) -> RowTable:
    """Rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return RowTable({name: _value(text) for name, text in row.items()} for row in csv.DictReader(file))


def _value(text: str) -> Any:
    if text == "":
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return int(text) if text.lstrip("-").isdigit() else number


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table for report.md."""
    parts = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    parts += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(parts)


def grid_table(rows: RowTable, line: str, column: str, value: str, show: Callable[[Sample], str]) -> str:
    """Table of summed-up values: a line for each value of one column, a column for each of another, None the last."""
    columns = rows.distinct(column) + [None] * any(row[column] is None for row in rows)
    lines = []
    for name, own in rows.split(line):
        samples = (own.where(**{column: one}).sample(value) for one in columns)
        lines.append([parameter(name), *("-" if sample is None else show(sample) for sample in samples)])
    return markdown([column, *("none" if one is None else parameter(one) for one in columns)], lines)


def percent(sample: Sample) -> str:
    """Mean and spread of shares, in %."""
    return f"{100.0 * sample.mean:.2f} ± {100.0 * sample.spread:.2f}"


def three(sample: Sample) -> str:
    """Mean with three digits."""
    return f"{sample.mean:.3g}"


def four(sample: Sample) -> str:
    """Mean and spread with four digits."""
    return f"{sample.mean:.4g} ± {sample.spread:.2g}"


def seeds_of(rows: RowTable, noun: str = "seed") -> str:
    """Over what the rows are means."""
    return f"Mean and standard deviation over {counted(len(rows.distinct('seed')), noun)}"
