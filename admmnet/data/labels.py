"""Two label values turned into -1 and +1, and real targets into numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from admmnet.data.columns import Column, Table
from admmnet.data.schema import Schema
from admmnet.errors import DataError, RequestError
from admmnet.types import Vector

Pair = tuple[str, str]


class Labels(NamedTuple):
    """Labels of a source."""

    y: Vector  # (n,) -1 or +1, or real targets inside their public range; nan for rows without labels
    values: Pair | None  # negative and positive; None when the convention {-1, +1} or {0, 1} holds
    dependent: tuple[str, ...] = ()  # what was read from the rows


def read_labels(table: Table, name: str, schema: Schema, positive: str | None, discover: bool) -> Labels:
    """Turn a label column into signs, or into real targets where the schema declares a range for them.

    Targets are clipped to their range and keep their unit. `positive` becomes +1, and turns declared labels round if
    need be; without `discover` the negative label is not read from the rows, but must be declared.
    """
    column = table.column(name)
    if schema.targets is not None:
        return Labels(np.clip(table.numbers(name), *schema.targets)[column.codes], None)
    if schema.threshold is not None:
        above = table.numbers(name) > schema.threshold
        return Labels(np.where(above, 1.0, -1.0)[column.codes], None)
    if schema.labels is not None:
        values = oriented(schema.labels, positive)
        return Labels(_by_value(table, name, values), values)
    if positive is None:
        return Labels(_by_convention(table, name), None)
    if not discover:
        raise RequestError(
            f"--positive {positive} leaves the negative label value to be read from the rows:"
            " declare both, labels = [negative, positive] in [data.schema]"
        )
    negative = _other_than(positive, column, table, name)
    values = (negative, positive)
    return Labels(_by_value(table, name, values), values, (f"negative label {negative!r}",))


def no_labels(n: int, declared: Pair | None, positive: str | None) -> Labels:
    """Labels of n rows that have none: nan, with the declared values, of which `positive` must be one."""
    return Labels(np.full(n, np.nan), None if declared is None else oriented(declared, positive))


def canonical(label: str) -> str:
    """Spell numbers in one way, so that 1, +1 and 1.0 are the same label."""
    try:
        return f"{float(label):.17g}"
    except ValueError:
        return label.strip()


def same(a: str, b: str) -> bool:
    """Whether two texts are the same label."""
    return canonical(a) == canonical(b)


def oriented(declared: Pair, positive: str | None) -> Pair:
    """Negative and positive value, turned round if `positive` is the declared negative one."""
    if positive is None or same(positive, declared[1]):
        return declared
    if same(positive, declared[0]):
        return declared[1], declared[0]
    raise RequestError(
        f"--positive {positive} is none of the declared labels {declared[0]!r}, {declared[1]!r}"
    )


def _other_than(positive: str, column: Column, table: Table, name: str) -> str:
    """The one label value besides the positive one."""
    others = [level for level in column.levels if not same(level, positive)]
    if len(others) == len(column.levels):
        fault, row = f"no row has the label {positive!r} of --positive", 0
    elif not others:
        fault, row = f"every row has the label {positive!r}; two are needed", 0
    elif third := next((level for level in others if not same(level, others[0])), ""):
        row = column.first(column.levels.index(third))
        fault = f"third label value {third!r} besides {positive!r} and {others[0]!r}; two are needed"
    else:
        return others[0]
    raise DataError(f"{table.where(row)}, column {name!r}: {fault}")


def _by_value(table: Table, name: str, values: Pair) -> Vector:
    signs = {canonical(values[0]): -1.0, canonical(values[1]): 1.0}

    def undeclared(level: str) -> str | None:
        if canonical(level) in signs:
            return None
        return f"undeclared label {level!r}; the labels are {values[0]!r} and {values[1]!r}"

    table.refuse(name, undeclared)
    column = table.column(name)
    return np.array([signs[canonical(level)] for level in column.levels])[column.codes]


def _by_convention(table: Table, name: str) -> Vector:
    column = table.column(name)
    labels = ["0" if (label := canonical(level)) == "-0" else label for level in column.levels]
    spelt = dict(zip(column.levels, labels, strict=True))
    # levels are in the order of rows
    negative = next((label for label in labels if label in ("-1", "0")), "-1")

    def odd(level: str) -> str | None:
        if spelt[level] in (negative, "1"):
            return None
        return (
            f"label {level!r}; labels must be -1/+1 or 0/1, else name them with --positive VALUE or labels ="
            " [negative, positive] in [data.schema]"
        )

    table.refuse(name, odd)
    return np.array([1.0 if label == "1" else -1.0 for label in labels])[column.codes]
