"""From a table to its source: labels read, schema complete, features ready; the same for every form and set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.encode import Block, complete, encode
from admmnet.data.schema import FEW_CLASSES, Numeric, Schema
from admmnet.data.table import PLAIN, RawColumn, RawTable, Rows, canonical, column_of, is_missing, listed, numbered
from admmnet.errors import DataError, RequestError
from admmnet.holder.encoding import RawRows, Words
from admmnet.types import Matrix, Vector

Values = tuple[str, ...]

MOST_CLASSES = 1000
"""Most classes whose values are read from rows: more are targets, or numbers of records."""


UNLABELLED = "every record needs a label: fill it in, or remove the record"


def read_labels(table: RawTable, name: str, schema: Schema, discover: bool) -> tuple[Vector, Schema, tuple[str, ...]]:
    """Turn a label column into signs, into numbers of classes, or into real targets, as the schema declares it.

    Targets are clipped to their range and keep their unit. Without `discover` no label value and no range is read from
    the rows, but must be declared. Return the labels, shape (n,), the schema with their values or range, and what was
    read from the rows.
    """
    column = table.column(name)
    schema, read = _discovered(table, name, schema, discover)
    if schema.targets is not None:
        return np.clip(table.numbers_of(name), *schema.targets)[column.codes], schema, read
    if schema.threshold is not None:
        return np.where(table.numbers_of(name) > schema.threshold, 1.0, -1.0)[column.codes], schema, read
    if schema.labels is None:  # -1 and 1, or 0 and 1: levels are in the order of rows
        negative = next((label for label in map(canonical, column.levels) if label in ("-1", "0", "-0")), "-1")
        usual = (("-1", "1"), {}) if negative == "-1" else (("0", "1"), {"0": ["-0"]})
        return _by_value(table, name, *usual, declared=False), schema, read
    values = oriented(schema.labels, schema.positive)
    return _by_value(table, name, values, schema.spelt), replace(schema, labels=values), read


def _discovered(table: RawTable, name: str, schema: Schema, discover: bool) -> tuple[Schema, tuple[str, ...]]:
    """Fill in the labels, or the range, that ``--task`` or ``--positive`` leaves to be read from the rows."""
    wanted, positive = schema.wanted if schema.wanted in ("classes", "real") else None, schema.positive
    declared = any(given is not None for given in (schema.labels, schema.targets, schema.threshold))
    if declared or (wanted is None and positive is None):
        return schema, ()
    key = {"classes": "labels = [...]", "real": "targets = [lowest, highest]"}.get(wanted or "", "")
    if not discover:
        asked, what = (f"--task {wanted}", "the labels") if wanted else (f"--positive {positive}", "the negative label")
        key = key or "both, labels = [negative, positive]"
        raise RequestError(
            f"{table.origin}: {asked} leaves {what} to be read from the rows: declare {key} in [data.schema]"
        )
    levels = table.column(name).levels
    if wanted == "real":
        numbers = table.numbers_of(name)
        low, high = float(numbers.min()), float(numbers.max())
        if low == high:
            raise DataError(f"{table.origin}, column {name!r}: every target is the same: declare {key}")
        return replace(schema, targets=(low, high)), (f"range of {name!r}",)
    if wanted == "classes":
        values = tuple(sorted({canonical(level) for level in levels}, key=_place))
        if not 3 <= len(values) <= MOST_CLASSES:
            raise DataError(
                f"{table.origin}, column {name!r}: {len(values)} label values, {listed(values, 5)}; --task classes is"
                f" for 3 to {MOST_CLASSES}: take --task binary or real, or declare {key} in [data.schema]"
            )
        return replace(schema, labels=values), (f"the labels of {name!r}",)
    assert positive is not None
    others = [level for level in levels if canonical(level) != canonical(positive)]
    if len(others) == len(levels):
        raise DataError(
            f"{table.origin}, column {name!r}: no row has the label {positive!r} of --positive; name one of"
            f" {listed(levels, 5)}"
        )
    there = [level for level in others if not is_missing(level)]
    if not there:
        table.refuse(name, lambda level: f"the label is missing; {UNLABELLED}" if is_missing(level) else None)
        raise DataError(f"{table.where(0)}, column {name!r}: every row has the label {positive!r}; two are needed")
    negative = there[0]
    return replace(schema, labels=(negative, positive)), (f"negative label {negative!r}",)


def _place(label: str) -> tuple[bool, float, str]:
    """Order of label values: numbers by size, then words."""
    number = PLAIN.finite(label)
    return number is None, number or 0.0, label


def oriented(declared: Values, positive: str | None) -> Values:
    """Negative and positive value, turned round if `positive` is the declared negative one; more stay as they are."""
    if positive is None:
        return declared
    if len(declared) > 2:
        raise RequestError(f"--positive {positive} goes with two labels, and {len(declared)} are declared: drop it")
    for values in (declared, declared[::-1]):
        if canonical(positive) == canonical(values[1]):
            return values
    raise RequestError(f"--positive {positive} is none of the declared labels {declared[0]!r}, {declared[1]!r}")


def _by_value(
    table: RawTable, name: str, values: Values, spelt: Mapping[str, Sequence[str]], *, declared: bool = True
) -> Vector:
    """Numbers of the rows' labels, which have these values, by declaration or by convention."""
    numbers = (-1.0, 1.0) if len(values) == 2 else range(len(values))
    places = dict(zip(map(canonical, values), map(float, numbers), strict=True))
    places |= {canonical(text): places[canonical(word)] for word, texts in spelt.items() for text in texts}
    column = table.column(name)
    words = f"the labels are {f'{values[0]!r} and {values[1]!r}' if len(values) == 2 else listed(values)}"
    if not declared and any(canonical(level) not in places for level in column.levels):
        words = f"labels must be -1/+1 or 0/1, else {_otherwise(column)}"

    def undeclared(level: str) -> str | None:
        if canonical(level) in places:
            return None
        return f"{'undeclared ' * declared}label {level!r}; {UNLABELLED if is_missing(level) else words}"

    table.refuse(name, undeclared)
    return np.array([places[canonical(level)] for level in column.levels])[column.codes]


