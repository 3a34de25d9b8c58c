"""Encoding of raw columns by a public schema: a fixed function of each record by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from admmnet.data.columns import Codes, Column, Rows, Table, listed, numbers_of
from admmnet.data.schema import Categorical, Numeric, Rule, Schema
from admmnet.errors import DataError
from admmnet.types import Matrix, Vector

Where = Callable[[int], str]


@dataclass(frozen=True)
class Block:
    """The features of one rule: a row of `lookup` for every level of the raw column.

    Attributes
    ----------
    names : tuple of str
        Feature names, one a column of `lookup`.
    lookup : ndarray, shape (levels, width)
        Features of each level.
    codes : ndarray of int32, shape (n,)
        Level of each record.
    bound : float
        Largest absolute value by declaration; nan if there is none.
    """

    names: tuple[str, ...]
    lookup: Matrix
    codes: Codes
    bound: float


@dataclass(frozen=True)
class Encoded:
    """A table ready to be turned into features, row by row.

    Attributes
    ----------
    blocks : tuple of Block
        In feature order.
    """

    blocks: tuple[Block, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names in order, without the intercept."""
        return tuple(name for block in self.blocks for name in block.names)

    @property
    def bounds(self) -> Vector:
        """Largest absolute value of every feature by declaration, shape (d,); nan where there is none."""
        return np.concatenate([np.full(len(block.names), block.bound) for block in self.blocks])

    def rows(self, which: Rows) -> Matrix:
        """Features of some records.

        Parameters
        ----------
        which : ndarray of int, shape (m,)
            Rows, from 0.

        Returns
        -------
        ndarray, shape (m, d)
            New, C order, neither scaled to norm 1 nor with an intercept.
        """
        X = np.empty((len(which), len(self.names)))
        start = 0
        for block in self.blocks:
            stop = start + len(block.names)
            X[:, start:stop] = block.lookup[block.codes[which]]
            start = stop
        return X


def complete(schema: Schema, table: Table) -> tuple[Schema, tuple[str, ...]]:
    """Fill in undeclared categories and bounds from the rows of a pooled table.

    Parameters
    ----------
    schema : Schema
        May lack categories or bounds.
    table : Table
        All pooled records.

    Returns
    -------
    Schema
        With nothing missing.
    tuple of str
        What was read from the rows; empty when everything had been declared.
    """
    found: list[str] = []
    rules: list[Rule] = []
    for rule in schema.rules:
        if isinstance(rule, Categorical) and rule.categories is None:
            found.append(f"categories of {rule.column!r}")
            rules.append(replace(rule, categories=tuple(sorted(table.column(rule.column).levels))))
        elif isinstance(rule, Numeric) and _lacks_bounds(rule):
            values = numbers_of(table.column(rule.column), rule.column, table.where)
            low, high = float(values.min()), float(values.max())
            if low == high:
                raise DataError(
                    f"{table.origin}, column {rule.column!r} is constant ({low:g}): give low and high in"
                    " [data.schema], or drop it"
                )
            found.append(f"bounds of {rule.column!r}")
            rules.append(replace(rule, low=low, high=high))
        else:
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


def encode(schema: Schema, table: Table) -> Encoded:
    """Check every value of a table against a complete schema and prepare its features.

    Parameters
    ----------
    schema : Schema
        Complete, see `complete`.
    table : Table
        The records.

    Returns
    -------
    Encoded
        Features of any row on demand.

    Raises
    ------
    DataError
        For a column the schema names and the table lacks, an undeclared column, an undeclared category,
        a value that is no finite number; with file, line and column.
    """
    check_columns(schema, table)
    columns = {name: table.column(name) for name in dict.fromkeys(rule.column for rule in schema.rules)}
    return Encoded(tuple(block_of(rule, columns[rule.column], table.where) for rule in schema.rules))


def check_columns(schema: Schema, table: Table) -> None:
    """Refuse columns that the schema does not declare.

    Raises
    ------
    DataError
        Listing them.
    """
    used = {rule.column for rule in schema.rules} | {schema.label} | set(schema.drop)
    unknown = [name for name in table.names if name not in used]
    if unknown and "*" not in schema.drop:
        raise DataError(
            f"{table.origin}: [data.schema] does not declare {listed(unknown)};"
            " add each to data.schema.columns or to data.schema.drop"
        )


def block_of(rule: Rule, column: Column, where: Where) -> Block:
    """Features that a complete rule makes of its column; errors are those of `encode`."""
    if isinstance(rule, Categorical):
        return _categorical(rule, column, where)
    return _numeric(rule, column, where)


def _categorical(rule: Categorical, column: Column, where: Where) -> Block:
    assert rule.categories is not None  # complete() came first
    target = rule.groups or rule.categories
    features = list(dict.fromkeys(target)) + (["other"] if rule.other else [])
    place = {c: features.index(t) for c, t in zip(rule.categories, target, strict=True)}
    lookup = np.zeros((len(column.levels), len(features)))

    def undeclared(level: str) -> str | None:
        if level in place or rule.other:
            return None
        remedy = f"add it to the categories of {rule.prefix!r} in the schema, or set other = true there"
        return f"undeclared category {level!r}; {remedy}"

    column.refuse(undeclared, lambda row: f"{where(row)}, column {rule.column!r}")
    for code, level in enumerate(column.levels):
        lookup[code, place.get(level, len(features) - 1)] = rule.weight
    return Block(tuple(f"{rule.prefix}={name}" for name in features), lookup, column.codes, rule.weight)


def _numeric(rule: Numeric, column: Column, where: Where) -> Block:
    values = numbers_of(column, rule.column, where)
    if rule.scale == "bins":
        at = np.searchsorted(rule.edges, values, side="right")
        one_hot = np.eye(len(rule.edges) + 1)[at, 1:]  # interval 0 lies below the first edge: no feature
        ends = (*(f"{edge:g}" for edge in rule.edges[1:]), "inf")
        names = tuple(f"{rule.prefix}=[{a:g},{b})" for a, b in zip(rule.edges, ends, strict=True))
        return Block(names, rule.weight * one_hot, column.codes, rule.weight)
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
    return Block((rule.prefix,), (rule.weight * scaled)[:, None], column.codes, bound)
