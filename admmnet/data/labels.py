"""Two label values turned into -1 and +1, more into 0..K-1, and real targets into numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from admmnet.data.schema import Range, Schema
from admmnet.data.table import PLAIN, RawColumn, RawTable, canonical, is_missing, listed
from admmnet.errors import DataError, RequestError
from admmnet.types import Vector

Values = tuple[str, ...]

MOST_CLASSES = 1000
"""Most classes whose values are read from rows: more are targets, or numbers of records."""


FEW_CLASSES = 20
"""Most label values that are taken for classes where nothing says so; numbers with more are real targets."""


UNLABELLED = "every record needs a label: fill it in, or remove the record"


class SourceLabels(NamedTuple):
    """Labels of a source."""

    y: Vector  # (n,) -1 and +1, 0..K-1 of K > 2 classes, or real targets inside their range; nan without labels
    values: Values | None  # as `Schema.labels`; None for targets, and by the convention {-1, +1} or {0, 1}
    targets: Range | None = None  # as `Schema.targets`
    dependent: tuple[str, ...] = ()  # what was read from the rows


def read_labels(table: RawTable, name: str, schema: Schema, positive: str | None, discover: bool) -> SourceLabels:
    """Turn a label column into signs, into numbers of classes, or into real targets, as the schema declares it.

    Targets are clipped to their range and keep their unit. `positive` becomes +1, and turns two declared labels round
    if need be; without `discover` no label value and no range is read from the rows, but must be declared.
    """
    column = table.column(name)
    if schema.targets is not None:
        return SourceLabels(np.clip(table.numbers_of(name), *schema.targets)[column.codes], None, schema.targets)
    if schema.threshold is not None:
        above = table.numbers_of(name) > schema.threshold
        return SourceLabels(np.where(above, 1.0, -1.0)[column.codes], None)
    if schema.labels is not None:
        values = oriented(schema.labels, positive)
        return SourceLabels(_by_value(table, name, values, schema.spelt), values)
    if schema.wanted in ("classes", "real"):
        return _found(table, name, schema, discover)
    if positive is None:
        return SourceLabels(_by_convention(table, name), None)
    if not discover:
        raise RequestError(
            f"--positive {positive} leaves the negative label value to be read from the rows:"
            " declare both, labels = [negative, positive] in [data.schema]"
        )
    negative = _other_than(positive, column, table, name)
    values = (negative, positive)
    return SourceLabels(_by_value(table, name, values), values, dependent=(f"negative label {negative!r}",))


def _found(table: RawTable, name: str, schema: Schema, discover: bool) -> SourceLabels:
    """Labels of a ``--task`` that nothing declares: classes or range as the rows have them."""
    key = "labels = [...]" if schema.wanted == "classes" else "targets = [lowest, highest]"
    if not discover:
        raise RequestError(
            f"{table.origin}: --task {schema.wanted} leaves the labels to be read from the rows: declare {key} in"
            " [data.schema]"
        )
    if schema.wanted == "real":
        numbers = table.numbers_of(name)
        low, high = float(numbers.min()), float(numbers.max())
        if low == high:
            raise DataError(f"{table.origin}, column {name!r}: every target is the same: declare {key}")
        return SourceLabels(numbers[table.column(name).codes], None, (low, high), (f"range of {name!r}",))
    distinct = {canonical(level) for level in table.column(name).levels}
    values = tuple(sorted(distinct, key=_place))
    if not 3 <= len(values) <= MOST_CLASSES:
        raise DataError(
            f"{table.origin}, column {name!r}: {len(values)} label values, {listed(values, 5)}; --task classes is for"
            f" 3 to {MOST_CLASSES}: take --task binary or real, or declare {key} in [data.schema]"
        )
    return SourceLabels(_by_value(table, name, values), values, dependent=(f"the labels of {name!r}",))


def _place(label: str) -> tuple[bool, float, str]:
    """Order of label values: numbers by size, then words."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


def no_labels(n: int, schema: Schema, positive: str | None) -> SourceLabels:
    """Labels of n rows that have none: nan, with the declared values, of which `positive` must be one."""
    values = None if schema.labels is None else oriented(schema.labels, positive)
    return SourceLabels(np.full(n, np.nan), values, schema.targets)