def _otherwise(column: RawColumn) -> str:
    """How labels are declared that look like those of a column."""
    there = [level for level in column.levels if not is_missing(level)]
    values = sorted({canonical(level) for level in there}, key=_place)
    numbers = column.values(PLAIN, missing=True)
    if numbers is not None and (len(values) > FEW_CLASSES or bool(np.any(numbers % 1 > 0))):
        return "take --task real for targets that are numbers, or targets = [lowest, highest] in [data.schema]"
    if len(values) > FEW_CLASSES:
        return f"name another column as the label: {len(values)} texts are too many for classes"
    if len(values) > 2:
        shown = listed(values, 5)
        return f"of {len(values)} classes, {shown}, take --task classes or labels = [a, b, c] in [data.schema]"
    known = listed(values)
    return f"name them with --positive VALUE, one of {known}, or labels = [negative, positive] in [data.schema]"


RAW = (
    "nothing is declared of the columns, so that their numbers are taken as they are: one large column can leave "
    "little of the others; `admmnet data draft` on a public sample proposes bounds"
)


class Source(Struct, frozen=True):
    """Records that have been read and checked: d features each, made on demand, neither scaled nor with a constant."""

    name: str  # of the data set, or the file
    y: Vector  # (n,) -1 and +1, 0..K-1, or targets in their own unit; nan if not asked for
    names: tuple[str, ...]  # of the features
    blocks: tuple[Block, ...]  # of their columns; none where the table has numbers that are features, or raw
    table: RawTable  # what they were read as
    schema: Schema  # what further files of the same data are read by; complete
    dependent: tuple[str, ...] = ()  # what was read from the rows instead of being declared
    file: str | None = None  # file, or name of the set, that faults are found in
    notes: tuple[str, ...] = ()  # warnings to show once
    telling: tuple[str, ...] = ()  # as `Records.telling`
    official: int | None = None  # first row of the official test part
    test_share: float | None = 0.25  # drawn unless another is asked for; None for the official part

    @property
    def sparse(self) -> bool:
        """Whether rows are held in CSR form."""
        return hasattr(self.table.numbers, "tocsr")

    def take(self, which: Rows) -> Matrix:
        """Features of some rows, shape (m, d); of raw columns the numbers as they are."""
        if self.table.numbers is not None:
            X = self.table.numbers[which]
            X = np.asarray(X.toarray() if self.sparse else X, dtype=np.float64)
            return X if self.table.unit == 1.0 else X / self.table.unit
        X, start = np.zeros((len(which), len(self.names))), 0
        entries, first = X.reshape(-1), np.arange(len(which)) * X.shape[1]  # one number an entry: twice as fast as two
        for kind, lookup, codes, _ in self.blocks:
            own = lookup.take(codes[which], axis=0)
            if isinstance(kind, Words):
                entries[first + (start + own)] = kind.weight
            else:
                X[:, start : start + kind.width] = own
            start += kind.width
        return X

    def raw(self, which: Rows, width: int) -> RawRows:
        """Raw columns of some rows that will have d = ``width`` features."""
        if self.table.numbers is not None:
            return RawRows(self.take(which), np.zeros((len(which), 0), np.int64), width)
        numbers = [block.lookup[block.codes[which]] for block in self.blocks if not isinstance(block.kind, Words)]
        words = [block.lookup[block.codes[which], None] for block in self.blocks if isinstance(block.kind, Words)]
        codes = np.hstack([np.zeros((len(which), 0), np.int64), *words])
        return RawRows(np.hstack([np.zeros((len(which), 0)), *numbers]), codes.astype(np.int64), width)


