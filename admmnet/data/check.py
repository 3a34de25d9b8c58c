"""All faults of one file of records, for its owner; a run's public messages name the file alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from admmnet.data.balance import swallowing, unfilled
from admmnet.data.columns import RawTable
from admmnet.data.encode import block_of, check_columns, complete, names_of_rule, refuse_text, words_of_rule
from admmnet.data.labels import read_labels
from admmnet.data.rows import encoded, every, names_of
from admmnet.data.schema import Rule, Schema
from admmnet.data.settings import DataSettings
from admmnet.data.source import Source, label_of, with_columns, without
from admmnet.data.sources import declared, kinds_alone, read_source, read_table, validate_one, whole_and_bounded
from admmnet.data.transform import fit
from admmnet.errors import DataError, counted
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
    def columns(self) -> tuple[str, ...]:
        """What a run makes of the columns whose encoding is not declared, for a line each."""
        told = self.source is not None and (self.asked or self.source.schema.measured)
        rules = self.source.schema.rules if self.source is not None and told else ()
        said = ((rule, words_of_rule(rule)) for rule in rules)
        return tuple(
            f"column {rule.column!r}: {words}, {counted(len(names_of_rule(rule)), 'feature')}"
            for rule, words in said
            if words is not None
        )


def check_file(settings: DataSettings) -> Findings:
    """Read a file (or built-in set) as a run would, and find as many faults as can be found at a time.

    Wrong settings, and a file that cannot be read at all, raise a RequestError. Test set and split do not count.
    """
    validate_one(settings)
    asked = whole_and_bounded(settings)
    if kinds_alone(settings):
        settings = replace(settings, encode="private")
    found = Found()
    if not settings.named:
        schema = declared(settings)
        table = found.attempt(lambda: read_table(Path(settings.data), schema))
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


def _finish(source: Source, settings: DataSettings) -> tuple[str, ...]:
    rows = every(source)
    X, _ = encoded(source, rows, settings, fit(source, rows, settings, discover=True).transform)
    said = None if isinstance(X, RawRows) else swallowing(X, names_of(source, settings))
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
        refuse_text(structs.replace(schema, rules=(rule,)), table)
        return
    block_of(complete(structs.replace(schema, rules=(rule,)), table)[0].rules[0], table)


def _labelled(table: RawTable, schema: Schema, positive: str | None) -> RawTable:
    """Check the labels; the records that have one."""
    label = label_of(table, schema)
    table = without(table, label, schema.leave_out)
    read_labels(table, label, schema, positive, discover=True)
    return table