def same(a: str, b: str) -> bool:
    """Whether two texts are the same label."""
    return canonical(a) == canonical(b)


def oriented(declared: Values, positive: str | None) -> Values:
    """Negative and positive value, turned round if `positive` is the declared negative one; more stay as they are."""
    if positive is None:
        return declared
    if len(declared) > 2:
        raise RequestError(f"--positive {positive} goes with two labels, and {len(declared)} are declared: drop it")
    if same(positive, declared[1]):
        return declared
    if same(positive, declared[0]):
        return declared[1], declared[0]
    raise RequestError(f"--positive {positive} is none of the declared labels {declared[0]!r}, {declared[1]!r}")


def _other_than(positive: str, column: RawColumn, table: RawTable, name: str) -> str:
    """The one label value besides the positive one."""
    others = [level for level in column.levels if not same(level, positive)]
    if len(others) == len(column.levels):
        raise DataError(
            f"{table.origin}, column {name!r}: no row has the label {positive!r} of --positive; name one of"
            f" {listed(column.levels, 5)}"
        )
    if not others:
        fault, row = f"every row has the label {positive!r}; two are needed", 0
    elif third := next((level for level in others if not same(level, others[0])), ""):
        row = column.first(column.levels.index(third))
        fault = f"third label value {third!r} besides {positive!r} and {others[0]!r}; two are needed"
    elif is_missing(others[0]):
        fault = f"the label is missing; {UNLABELLED}"
        row = column.first(column.levels.index(others[0]))
    else:
        return others[0]
    raise DataError(f"{table.where(row)}, column {name!r}: {fault}")


def _by_value(table: RawTable, name: str, values: Values, spelt: Sequence[tuple[str, str]] = ()) -> Vector:
    numbers = (-1.0, 1.0) if len(values) == 2 else range(len(values))
    places = dict(zip(map(canonical, values), map(float, numbers), strict=True))
    places |= {canonical(text): places[canonical(word)] for text, word in spelt}
    words = f"{values[0]!r} and {values[1]!r}" if len(values) == 2 else listed(values)

    def undeclared(level: str) -> str | None:
        if canonical(level) in places:
            return None
        remedy = UNLABELLED if is_missing(level) else f"the labels are {words}"
        return f"undeclared label {level!r}; {remedy}"

    table.refuse(name, undeclared)
    column = table.column(name)
    return np.array([places[canonical(level)] for level in column.levels])[column.codes]


def _otherwise(column: RawColumn) -> str:
    """How labels are declared that look like those of a column."""
    there = [level for level in column.levels if not is_missing(level)]
    values = sorted({canonical(level) for level in there}, key=_place)
    numbers = column.values(PLAIN, missing=True)
    if numbers is not None and (len(values) > FEW_CLASSES or bool(np.any(numbers % 1 > 0))):
        return "take --task real for targets that are numbers, or targets = [lowest, highest] in [data.schema]"
    if len(values) > FEW_CLASSES:
        return f"name another column as the label: {len(values)} texts are too many for classes"
    if len(values) > 2:
        shown = listed(values, 5)
        return f"of {len(values)} classes, {shown}, take --task classes or labels = [a, b, c] in [data.schema]"
    known = listed(values)
    return f"name them with --positive VALUE, one of {known}, or labels = [negative, positive] in [data.schema]"


def _by_convention(table: RawTable, name: str) -> Vector:
    column = table.column(name)
    labels = ["0" if (label := canonical(level)) == "-0" else label for level in column.levels]
    spelt = dict(zip(column.levels, labels, strict=True))
    # levels are in the order of rows
    negative = next((label for label in labels if label in ("-1", "0")), "-1")

    def odd(level: str) -> str | None:
        if spelt[level] in (negative, "1"):
            return None
        if is_missing(level):
            return f"label {level!r}; {UNLABELLED}"
        return f"label {level!r}; labels must be -1/+1 or 0/1, else {_otherwise(column)}"

    table.refuse(name, odd)
    return np.array([1.0 if label == "1" else -1.0 for label in labels])[column.codes]
