"""Encoding of raw columns by a public schema: a fixed function of each record by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from admmnet.data.columns import Codes, Features, Rows, Table, listed
from admmnet.data.schema import Categorical, Numeric, Rule, Schema
from admmnet.errors import DataError
from admmnet.types import Matrix


class Block(NamedTuple):
    """The features of one rule."""

    names: tuple[str, ...]
    lookup: Matrix  # (levels, width) features of each level of the raw column
    codes: Codes  # (n,) level of each record
    bound: float  # largest absolute value by declaration; nan if there is none


def complete(schema: Schema, table: Table) -> tuple[Schema, tuple[str, ...]]:
    """Fill in undeclared categories and bounds from the rows of a pooled table, and say what was read."""
    found: list[str] = []
    rules: list[Rule] = []
    for rule in schema.rules:
        if isinstance(rule, Categorical) and rule.categories is None:
            found.append(f"categories of {rule.column!r}")
            rule = replace(rule, categories=tuple(sorted(table.column(rule.column).levels)))
        elif isinstance(rule, Numeric) and _lacks_bounds(rule):
            values = table.numbers(rule.column)
            low, high = float(values.min()), float(values.max())
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
    for rule in schema.rules:
        if isinstance(rule, Categorical) and rule.categories is None:
            return f"data.schema.columns.{rule.prefix}.categories"
        if _lacks_bounds(rule):
            return f"data.schema.columns.{rule.prefix}.low and .high"
    return None


def _lacks_bounds(rule: Rule) -> bool:
    return isinstance(rule, Numeric) and rule.low is None and rule.scale in ("linear", "centred", "log")


def encode(schema: Schema, table: Table) -> Features:
    """Check every value of a table against a complete schema and prepare its features.

    Refused, with file, line and column: a column that the schema names and the table lacks, an undeclared column or
    category, a value that is no finite number.
    """
    check_columns(schema, table)
    blocks = [block_of(rule, table) for rule in schema.rules]
    names = tuple(name for block in blocks for name in block.names)

    def take(which: Rows) -> Matrix:
        X = np.empty((len(which), len(names)))
        start = 0
        for block in blocks:
            stop = start + len(block.names)
            X[:, start:stop] = block.lookup[block.codes[which]]
            start = stop
        return X

    return Features(names, take, np.concatenate([np.full(len(block.names), block.bound) for block in blocks]))


def check_columns(schema: Schema, table: Table) -> None:
    """Refuse columns that the schema does not declare."""
    used = {rule.column for rule in schema.rules} | {schema.label} | set(schema.drop)
    unknown = [name for name in table.names if name not in used]
    if unknown and "*" not in schema.drop:
        raise DataError(
            f"{table.origin}: [data.schema] does not declare {listed(unknown)};"
            " add each to data.schema.columns or to data.schema.drop"
        )


def block_of(rule: Rule, table: Table) -> Block:
    """Features that a complete rule makes of its column; errors are those of `encode`."""
    return _categorical(rule, table) if isinstance(rule, Categorical) else _numeric(rule, table)


def _categorical(rule: Categorical, table: Table) -> Block:
    assert rule.categories is not None  # complete() came first
    target = rule.groups or rule.categories
    features = list(dict.fromkeys(target)) + (["other"] if rule.other else [])
    place = {c: features.index(t) for c, t in zip(rule.categories, target, strict=True)}

    def undeclared(level: str) -> str | None:
        if level in place or rule.other:
            return None
        remedy = f"add it to the categories of {rule.prefix!r} in the schema, or set other = true there"
        return f"undeclared category {level!r}; {remedy}"

    table.refuse(rule.column, undeclared)
    column = table.column(rule.column)
    lookup = np.zeros((len(column.levels), len(features)))
    for code, level in enumerate(column.levels):
        lookup[code, place.get(level, len(features) - 1)] = rule.weight
    return Block(tuple(f"{rule.prefix}={name}" for name in features), lookup, column.codes, rule.weight)


def _numeric(rule: Numeric, table: Table) -> Block:
    values, codes = table.numbers(rule.column), table.column(rule.column).codes
    if rule.scale == "bins":
        at = np.searchsorted(rule.edges, values, side="right")
        one_hot = np.eye(len(rule.edges) + 1)[at, 1:]  # interval 0 lies below the first edge: no feature
        ends = (*(f"{edge:g}" for edge in rule.edges[1:]), "inf")
        names = tuple(f"{rule.prefix}=[{a:g},{b})" for a, b in zip(rule.edges, ends, strict=True))
        return Block(names, rule.weight * one_hot, codes, rule.weight)
    if rule.scale == "none":
        scaled = values
    else:
        assert rule.low is not None  # complete() came first
        assert rule.high is not None
        span = rule.high - rule.low
        offset = np.clip(values, rule.low, rule.high) - rule.low
        scaled = np.log1p(offset) / np.log1p(span) if rule.scale == "log" else offset / span
        if rule.scale == "centred":
            scaled = 2 * scaled - 1
    bound = np.nan if rule.scale == "none" else rule.weight
    return Block((rule.prefix,), (rule.weight * scaled)[:, None], codes, bound)
