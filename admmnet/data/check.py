"""All faults of one file of records, for its owner; a run's public messages name the file alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from admmnet.data.encode import block_of, check_columns, complete, names_of_rule, refuse_text, words_of_rule
from admmnet.data.records import Records
from admmnet.data.rows import INTERCEPT, Encoder, every
from admmnet.data.schema import Numeric, Rule, Schema, said
from admmnet.data.settings import AGENT, DataSettings
from admmnet.data.source import Source, label_of, read_labels, with_columns, without
from admmnet.data.sources import declared, left_raw, read_source, read_table, validate
from admmnet.data.table import RawTable, refuse
from admmnet.errors import DataError, RequestError, counted
from admmnet.holder.encoding import RawRows


@dataclass
class Findings:
    """What a check finds; faults and labels quote records."""

    asked: bool  # whether a run of some methods measures columns with bounds
    faults: list[str] = field(default_factory=list)  # with line, column and value; ``DataError.KEPT`` of a kind at most
    count: int = 0  # of all
    source: Source | None = None  # the records, if there is no fault
    notes: tuple[str, ...] = ()  # what is no fault, but makes columns count little

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Keep the faults that a step finds."""
        try:
            yield
        except DataError as error:
            self.faults += error.faults
            self.count += error.count

    def keep(self, faults: Iterable[str]) -> None:
        """Keep the faults of records that a reader leaves out."""
        with self.noting():
            refuse(faults)

    def check(self, table: RawTable, schema: Schema) -> None:
        """Find the faults of labels and columns."""
        table = replace(table, spelling=schema.spelling)
        with self.noting():
            label = label_of(table, schema)
            table = without(table, label, schema.leave_out)
            read_labels(table, label, schema, discover=True)
        # without rules, which column is no feature is known by the label alone
        if table.numbers is not None or not (schema.rules or schema.label in table.names):
            return
        schema = with_columns(schema, table)
        with self.noting():
            check_columns(schema, table)
        for rule in schema.rules:
            with self.noting():
                one = replace(schema, rules=(rule,))
                one = one if schema.measured else complete(one, table)[0]
                block_of(one.rules[0], table, measured=schema.measured)
                refuse_text(one, table)

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
    raw = left_raw(settings)
    found = Findings(raw == "bounded")
    if raw == "open":
        settings = settings.changed(encode="private")
    if not settings.named:
        schema = declared(settings)
        with found.noting():
            found.check(read_table(Path(settings.data), schema, refuse=found.keep), schema)
    if not found.count:  # then exactly what a run does
        with found.noting():
            source = read_source(settings)
            found.notes, found.source = tuple(_notes(source, settings)), source
    return found


def _notes(source: Source, settings: DataSettings) -> Iterator[str]:
    rows = every(source)
    encoder = Encoder.of(source, rows, settings, discover=True)
    X, _ = encoder.rows(source, rows)
    if gone := source.table.left_out:
        yield f"{gone} records are left out by leave_out: private runs refuse the file while it has them"
    if not isinstance(X, RawRows) and (said := swallowing(X, encoder.names)) is not None:
        yield said
    if not settings.named:
        yield from unfilled(source)


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


def _encoding(rule: Rule) -> str:
    """What a complete rule makes of its column, in the words of a schema; of long lists the first six."""
    words = []
    for key, value in said(rule).items():
        values = [*map(str, value)] if isinstance(value, list | dict) else [str(value)]
        more = f", ... ({len(values)})" if len(values) > 6 else ""
        words.append(f"{key} {', '.join(values[:6])}{more}")
    return ", ".join(words).removeprefix("kind ")
