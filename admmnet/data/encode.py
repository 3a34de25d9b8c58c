"""Encoding of raw columns by a public schema: a fixed function of each record by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from admmnet.data.columns import Codes, Features, RawTable, Rows, listed
from admmnet.data.schema import Categorical, Numeric, Rule, Schema
from admmnet.data.values import is_missing
from admmnet.errors import DataError
from admmnet.types import Matrix, Vector


class Block(NamedTuple):
    """The features of one rule, in the order of its names."""

    lookup: Matrix  # (levels, width) features of each level of the raw column
    codes: Codes  # (n,) level of each record
    bound: float  # largest absolute value by declaration; nan if there is none


def complete(schema: Schema, table: RawTable) -> tuple[Schema, tuple[str, ...]]:
    """Fill in undeclared categories and bounds from the rows of a pooled table, and say what was read."""
    found: list[str] = []
    rules: list[Rule] = []
    for rule in schema.rules:
        if isinstance(rule, Categorical) and rule.categories is None:
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


def missing(schema: Schema) -> str | None:
    """Key that must be declared when nothing may be read from rows, or None."""
    return next((f"data.schema.columns.{rule.prefix}.{rule.open}" for rule in schema.rules if rule.open), None)


def encode(schema: Schema, table: RawTable) -> Features:
    """Check every value of a table against a complete schema and prepare its features.

    Refused, with file, line and column: a column that the schema names and the table lacks, an undeclared column or
    category, a value that is no finite number.
    """
    check_columns(schema, table)
    blocks = [block_of(rule, table) for rule in schema.rules]
    names = tuple(name for rule in schema.rules for name in rule.names)

    def take(which: Rows) -> Matrix:
        X = np.empty((len(which), len(names)))
        start = 0
        for block in blocks:
            stop = start + block.lookup.shape[1]
            X[:, start:stop] = block.lookup.take(block.codes[which], axis=0)
            start = stop
        return X

    return Features(names, take, np.concatenate([np.full(block.lookup.shape[1], block.bound) for block in blocks]))


def check_columns(schema: Schema, table: RawTable) -> None:
    """Refuse columns that the schema does not declare."""
    used = {rule.column for rule in schema.rules} | {schema.label} | set(schema.drop)
    unknown = [name for name in table.names if name not in used]
    if unknown and "*" not in schema.drop:
        raise DataError(
            f"{table.origin}: [data.schema] does not declare {listed(unknown)};"
            " add each to data.schema.columns or to data.schema.drop"
        )


def block_of(rule: Rule, table: RawTable) -> Block:
    """Features that a complete rule makes of its column; errors are those of `encode`."""
    return _categorical(rule, table) if isinstance(rule, Categorical) else _numeric(rule, table)


def _categorical(rule: Categorical, table: RawTable) -> Block:
    assert rule.categories is not None  # complete() came first
    width = len(rule.names)
    target = rule.groups or rule.categories
    features = list(dict.fromkeys(target))
    place = {c: features.index(t) for c, t in zip(rule.categories, target, strict=True)}
    other = len(features) if rule.other else None
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
    lookup = np.zeros((len(column.levels), width))
    for code, level in enumerate(column.levels):
        lookup[code, at(level)] = rule.weight
    return Block(lookup, column.codes, rule.weight)


def _numbers(rule: Numeric, table: RawTable) -> Vector:
    """Value of every level; nan for a missing one that makes the indicator."""
    values = table.numbers(rule.column, missing=rule.missing not in (None, "refuse"))
    return np.where(np.isnan(values), rule.missing, values) if isinstance(rule.missing, float) else values


def _numeric(rule: Numeric, table: RawTable) -> Block:
    values, codes = _numbers(rule, table), table.column(rule.column).codes
    missing = np.isnan(values)
    features = _scaled(rule, np.where(missing, 0.0, values))
    if rule.missing == "indicator":
        features = np.column_stack([np.where(missing[:, None], 0.0, features), missing])
    return Block(rule.weight * features, codes, rule.weight * (np.nan if rule.scale == "none" else 1.0))


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
