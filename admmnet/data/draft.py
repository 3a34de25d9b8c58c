"""A schema proposed for a table: kinds, bounds, categories and label values as a public sample has them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from admmnet.data.columns import Column, Table, listed
from admmnet.data.labels import canonical
from admmnet.data.schema import Categorical, Numeric, Rule, Schema
from admmnet.errors import DataError
from admmnet.types import Vector

CATEGORIES = 50
"""Most values that a column of categories has; a column of words with more is free text."""
CLASSES = 20
"""Most label values that are classes; numbers with more are real targets."""
_FEW = 20
"""Records below which nothing is concluded from values that are all distinct."""
_IDENTIFIER = re.compile(
    r"(^|[_ -])(id|uuid|guid|index|key|nr|no|number)$|^(id|index|unnamed|row)([_ :-]|$)", re.I
)
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([ T].*)?"
)
_NEGATIVE = {"no", "n", "false", "f", "negative", "neg", "absent", "none", "low", "healthy", "benign"}


class Doubt(NamedTuple):
    """A column that the draft leaves out."""

    column: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """What a table suggests."""

    schema: Schema
    looked_at: str  # in words: whoever uses the schema on private records publishes what was read there
    doubts: tuple[Doubt, ...]  # columns that are dropped, and why
    notes: dict[str, str]  # for columns that are kept, and for the label: what a reader should know


def draft(table: Table, label: str | None) -> Draft:
    """Propose a schema that `encode` takes for every record of this table.

    Parameters
    ----------
    table : Table
        Public records: what is read of them becomes bounds, categories and label values, in the clear.
    label : str or None
        Label column; None leaves it open.

    Raises
    ------
    DataError
        If there is no such column, or its values are no labels.
    """
    looked_at = f"{table.origin}: {table.rows:,} records"
    doubts: list[Doubt] = []
    notes: dict[str, str] = {}
    schema = Schema(label=label)
    if label is not None:
        schema, notes[label] = _labels(table, label, schema)
    rules: list[Rule] = []
    for name in table.names:
        if name == label:
            continue
        reason, rule, note = _rule(name, table.column(name))
        if rule is None:
            doubts.append(Doubt(name, reason))
            continue
        rules.append(rule)
        if note:
            notes[name] = note
    schema = replace(schema, rules=tuple(rules), drop=tuple(doubt.column for doubt in doubts))
    return Draft(schema, looked_at, tuple(doubts), notes)


def _rule(name: str, column: Column) -> tuple[str, Rule | None, str]:
    """Why a column is left out, or its rule with what a reader should know of it."""
    levels, rows = column.levels, len(column.codes)
    distinct = len(levels)
    if distinct == 1:
        return f"constant: every record has {levels[0]!r}", None, ""
    if all(_DATE.fullmatch(level) for level in levels):
        return f"dates, such as {levels[0]!r}: make an age, a year or a duration of it", None, ""
    values = _numbers(levels)
    if values is not None:
        return _numeric(name, column, values)
    if distinct == rows and rows >= _FEW:
        return f"identifiers or free text: all {rows:,} values differ, such as {levels[0][:40]!r}", None, ""
    if distinct > CATEGORIES:
        return (
            f"free text or codes: {distinct:,} values in {rows:,} records, such as {levels[0][:40]!r}",
            None,
            "",
        )
    return "", _categorical(name, column), ""


def _categorical(name: str, column: Column) -> Categorical:
    """One-hot with the rest as one more; spellings that differ in case alone are one group."""
    order = sorted(column.levels)
    groups = {level.casefold(): level for level in reversed(order)}
    words = tuple(groups[level.casefold()] for level in order)
    return Categorical(name, name, tuple(order), () if len(groups) == len(order) else words, other=True)


def _numeric(name: str, column: Column, values: Vector) -> tuple[str, Rule | None, str]:
    rows = len(column.codes)
    whole = bool((values == np.rint(values)).all())
    if whole and len(values) == rows >= _FEW and (_IDENTIFIER.search(name) or _ordered(values[column.codes])):
        return f"identifiers: all {rows:,} values differ, such as {column.levels[0]!r}", None, ""
    low, high = _round_bounds(float(values.min()), float(values.max()))
    note = f"the sample has {values.min():g} to {values.max():g}; values outside low and high are clipped to them"
    return "", Numeric(name, name, low, high), note


def _ordered(values: Vector) -> bool:
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())


def _numbers(levels: tuple[str, ...]) -> Vector | None:
    """Finite numbers that texts say; None where one says none, or begins with a 0 as codes do."""
    if any(re.fullmatch(r"0\d+", level) for level in levels):
        return None
    try:
        values = np.array([float(level) for level in levels])
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _round_bounds(low: float, high: float) -> tuple[float, float]:
    """Round numbers around a range: multiples of a tenth of the power of ten below its length."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    below, above = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{below:.12g}"), float(f"{above:.12g}")


def _labels(table: Table, label: str, schema: Schema) -> tuple[Schema, str]:
    """Declare what the label column has, with words for it."""
    column = table.column(label)
    counts = np.bincount(column.codes, minlength=len(column.levels))
    found: dict[str, int] = {}
    for level, count in zip(column.levels, counts.tolist(), strict=True):
        found[canonical(level)] = found.get(canonical(level), 0) + count
    values = _numbers(tuple(found))
    shares = ", ".join(f"{word!r} {count / table.rows:.1%}" for word, count in found.items())
    if len(found) == 1:
        raise DataError(
            f"{table.origin}, column {label!r}: every record has {next(iter(found))!r}; a label needs two values"
        )
    if len(found) > CLASSES:
        if values is None:
            raise DataError(
                f"{table.origin}, column {label!r} has {len(found)} values, {listed(list(found), 4)}: no label; name "
                "another with --label"
            )
        low, high = _round_bounds(float(values.min()), float(values.max()))
        return replace(
            schema, targets=(low, high)
        ), f"real target, {values.min():g} to {values.max():g} in the sample"
    if values is not None:
        words = tuple(sorted(found, key=float))
    elif len(found) == 2:
        words = tuple(sorted(found, key=lambda word: (word.casefold() not in _NEGATIVE, -found[word], word)))
    else:
        words = tuple(sorted(found))
    return replace(schema, labels=words), f"shares in the sample: {shares}" + (
        f"; {words[1]!r} is +1" if len(words) == 2 else ""
    )
