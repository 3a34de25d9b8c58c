"""Columns as they come, for encodings that are measured before the first round: docs/methods.md, section 12.

Kinds are declared, so that the width follows from the schema alone. No number makes a record refused: what is none is
missing. Text that is no mark of a missing value is refused where its owner alone is told. Columns whose scale says more
than a line become features as declared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from admmnet.data.columns import Features, RawTable, Rows
from admmnet.data.encode import block_of, check_columns
from admmnet.data.labels import canonical
from admmnet.data.schema import Categorical, Numeric, Rule, Schema, measurable
from admmnet.data.values import PLAIN, is_missing, no_number
from admmnet.errors import RequestError
from admmnet.holder.encoding import CELLS, HATS, Column, Encoding, Number, Plain, RawRows, Words
from admmnet.types import Matrix

BUCKETS = 16
"""Features that the values of a column share whose categories nobody declares."""
_EVEN = tuple(k / CELLS for k in range(CELLS + 1))


class RawFeatures(Features, frozen=True):
    """The d features of a source, known by name, and the raw columns that they will be made of."""

    columns: tuple[Column, ...] = ()
    raw: Callable[[Rows, int], RawRows] | None = None
    """Row numbers and d to raw records."""
    refuse_text: Callable[[], None] = lambda: None
    """Refuse text that counts as missing. Private runs do not ask: whether they begin would show a record."""

    def encoding(self, *, intercept: bool) -> Encoding:
        """How rows are encoded where nothing is measured."""
        return Encoding(self.columns, intercept=intercept)


def names_of_rule(rule: Rule) -> tuple[str, ...]:
    """Names of the features of a column, as many as its kind says."""
    if measurable(rule):
        return numbered_shares(rule.prefix)
    if isinstance(rule, Categorical) and rule.categories is None:
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


def raw_features(schema: Schema, table: RawTable) -> RawFeatures:
    """Raw columns of a table by a schema that names kinds.

    RequestError if no kind is declared, or a scale without its bounds. DataError if the table has other columns, or a
    declared column a value that its declaration refuses.
    """
    if table.features is not None:
        return of_numbers(table.features)
    if not schema.rules:
        raise RequestError(
            f"{table.origin}: encode = 'private' needs the kinds of the columns, and nothing else: numeric = [...] and "
            "categorical = [...] in [data.schema]"
        )
    check_columns(schema, table)
    made = [_column(rule, table) for rule in schema.rules]

    def raw(which: Rows, width: int) -> RawRows:
        numbers = [lookup[codes[which]] for kind, lookup, codes in made if not isinstance(kind, Words)]
        words = [lookup[codes[which]] for kind, lookup, codes in made if isinstance(kind, Words)]
        return RawRows(
            np.hstack([np.zeros((len(which), 0)), *numbers]),
            np.hstack([np.zeros((len(which), 0), np.int64), *words]).astype(np.int64),
            width,
        )

    def refuse_text() -> None:
        for rule in schema.rules:
            if isinstance(rule, Numeric) and measurable(rule):
                _refuse_text(rule.column, table)

    names = tuple(name for rule in schema.rules for name in names_of_rule(rule))
    columns = tuple(kind for kind, _, _ in made)
    return RawFeatures(names, _encoded_later, columns=columns, raw=raw, refuse_text=refuse_text)


def of_numbers(features: Features) -> RawFeatures:
    """Every feature of a form of numbers is a column of them."""
    if features.sparse is not None:
        raise RequestError("encode = 'private' needs dense rows, and these are sparse: take encode = 'declared'")

    def raw(which: Rows, width: int) -> RawRows:
        return RawRows(features.take(which), np.zeros((len(which), 0), np.int64), width)

    names = tuple(name for own in features.names for name in numbered_shares(own))
    return RawFeatures(names, _encoded_later, columns=(Number(),) * len(features.names), raw=raw)


def _encoded_later(which: Rows) -> Matrix:
    raise AssertionError("raw records have no features before their encoding is known")


def _column(rule: Rule, table: RawTable) -> tuple[Column, Any, Any]:
    """Kind of a column, what each of its texts is, shape (levels, 1 or more), and the text of every record."""
    column = table.column(rule.column)
    if isinstance(rule, Numeric) and measurable(rule):
        values = np.array([_number(text, table, typed=column.typed) for text in column.levels], dtype=np.float64)
        if isinstance(rule.missing, float):
            values[np.isnan(values)] = rule.missing
        bounds = {} if rule.low is None or rule.high is None else {"low": rule.low, "high": rule.high, "table": _EVEN}
        return Number(rule.weight, **bounds), values[:, None], column.codes  # type: ignore[arg-type]
    if isinstance(rule, Categorical) and rule.categories is None:
        places = [bucket(rule.prefix, text) for text in column.levels]
        return Words(BUCKETS, rule.weight), np.array(places, dtype=np.int64)[:, None], column.codes
    if rule.open:
        raise RequestError(
            f"{table.origin}: data.schema.columns.{rule.prefix}.{rule.open} must be declared, as its scale is: declare "
            "them, or leave out the scale, and they are measured"
        )
    block = block_of(rule, table)
    if isinstance(rule, Categorical):
        return Words(len(rule.names), rule.weight), block.lookup.argmax(axis=1)[:, None], block.codes
    return Plain(len(rule.names)), block.lookup, block.codes


def _number(text: str, table: RawTable, *, typed: bool | None) -> float:
    """Value of a text; nan where it is no number."""
    try:
        return float(text) if typed else table.spelling.number(text)
    except ValueError:
        return math.nan


def _refuse_text(name: str, table: RawTable) -> None:
    column = table.column(name)
    spelling = PLAIN if column.typed else table.spelling
    odd = {text for text in column.levels if not is_missing(text) and not spelling.infinite(text)}
    table.refuse(name, lambda text: no_number(text, spelling) if text in odd else None)


def refuse_text(features: Features) -> None:
    """Refuse text in columns of numbers, where features are of raw columns, with a DataError."""
    if isinstance(features, RawFeatures):
        features.refuse_text()


def bucket(name: str, value: str) -> int:
    """Feature of a category of a column that declares none: SHA-256 of both, mod 16, the same on every machine."""
    digest = hashlib.sha256(f"{name}\x1f{canonical(value)}".encode()).digest()
    return digest[-1] % BUCKETS