def source_of(
    table: RawTable,
    schema: Schema,
    file: str | None = None,
    *,
    discover: bool,
    labelled: bool = True,
    drafts: bool = False,
) -> Source:
    """Check and encode a table, of a file or what stands for one.

    Without `discover`, categories, bounds, width and labels are never read from the rows: a schema that leaves them
    open is refused. With `drafts`, columns of which nothing is declared are encoded as `draft` proposes; else they are
    taken for numbers. Without `labelled` the label column may be absent, and is not looked at.
    """
    if table.dependent and not discover:
        raise RequestError(f"{table.origin}: the width must be declared, with --features D or data.schema.features")
    table, notes, drafted = replace(table, spelling=schema.spelling), tuple[str, ...](), tuple[str, ...]()
    if labelled:
        label = label_of(table, schema)
        schema = schema if table.numbers is not None else replace(schema, label=label)
        if drafts and table.numbers is None:
            from admmnet.data.draft import completed

            schema, drafted, notes = completed(table, schema)
            table = replace(table, spelling=schema.spelling)
        table = without(table, label, schema.leave_out)
        y, schema, found = read_labels(table, label, schema, discover)
    else:
        values = None if schema.labels is None else oriented(schema.labels, schema.positive)
        y, schema, found = np.full(table.rows, np.nan), replace(schema, labels=values), ()
    dependent = table.dependent
    if table.numbers is not None:
        schema = replace(schema, features=table.numbers.shape[1])
    elif not schema.measured:
        if not schema.rules:
            schema = with_columns(schema, table)
            notes = (*notes, RAW) if len(schema.rules) > 1 else notes
        if discover:
            schema, dependent = complete(schema, table)
        elif undeclared := [f"{rule.prefix}.{rule.open}" for rule in schema.rules if rule.open]:
            raise RequestError(
                f"{table.origin}: data.schema.columns.{undeclared[0]} must be declared, for nothing is read from the "
                "rows of this file"
            )
        if not schema.rules:
            why = "".join(f"; {note}" for note in notes)
            raise RequestError(f"{table.origin}: no column is left besides the label {schema.label!r}{why}")
    names, blocks = encode(schema, table)
    return Source(
        name=Path(file or table.origin).name,
        y=y,
        names=names,
        blocks=blocks,
        table=table,
        schema=replace(schema, wanted=None),
        dependent=(*drafted, *found, *dependent),
        file=file,
        notes=notes,
    )


def label_of(table: RawTable, schema: Schema) -> str:
    """Name of the label column."""
    label = table.label or schema.label
    if label is None:
        raise DataError(
            f"{table.origin}: name the label column with --label NAME; the header has {', '.join(table.names)}",
            reason="needs the name of its label column, --label NAME",
        )
    return label


