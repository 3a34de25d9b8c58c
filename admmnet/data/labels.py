"""Two label values turned into -1 and +1, more into 0..K-1, and real targets into numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from msgspec.structs import replace

from admmnet.data.schema import Schema
from admmnet.data.table import PLAIN, RawColumn, RawTable, canonical, is_missing, listed
from admmnet.errors import DataError, RequestError
from admmnet.types import Vector

Values = tuple[str, ...]

MOST_CLASSES = 1000
"""Most classes whose values are read from rows: more are targets, or numbers of records."""


FEW_CLASSES = 20
"""Most label values that are taken for classes where nothing says so; numbers with more are real targets."""


UNLABELLED = "every record needs a label: fill it in, or remove the record"


def read_labels(
    table: RawTable, name: str, schema: Schema, positive: str | None, discover: bool
) -> tuple[Vector, Schema, tuple[str, ...]]:
    """Turn a label column into signs, into numbers of classes, or into real targets, as the schema declares it.

    Targets are clipped to their range and keep their unit. `positive` becomes +1, and turns two declared labels round
    if need be; without `discover` no label value and no range is read from the rows, but must be declared. Return the
    labels, shape (n,), the schema with their values or range, and what was read from the rows.
    """
    column = table.column(name)
    schema, read = _discovered(table, name, schema, positive, discover)
    if schema.targets is not None:
        return np.clip(table.numbers_of(name), *schema.targets)[column.codes], schema, read
    if schema.threshold is not None:
        return np.where(table.numbers_of(name) > schema.threshold, 1.0, -1.0)[column.codes], schema, read
    if schema.labels is None:
        return _by_convention(table, name), schema, read
    values = oriented(schema.labels, positive)
    return _by_value(table, name, values, schema.spelt), replace(schema, labels=values), read


def _discovered(
    table: RawTable, name: str, schema: Schema, positive: str | None, discover: bool
) -> tuple[Schema, tuple[str, ...]]:
    """Fill in the labels, or the range, that ``--task`` or ``--positive`` leaves to be read from the rows."""
    wanted = schema.wanted if schema.wanted in ("classes", "real") else None
    declared = any(given is not None for given in (schema.labels, schema.targets, schema.threshold))
    if declared or (wanted is None and positive is None):
        return schema, ()
    key = {"classes": "labels = [...]", "real": "targets = [lowest, highest]"}.get(wanted or "", "")
    if not discover and wanted is not None:
        raise RequestError(
            f"{table.origin}: --task {wanted} leaves the labels to be read from the rows: declare {key} in"
            " [data.schema]"
        )
    if not discover:
        raise RequestError(
            f"--positive {positive} leaves the negative label value to be read from the rows:"
            " declare both, labels = [negative, positive] in [data.schema]"
        )
    levels = table.column(name).levels
    if wanted == "real":
        numbers = table.numbers_of(name)
        low, high = float(numbers.min()), float(numbers.max())
        if low == high:
            raise DataError(f"{table.origin}, column {name!r}: every target is the same: declare {key}")
        return replace(schema, targets=(low, high)), (f"range of {name!r}",)
    if wanted == "classes":
        values = tuple(sorted({canonical(level) for level in levels}, key=_place))
        if not 3 <= len(values) <= MOST_CLASSES:
            raise DataError(
                f"{table.origin}, column {name!r}: {len(values)} label values, {listed(values, 5)}; --task classes is"
                f" for 3 to {MOST_CLASSES}: take --task binary or real, or declare {key} in [data.schema]"
            )
        return replace(schema, labels=values), (f"the labels of {name!r}",)
    assert positive is not None
    others = [level for level in levels if not same(level, positive)]
    if len(others) == len(levels):
        raise DataError(
            f"{table.origin}, column {name!r}: no row has the label {positive!r} of --positive; name one of"
            f" {listed(levels, 5)}"
        )
    there = [level for level in others if not is_missing(level)]
    if not there:
        row = table.column(name).first(levels.index(others[0])) if others else 0
        fault = (
            f"the label is missing; {UNLABELLED}" if others else f"every row has the label {positive!r}; two are needed"
        )
        raise DataError(f"{table.where(row)}, column {name!r}: {fault}")
    negative = there[0]
    return replace(schema, labels=(negative, positive)), (f"negative label {negative!r}",)


def _place(label: str) -> tuple[bool, float, str]:
    """Order of label values: numbers by size, then words."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


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


def _by_value(
    table: RawTable,
    name: str,
    values: Values,
    spelt: Sequence[tuple[str, str]] = (),
    otherwise: Callable[[], str] | None = None,
) -> Vector:
    """Numbers of the rows' labels, which have these values; ``otherwise`` are words for others that nobody declared."""
    numbers = (-1.0, 1.0) if len(values) == 2 else range(len(values))
    places = dict(zip(map(canonical, values), map(float, numbers), strict=True))
    places |= {canonical(text): places[canonical(word)] for text, word in spelt}
    words = f"the labels are {f'{values[0]!r} and {values[1]!r}' if len(values) == 2 else listed(values)}"

    def undeclared(level: str) -> str | None:
        if canonical(level) in places:
            return None
        remedy = UNLABELLED if is_missing(level) else words if otherwise is None else otherwise()
        return f"{'undeclared ' if otherwise is None else ''}label {level!r}; {remedy}"

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
    # levels are in the order of rows
    negative = next((label for label in map(canonical, column.levels) if label in ("-1", "0", "-0")), "-1")

    @cache
    def otherwise() -> str:
        return f"labels must be -1/+1 or 0/1, else {_otherwise(column)}"

    if negative == "-1":
        return _by_value(table, name, ("-1", "1"), otherwise=otherwise)
    return _by_value(table, name, ("0", "1"), [("-0", "0")], otherwise)
