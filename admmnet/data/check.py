"""All faults of one file of records, for its owner; a run's public messages name the file alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from admmnet.data.encode import block_of, check_columns, complete, names_of_rule, refuse_text, words_of_rule
from admmnet.data.records import Records
from admmnet.data.rows import INTERCEPT, Encoder, every
from admmnet.data.schema import Numeric, Rule, Schema, said
from admmnet.data.settings import AGENT, DataSettings
from admmnet.data.source import Source, label_of, read_labels, with_columns, without
from admmnet.data.sources import declared, kinds_alone, read_source, read_table, validate, whole_and_bounded
from admmnet.data.table import RawTable, refuse
from admmnet.errors import DataError, RequestError, counted
from admmnet.holder.encoding import RawRows

T = TypeVar("T")


@dataclass(frozen=True)
class Findings:
    """What a check found; faults and labels quote records."""

    faults: tuple[str, ...]  # each with line, column and value; at most ``DataError.KEPT`` of a kind
    count: int  # of all
    source: Source | None  # the records, if there is no fault
    notes: tuple[str, ...] = ()  # what is no fault, but makes columns count little
    asked: bool = False  # whether a run of some methods measures columns with bounds

    @property
    def columns(self) -> list[str]:
        """What a run makes of each column, for a line each."""
        schema = Schema() if self.source is None else self.source.schema
        raw, found = self.asked or schema.measured, []
        for rule in schema.rules:
            words, names = words_of_rule(rule) if raw else None, names_of_rule(rule) if raw else rule.names
            found.append(f"column {rule.prefix!r}: {words or _encoding(rule)}, {counted(len(names), 'feature')}")
        return found


def check_file(settings: DataSettings) -> Findings:
    """Read a file (or built-in set) as a run would, and find as many faults as can be found at a time.

    Wrong settings, and a file that cannot be read at all, raise a RequestError. Test set and split do not count.
    """
    if settings.per_agent:
        raise RequestError(f"{settings.data}: name the file of one agent, without {AGENT}")
    validate(settings)
    asked = whole_and_bounded(settings)
    if kinds_alone(settings):
        settings = settings.changed(encode="private")
    found = Found()
    if not settings.named:
        schema = declared(settings)
        table = found.attempt(lambda: read_table(Path(settings.data), schema, refuse=found.keep))
        if table is not None:
            check_table(found, table, schema, settings.positive)
    source = None
    if not found.count:  # then exactly what a run does
        source = found.attempt(lambda: read_source(settings))
    notes: tuple[str, ...] | None = ()
    if source is not None:
        notes = found.attempt(lambda: _finish(source, settings))
    return Findings(tuple(found.faults), found.count, None if found.count else source, notes or (), asked)


class Found:
    """Faults of the steps of a check."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.count = 0

    def attempt(self, step: Callable[[], T]) -> T | None:
        """Result of a step; None if it finds faults, which are kept."""
        try:
            return step()
        except DataError as error:
            self.faults += error.faults
            self.count += error.count
        return None

    def keep(self, faults: Iterable[str]) -> None:
        """Keep the faults of records that a reader leaves out."""
        self.attempt(lambda: refuse(faults))


def _finish(source: Source, settings: DataSettings) -> tuple[str, ...]:
    rows = every(source)
    encoder = Encoder.of(source, rows, settings, discover=True)
    X, _ = encoder.rows(source, rows)
    said = None if isinstance(X, RawRows) else swallowing(X, encoder.names)
    gone = f"{source.table.left_out} records are left out by leave_out: private runs refuse the file while it has them"
    return (
        *((gone,) if source.table.left_out else ()),
        *(() if said is None else (said,)),
        *(() if settings.named else unfilled(source)),
    )


def check_table(found: Found, table: RawTable, schema: Schema, positive: str | None) -> None:
    """Find the faults of labels and columns."""
    table = found.attempt(lambda: _labelled(table, schema, positive)) or table
    # without rules, which column is no feature is known by the label alone
    if table.numbers is not None or not (schema.rules or schema.label in table.names):
        return
    schema = with_columns(schema, table)
    found.attempt(lambda: check_columns(schema, table))
    for rule in schema.rules:
        found.attempt(partial(_check_rule, rule, schema, table))


def _check_rule(rule: Rule, schema: Schema, table: RawTable) -> None:
    if schema.measured:
        block_of(rule, table, measured=True)
        refuse_text(replace(schema, rules=(rule,)), table)
        return
    block_of(complete(replace(schema, rules=(rule,)), table)[0].rules[0], table)


def _labelled(table: RawTable, schema: Schema, positive: str | None) -> RawTable:
    """Check the labels; the records that have one."""
    label = label_of(table, schema)
    table = without(table, label, schema.leave_out)
    read_labels(table, label, schema, positive, discover=True)
    return table


LARGEST = 0.9
"""Share of the rows' squared length above which one feature leaves little of the others."""
FILLED = 0.05
"""Share of its bounds below which the values of a column hardly differ."""
_ROWS = 2000
REMEDY = (
    "declare low and high of every column in [data.schema] (`admmnet data draft` proposes them); of rows without "
    "columns scales, or take --normalise columns"
)


def swallowing(X: Any, names: Sequence[str]) -> str | None:
    """What to say where one feature makes up most of rows of norm 1, dense (n, d) or CSR; None if none does."""
    some = X[:_ROWS]
    if len(names) < 3 or not some.shape[0]:
        return None
    squares = np.asarray(some.multiply(some).sum(axis=0) if hasattr(some, "multiply") else (some**2).sum(axis=0))
    share = squares.ravel() / some.shape[0]
    j = int(np.argmax(share))
    if share[j] <= LARGEST:
        return None
    what = "the constant column" if names[j] == INTERCEPT else f"feature {names[j]!r}"
    return f"{what} makes up {share[j]:.1%} of the rows' squared length, so that the others hardly count: {REMEDY}"


def swallowed(records: Records) -> str | None:
    """As ``swallowing`` of the rows of the first agent there is: a figure of records, for simulations alone."""
    return next((swallowing(X, records.feature_names) for _, (X, _) in sorted(records.shards.items())), None)


def unfilled(source: Source) -> Iterator[str]:
    """What to say of declared bounds of which the values take a small part."""
    for rule in source.schema.rules:
        if not isinstance(rule, Numeric) or rule.low is None or rule.high is None or rule.scale == "log":
            continue
        values = source.table.column(rule.column).values(source.schema.spelling, missing=True)
        if values is None or np.isnan(values).all():
            continue
        inside = np.clip(values, rule.low, rule.high)
        part = float((np.nanmax(inside) - np.nanmin(inside)) / (rule.high - rule.low))
        if part < FILLED:
            yield (
                f"column {rule.column!r} takes {part:.2%} of its bounds, {rule.low:g} to {rule.high:g}, so that it "
                'counts: narrow them, or take scale = "log"'
            )


_SHOWN = 6  # categories or edges that are written out


def _encoding(rule: Rule) -> str:
    """What a complete rule makes of its column, in the words of a schema."""
    words = (
        f"{key} {_few([*value]) if isinstance(value, list | dict) else value}" for key, value in said(rule).items()
    )
    return ", ".join(words).removeprefix("kind ")


def _few(values: list[Any]) -> str:
    more = f", ... ({len(values)})" if len(values) > _SHOWN else ""
    return ", ".join(map(str, values[:_SHOWN])) + more
