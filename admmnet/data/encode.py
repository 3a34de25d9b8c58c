"""Columns as features by a public schema, each record by itself: at once, or raw for sums that are still to come.

Raw columns are those of encodings that are measured before the first round (docs/methods.md, section 12). Their kinds
are declared, so that the width follows from the schema alone. No number makes a record refused: what is none is
missing. Text that is no mark of a missing value is refused where its owner alone is told (``refuse_text``).
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.schema import Categorical, Numeric, Rule, Schema, measurable
from admmnet.data.table import PLAIN, Codes, RawTable, canonical, is_missing, listed, no_number
from admmnet.errors import DataError, RequestError
from admmnet.holder.encoding import CELLS, HATS, Column, Number, Plain, Words
from admmnet.types import Matrix, Vector

BUCKETS = 16
"""Features that the values of a column share whose categories nobody declares."""
_EVEN = tuple(k / CELLS for k in range(CELLS + 1))


class Block(NamedTuple):
    """What one rule makes of its column: of each level its features, its number, or the place of its one feature."""

    kind: Column
    lookup: NDArray[Any]  # (levels, width) of Plain, (levels, 1) of Number, (levels,) places of Words
    codes: Codes  # (n,) level of each record
    bound: float = math.nan  # largest absolute value by declaration; nan if there is none


def encode(schema: Schema, table: RawTable) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """Check every value of a table against a complete schema, or one that names kinds: names of its features, blocks.

    Of numbers, which are features already or stay raw, there are no blocks. Refused, with file, line and column: a
    column that the schema names and the table lacks, an undeclared column or category, a value that is no finite
    number. RequestError if no kind is declared, or a scale without its bounds.
    """
    if table.numbers is not None:
        if schema.measured and hasattr(table.numbers, "tocsr"):
            raise RequestError("encode = 'private' needs dense rows, and these are sparse: take encode = 'declared'")
        names = table.names[1:]
        return tuple(n for own in names for n in numbered_shares(own)) if schema.measured else names, ()
    if schema.measured and not schema.rules:
        raise RequestError(
            f"{table.origin}: encode = 'private' needs the kinds of the columns, and nothing else: numeric = [...] and "
            "categorical = [...] in [data.schema]"
        )
    check_columns(schema, table)
    blocks = tuple(block_of(rule, table, measured=schema.measured) for rule in schema.rules)
    return tuple(n for rule in schema.rules for n in (names_of_rule(rule) if schema.measured else rule.names)), blocks


def complete(schema: Schema, table: RawTable) -> tuple[Schema, tuple[str, ...]]:
    """Fill in undeclared categories and bounds from the rows of a pooled table, and say what was read."""
    found: list[str] = []
    rules: list[Rule] = []
    for rule in schema.rules:
        if isinstance(rule, Categorical) and rule.open:
            found.append(f"categories of {rule.column!r}")
            levels = table.column(rule.column).levels
            known = {level for level in levels if rule.missing is None or not is_missing(level)}
            rule = replace(rule, categories=tuple(sorted(known)))
        elif isinstance(rule, Numeric) and rule.open:
            values = _numbers(rule, table)
            if np.isnan(values).all():
                raise DataError(f"{table.origin}, column {rule.column!r} has no value at all: drop it")
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            if low == high:
                raise DataError(
                    f"{table.origin}, column {rule.column!r} is constant ({low:g}): give low and high in"
                    " [data.schema], or drop it"
                )
            found.append(f"bounds of {rule.column!r}")
            rule = replace(rule, low=low, high=high)
        rules.append(rule)
    return replace(schema, rules=tuple(rules)), tuple(found)


def check_columns(schema: Schema, table: RawTable) -> None:
    """Refuse columns that the schema does not declare."""
    used = {rule.column for rule in schema.rules} | {schema.label} | set(schema.drop)
    unknown = [name for name in table.names if name not in used]
    if unknown and "*" not in schema.drop:
        raise DataError(
            f"{table.origin}: [data.schema] does not declare {listed(unknown)};"
            " add each to data.schema.columns or to data.schema.drop"
        )


def block_of(rule: Rule, table: RawTable, *, measured: bool = False) -> Block:
    """Features that a complete rule makes of its column, or its raw numbers; errors are those of `encode`."""
    column = table.column(rule.column)
    if measured and isinstance(rule, Numeric) and measurable(rule):
        spelling = PLAIN if column.typed else table.spelling
        values = np.array([*map(spelling.value, column.levels)], dtype=np.float64)
        if isinstance(rule.missing, float):
            values[np.isnan(values)] = rule.missing
        weight, kind = float(rule.weight), Number(float(rule.weight), 0.0, 1.0)
        if rule.low is not None and rule.high is not None:
            kind = Number(weight, float(rule.low), float(rule.high), _EVEN)
        return Block(kind, values[:, None], column.codes)
    if measured and isinstance(rule, Categorical) and rule.open:
        places = np.array([bucket(rule.prefix, text) for text in column.levels], dtype=np.int64)
        return Block(Words(BUCKETS, float(rule.weight)), places, column.codes)
    if measured and rule.open:
        raise RequestError(
            f"{table.origin}: data.schema.columns.{rule.prefix}.{rule.open} must be declared, as its scale is: declare "
            "them, or leave out the scale, and they are measured"
        )
    return _categorical(rule, table) if isinstance(rule, Categorical) else _numeric(rule, table)


def _categorical(rule: Categorical, table: RawTable) -> Block:
    width, place = len(rule.names), rule.places
    other = len(rule.groups or rule.categories or ()) if rule.other else None
    absent = {None: other, "refuse": None, "indicator": width - 1}
    gone = absent[rule.missing] if rule.missing in absent else place[str(rule.missing)]

    def at(level: str) -> int | None:
        return place.get(level, gone if is_missing(level) else other)

    def undeclared(level: str) -> str | None:
        if at(level) is not None:
            return None
        if rule.missing == "refuse" and is_missing(level):
            return f'missing value {level!r}; remove the row, or declare missing = "indicator" for {rule.prefix!r}'
        remedy = f"add it to the categories of {rule.prefix!r} in the schema, or set other = true there"
        return f"undeclared category {level!r}; {remedy}"

    table.refuse(rule.column, undeclared)
    column = table.column(rule.column)
    places = np.array([at(level) for level in column.levels], dtype=np.int64)
    return Block(Words(width, float(rule.weight)), places, column.codes, rule.weight)


def _numbers(rule: Numeric, table: RawTable) -> Vector:
    """Value of every level; nan for a missing one that makes the indicator."""
    values = table.numbers_of(rule.column, missing=rule.missing not in (None, "refuse"))
    return np.where(np.isnan(values), rule.missing, values) if isinstance(rule.missing, float) else values


def _numeric(rule: Numeric, table: RawTable) -> Block:
    values = _numbers(rule, table)
    missing = np.isnan(values)
    features = _scaled(rule, np.where(missing, 0.0, values))
    if rule.missing == "indicator":
        features = np.column_stack([np.where(missing[:, None], 0.0, features), missing])
    bound = math.nan if rule.scale == "none" else rule.weight
    return Block(Plain(features.shape[1]), rule.weight * features, table.column(rule.column).codes, bound)


def _scaled(rule: Numeric, values: Vector) -> Matrix:
    """Features (levels, width), without the weight; of all scales but "none" they are at most 1."""
    if rule.scale == "bins":
        at = np.searchsorted(rule.edges, values, side="right")
        return np.asarray(np.eye(len(rule.edges) + 1)[at, 1:])  # interval 0 lies below the first edge: no feature
    if rule.scale == "none":
        return values[:, None]
    assert rule.low is not None  # complete() came first
    assert rule.high is not None
    span = rule.high - rule.low
    offset = np.clip(values, rule.low, rule.high) - rule.low
    scaled = np.log1p(offset) / np.log1p(span) if rule.scale == "log" else offset / span
    return (2 * scaled - 1 if rule.scale == "centred" else scaled)[:, None]


def names_of_rule(rule: Rule) -> tuple[str, ...]:
    """Names of the features of a column that may be raw, as many as its kind says."""
    if measurable(rule):
        return numbered_shares(rule.prefix)
    if rule.open == "categories":
        return tuple(f"{rule.prefix}#{k}" for k in range(BUCKETS))
    return rule.names


def numbered_shares(prefix: str) -> tuple[str, ...]:
    """Features of a column of numbers: its six knots by the share of records below, its line, and missing ones."""
    knots = (f"{prefix}={100 * k // (HATS - 1)}%" for k in range(HATS))
    return (*knots, prefix, f"{prefix}=missing")


def words_of_rule(rule: Rule) -> str | None:
    """What becomes of a column that no declaration makes features of; None of others."""
    if isinstance(rule, Numeric) and measurable(rule):
        if rule.low is None or rule.high is None:
            return "bounds and shape are measured by noisy sums"
        return f"shape between {rule.low:g} and {rule.high:g} is measured by a noisy sum"
    return f"one of {BUCKETS} by a digest of the category" if rule.open == "categories" else None


def refuse_text(schema: Schema, table: RawTable) -> None:
    """Refuse text that counts as missing in raw columns. Private runs do not ask: whether they begin would tell."""
    for rule in schema.rules if schema.measured and table.numbers is None else ():
        if isinstance(rule, Numeric) and measurable(rule):
            column = table.column(rule.column)
            spelling = PLAIN if column.typed else table.spelling
            odd = {text for text in column.levels if not is_missing(text) and not math.isinf(spelling.value(text))}
            table.refuse(rule.column, lambda text: no_number(text, spelling) if text in odd else None)  # noqa: B023


def bucket(name: str, value: str) -> int:
    """Feature of a category of a column that declares none: SHA-256 of both, mod 16, the same on every machine."""
    digest = hashlib.sha256(f"{name}\x1f{canonical(value)}".encode()).digest()
    return digest[-1] % BUCKETS
