"""A schema proposed for a table, as a public sample has it: kinds, bounds, categories, labels; as TOML, too."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from admmnet.data.files import about
from admmnet.data.readers.delimited import SEPARATORS, read_unknown, usual_separator
from admmnet.data.readers.parquet import read_parquet
from admmnet.data.schema import FEW_CLASSES, Categorical, Numeric, Rule, Schema, said, separator_of, to_table
from admmnet.data.settings import AGENT, form_of
from admmnet.data.table import (
    DATE,
    PLAIN,
    UNIT,
    RawColumn,
    RawTable,
    Spelling,
    canonical,
    is_missing,
    listed,
    numbers_of,
)
from admmnet.errors import DataError, RequestError, counted
from admmnet.types import Vector

CATEGORIES = 50
"""Most values that a column of categories has; a column of words with more is free text."""
TAIL = 0.01
"""Share of the values below and above the bounds: a few very large ones would leave all others in a corner."""
_FEW = 20  # values of which nothing is concluded where they all differ
_LONG = 60  # characters of a free text
_IDENTIFIER = re.compile(r"(^|[_ .-])(id|uuid|guid|index|key|nr|no|number)$|^(id|index|row|unnamed)([_ .:-]|$)", re.I)
_NEGATIVE = {"no", "n", "false", "f", "negative", "neg", "absent", "none", "low", "healthy", "benign", "control"}
_NOTHING = Schema()
_FIGURES = re.compile(r"[-+]?\d[\d.,' \u00a0\u202f]*")
_SPELLINGS = tuple(
    Spelling(decimal, thousands)
    for decimal, others in ((".", ("", ",", " ", "'", "\u00a0", "\u202f")), (",", ("", ".", " ", "\u00a0", "\u202f")))
    for thousands in others
)


class Doubt(NamedTuple):
    """A column that a draft leaves out."""

    column: str
    reason: str  # quotes no value
    example: str = ""  # does


@dataclass(frozen=True)
class SchemaDraft:
    """What a table suggests."""

    schema: Schema
    looked_at: str  # in words: whoever uses the schema on private records publishes what was read there
    doubts: tuple[Doubt, ...]  # columns that are left out, and why
    notes: dict[str, str] = field(default_factory=dict)  # of a column that is kept, or the label


def draft(table: RawTable, label: str | None, read_by: Schema = _NOTHING) -> SchemaDraft:
    """Propose a schema that `encode` takes for every record of a table.

    What is read of the records becomes bounds, categories and label values, in the clear. Without a `label` that is
    left open. `read_by` says how the file is written, and which columns are left out in any case. A DataError says that
    there is no such column, or that its values are no labels.
    """
    names = [name for name in table.names if name not in (label, *read_by.drop)]
    spelling = table.spelling if table.spelling != PLAIN else _spelling(table, names, read_by.separator)
    table = replace(table, spelling=spelling)
    schema = replace(read_by, label=label, decimal=spelling.decimal, thousands=spelling.thousands)
    doubts: list[Doubt] = []
    notes: dict[str, str] = {}
    if label is not None:
        schema, notes[label] = labelled(table, label, schema)
    rules: list[Rule] = []
    for name in names:
        try:
            found, notes[name] = _look(name, table.column(name), spelling)
        except DataError as error:  # a column of lists, for example
            found = Doubt(name, "no numbers or texts", str(error))
        if isinstance(found, Doubt):
            doubts.append(found)
        else:
            rules.append(found)
    left_out = (*read_by.drop, *(doubt.column for doubt in doubts))
    schema = replace(schema, rules=tuple(rules), drop=left_out)
    return SchemaDraft(schema, f"{table.origin}: {table.rows:,} records", tuple(doubts), notes)


def completed(table: RawTable, schema: Schema) -> tuple[Schema, tuple[str, ...], tuple[str, ...]]:
    """Draft what a schema does not say of columns, and of two label values; say what was read, and what is left out.

    Nothing that is said quotes a value.
    """
    label = schema.label
    assert label is not None  # the caller asked
    read: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if not schema.rules:
        own = draft(table, None, replace(schema, label=None, drop=(label, *schema.drop)))
        schema = replace(own.schema, label=label, drop=own.schema.drop[1:])
        read = (f"the encoding of {counted(len(schema.rules), 'column')}",)
        if own.doubts:
            words = ", ".join(f"{doubt.column!r} ({doubt.reason})" for doubt in own.doubts)
            notes = (f"columns left out of the encoding: {words}; declare those you want in [data.schema]",)
        gone = [rule.column for rule in schema.rules if rule.missing == "indicator"]
        if gone:
            words = f"values are missing in {listed(gone)}: one more feature of each says where"
            notes = (*notes, f"{words}; declare missing in [data.schema]")
    if schema.task is None and schema.positive is None:
        column = table.column(label)
        values = {canonical(level) for level in column.levels if not is_missing(level)}
        gone = [level for level in column.levels if is_missing(level)]
        if len(values) == 2 and (gone or not values <= {"-1", "0", "1"}):
            schema = labelled(table, label, schema)[0]
            read = (*read, f"the labels {listed(schema.classes)}")
            if gone:
                count = int(np.isin(column.codes, [column.levels.index(level) for level in gone]).sum())
                notes = (*notes, f"{count} of {table.rows} records have no label and are left out")
    return schema, read, notes


def _look(name: str, column: RawColumn, spelling: Spelling) -> tuple[Rule | Doubt, str]:
    """Rule of a column, or why it is left out; and what a reader should know of it."""
    every = column.values(spelling, missing=True)
    gone = map(is_missing, column.levels) if every is None else np.isnan(every)
    known = ~np.fromiter(gone, bool, len(column.levels))
    levels, there = tuple(compress(column.levels, known)), known[column.codes]
    missing = "" if there.all() else f"{1 - there.mean():.1%} are missing; "
    if len(levels) == 0 or (len(levels) == 1 and not missing):
        return Doubt(name, "constant", f"every record has {(*levels, 'no value')[0]!r}"), ""
    if all(DATE.fullmatch(level) for level in levels):
        return Doubt(name, "dates", f"such as {levels[0]!r}: make an age, a year or a duration of it"), ""
    codes = any(level[0] == "0" and level[1:].isdecimal() for level in levels)  # numbers do not begin so
    rows = int(there.sum())
    if every is None or codes or len(levels) == 1:
        doubt = _no_categories(name, levels, rows, spelling)
        note = f"{missing}values that are not named here share one feature"
        return doubt or _categorical(name, levels, bool(missing)), note
    sample = every[column.codes][there]
    whole = len(levels) == rows >= _FEW and (sample == np.rint(sample)).all()
    steps = np.sign(np.diff(sample))
    if whole and (_IDENTIFIER.search(name) or abs(steps.sum()) == rows - 1):
        return Doubt(name, "identifiers", f"all {rows:,} differ, such as {levels[0]!r}"), ""
    low, high = _bounds(sample)
    note = f"{missing}about {TAIL:.0%} of the sample lies beyond either bound and counts as it"
    return Numeric(name, name, scale="centred", low=low, high=high, missing="indicator" if missing else None), note


def _no_categories(name: str, levels: tuple[str, ...], rows: int, spelling: Spelling) -> Doubt | None:
    """Why words of so many records are left out; None if they are categories."""
    odd = [level for level in levels if spelling.finite(level) is None]
    if odd and all(math.isinf(spelling.value(level)) for level in odd):
        words = f"{listed(odd, 3)}: fill them in, or leave these cells empty"
        return Doubt(name, "numbers that are not finite", words)
    if len(levels) > FEW_CLASSES and odd and all(UNIT.fullmatch(level) for level in odd):
        return Doubt(name, "numbers with a unit", f"such as {odd[0]!r}: write them without")
    distinct = len(levels) == rows >= _FEW
    many = len(levels) > CATEGORIES or len(levels) > rows / 2 > _FEW / 2
    if not (distinct or many or max(map(len, levels)) > _LONG):
        return None
    such = f"such as {levels[0][:40]!r}"
    if 0 < len(odd) <= len(levels) / 2:
        words = f"{len(odd):,} of {len(levels):,} values are no numbers, {listed(odd, 3)}: mend these"
        return Doubt(name, "numbers and words", words)
    if distinct:
        return Doubt(name, "identifiers or free text", f"all {rows:,} differ, {such}")
    return Doubt(name, "free text or codes", f"{len(levels):,} values in {rows:,} records, {such}")


def _categorical(name: str, levels: tuple[str, ...], missing: bool) -> Categorical:
    """One-hot with the rest as one more; spellings that differ in case alone are one group."""
    alike: dict[str, list[str]] = {}
    for level in sorted(levels):
        alike.setdefault(level.casefold(), []).append(level)
    rule = Categorical(name, name, missing="indicator" if missing else None, other=True)
    if len(alike) == len(levels):
        return replace(rule, categories=tuple(sorted(levels)))
    return replace(rule, groups={own[0]: tuple(own) for own in alike.values()})


def _bounds(sample: Vector) -> tuple[float, float]:
    """Round numbers around all but the `TAIL` of the values at either end; around all where that leaves one value."""
    low, high = np.quantile(sample, [TAIL, 1 - TAIL]).tolist()
    if low == high:
        low, high = float(sample.min()), float(sample.max())
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    below, above = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{below:.12g}"), float(f"{above:.12g}")


def _spelling(table: RawTable, names: list[str], separator: str | None) -> Spelling:
    """How a table writes numbers: as makes most columns numbers, the plain way if none needs another."""
    columns = []
    for name in names:
        with suppress(DataError):  # a column of lists, for example
            column = table.column(name)
            levels = () if column.typed else column.levels  # every spelling writes texts of numbers alike
            columns.append([level for level in levels[:1000] if not is_missing(level)])
    odd = [levels for levels in columns if levels and numbers_of(levels, PLAIN, missing=False) is None]
    if not any(all(_FIGURES.fullmatch(x) and not DATE.fullmatch(x) for x in levels) for levels in odd):
        return PLAIN
    # of "1,234" alone a semicolon between cells says that the comma is a decimal one
    order = sorted(_SPELLINGS, key=lambda each: each.decimal == ".") if separator == ";" else _SPELLINGS
    return max(order, key=lambda each: sum(numbers_of(x, each, missing=False) is not None for x in columns if x))


def labelled(table: RawTable, label: str, schema: Schema) -> tuple[Schema, str]:
    """Declare the label values, or the range, that a column has, with words for it; a DataError if it has none."""
    column = table.column(label)
    place = f"{table.origin}, column {label!r}"
    found: Counter[str] = Counter()
    gone: list[str] = []
    for level, count in zip(column.levels, np.bincount(column.codes).tolist(), strict=True):
        if is_missing(level):
            gone.append(level)
        else:
            found[canonical(level)] += count
    if len(found) < 2:
        raise DataError(f"{place}: every record has {next(iter(found), '')!r}; a label needs two values")
    if len({word.casefold() for word in found}) < len(found):
        raise DataError(
            f"{place} spells one label in several ways, {listed(list(found), 6)}: write it in one, or declare labels = "
            "{word = [spellings], ...}"
        )
    schema = replace(schema, leave_out=tuple(gone))
    total = sum(found.values())
    without = f"; records without a label ({(table.rows - total) / table.rows:.1%}) are left out" if gone else ""
    values = column.values(table.spelling, missing=True)
    if len(found) > FEW_CLASSES:
        if values is None:
            raise DataError(
                f"{place} has {len(found)} values, {listed(list(found), 4)}: too many for classes; name another with"
                " --label"
            )
        sample = values[column.codes]
        low, high = _bounds(sample[~np.isnan(sample)])
        return replace(
            schema, targets=(low, high)
        ), f"a real target, {np.nanmin(values):g} to {np.nanmax(values):g} in the sample{without}"
    if values is not None:
        numbers = dict(zip(map(canonical, column.levels), values.tolist(), strict=True))
        words = tuple(sorted(found, key=lambda word: numbers[word]))
    elif len(found) == 2:
        words = tuple(sorted(found, key=lambda word: (word.casefold() not in _NEGATIVE, -found[word], word)))
    else:
        words = tuple(sorted(found))
    shares = ", ".join(f"{word!r} {found[word] / total:.1%}" for word in words)
    sign = f"; {words[1]!r} is +1" if len(words) == 2 else ""
    return replace(schema, labels=words), f"shares in the sample: {shares}{sign}{without}"


def write_draft(draft: SchemaDraft) -> str:
    """TOML of a draft with comments: a bare schema, as ``read_schema`` reads it."""
    import tomli_w

    table = to_table(draft.schema)
    table.pop("columns", None)
    lines = _comment(
        f"Drafted from {draft.looked_at}.",
        "Bounds, categories, label values and shares below were read from these records. Using this schema on",
        "private records publishes them. Draft from a public sample, or fill in from a code book.",
    )
    lines += ["", *_comment(draft.notes.get(draft.schema.label or "", ""))]
    if draft.schema.label is None:
        lines += _comment("No label column is named: label = ..., and labels = [negative, positive], go here.")
    if draft.schema.leave_out:
        lines += _comment("simulations leave these records out; a private run refuses them: delete them first")
    # the screen quotes values, the file does not
    lines += _comment(*(f"{doubt.column!r} is left out: {doubt.reason}" for doubt in draft.doubts))
    lines.append(tomli_w.dumps(table))
    for rule in draft.schema.rules:
        head, _, entry = tomli_w.dumps({"columns": {rule.prefix: said(rule)}}).partition("\n")
        lines += [head, *_comment(draft.notes.get(rule.column, "")), entry]
    return "\n".join(lines)


def _comment(*lines: str) -> list[str]:
    return ["# " + "".join(c if c.isprintable() else "?" for c in line) for line in lines if line]


def words_of(draft: SchemaDraft) -> Iterable[str]:
    """Lines for the screen."""
    schema, kinds = draft.schema, [type(rule).__name__ for rule in draft.schema.rules]
    yield f"looked at {draft.looked_at}"
    if schema.separator is not None:
        yield f"its cells are divided by {SEPARATORS.get(schema.separator, repr(schema.separator))}"
    if schema.header is False:
        yield "its first line is taken for a record: the columns are called x1, x2, ..."
    if schema.spelling != PLAIN:
        yield f"its numbers are read as 1{schema.thousands}234{schema.decimal}5"
    counts = f"{kinds.count('Numeric')} of numbers, {kinds.count('Categorical')} of categories"
    yield f"{len(kinds)} columns are declared: {counts}"
    if schema.label is not None:
        yield f"label {schema.label!r}: {draft.notes[schema.label]}"
    for doubt in draft.doubts:
        yield f"left out {doubt.column!r}: {doubt.reason}, {doubt.example}".rstrip(", ")


def draft_of(file: Path, label: str | None, separator: str | None) -> tuple[str, Sequence[str]]:
    """TOML of the schema that a sample suggests, and lines for the screen; a RequestError if it is no sample."""
    if AGENT in str(file):
        raise RequestError(f"{file}: name one file that is a public sample, without {AGENT}")
    if form_of(str(file)) != ".csv":
        raise RequestError(f"{file} has no named columns: a schema is drafted for .csv, .tsv and .parquet files")
    if not file.is_file():
        raise RequestError(f"{file} does not exist: correct the path")
    mark = None if separator is None else separator_of(separator, "--separator")
    with about(file):
        if file.suffix == ".parquet":
            table, read_by = read_parquet(file), Schema()
        else:
            table, mark, header = read_unknown(file, mark)
            read_by = Schema(separator=None if mark == usual_separator(file) else mark, header=header)
        if label is not None and label not in table.names and read_by.header is False:
            raise DataError(
                f"{file}, line 1 looks like a record, so the columns are named {table.names[0]} to {table.names[-1]}:"
                " choose one with --label, or write a line of column names above it"
            )
        found = draft(table, label, read_by)
    if not found.schema.rules:
        raise DataError(f"{file}: no column is left besides the label; look at the columns of the file", str(file))
    return write_draft(found), list(words_of(found))