def with_columns(schema: Schema, table: RawTable) -> Schema:
    """Take all columns but the label for numbers if none is declared."""
    if schema.rules:
        return schema
    names = [name for name in table.names if name != schema.label and name not in schema.drop]
    return replace(schema, rules=tuple(Numeric(name, name, scale="none") for name in names))


def without(table: RawTable, label: str, values: tuple[str, ...]) -> RawTable:
    """Table without the records whose label is one of `values`, which counts them.

    How many records there are, and how they are dealt, is then read from the labels.
    """
    if not values or not table.rows:
        return table
    column = table.column(label)
    out = {canonical(value) for value in values}
    keep = np.array([canonical(level) not in out for level in column.levels])[column.codes]
    if not keep.any():
        raise DataError(f"{table.origin}: every record has a label of leave_out, {list(values)!r}; none is left")
    return selected(table, keep)


def selected(table: RawTable, keep: NDArray[np.bool_]) -> RawTable:
    """Table of the records to keep, shape (n,), which counts the others."""
    kept = np.flatnonzero(keep)
    if not len(kept):
        raise DataError(f"{table.origin}: none of {table.rows} records counts; give a file that has some")

    return replace(
        table,
        rows=len(kept),
        read=lambda name: table.read(name).taken(kept),
        where=lambda row: table.where(int(kept[row])),
        left_out=table.left_out + table.rows - len(kept),
    )


def stacked(tables: Sequence[RawTable]) -> RawTable:
    """One table of the records of several tables with the same columns; its ``parts`` say how many each has."""
    first = tables[0]
    if len(tables) == 1:
        return replace(first, parts=(first.rows,))
    for table in tables:
        whose, row, _ = table.where(0).partition("row 0 (the first")  # rows in memory say whose they are
        if table.numbers is not None:
            check_names(table.names[1:], first.names[1:], whose if row else f"{whose}: ")
        elif set(table.names) != set(first.names):
            raise RequestError(
                f"{whose}the frame has the columns {listed(table.names, 6)}, the first has"
                f" {listed(first.names, 6)}: give all frames the same"
            )
    parts = tuple(table.rows for table in tables)
    starts = np.concatenate([[0], np.cumsum(parts)])

    @cache
    def read(name: str) -> RawColumn:
        columns = [table.column(name) for table in tables]
        levels = column_of([level for column in columns for level in column.levels])
        at = np.cumsum([0] + [len(column.levels) for column in columns])
        codes = [levels.codes[start + column.codes] for start, column in zip(at, columns, strict=False)]
        kinds = {column.typed for column in columns}
        return RawColumn(
            levels.levels, np.concatenate(codes).astype(np.int32), kinds.pop() if len(kinds) == 1 else None
        )

    def where(row: int) -> str:
        k = int(np.searchsorted(starts, row, side="right")) - 1
        return tables[k].where(row - int(starts[k]))

    numbers = together([table.numbers for table in tables]) if first.numbers is not None else None
    left_out = sum(table.left_out for table in tables)
    return replace(first, rows=sum(parts), read=read, where=where, numbers=numbers, parts=parts, left_out=left_out)


def together(parts: Sequence[Any]) -> Any:
    """Rows of all parts, CSR where all are."""
    if len(parts) == 1:
        return parts[0]
    if not all(hasattr(part, "tocsr") for part in parts):
        return np.concatenate([part.toarray() if hasattr(part, "tocsr") else part for part in parts])
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def check_names(found: Sequence[str], wanted: Sequence[str], prefix: str) -> None:
    """Refuse features of another number, or of other names where both have some."""
    if len(found) == len(wanted) and numbered(len(found)) in (found, wanted):
        return
    for number, (here, there) in enumerate(zip_longest(found, wanted), start=1):
        if here != there:
            one, other = ("missing" if name is None else repr(name) for name in (here, there))
            raise RequestError(
                f"{prefix}feature {number} is {one}, where the training records have {other} ({len(found)} and"
                f" {len(wanted)} features): give the same in the same order"
            )
