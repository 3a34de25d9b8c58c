"""From a table to its source: labels read, schema complete, features ready; the same for every form and set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.encode import Features, complete, encode, missing
from admmnet.data.labels import oriented, read_labels
from admmnet.data.schema import Numeric, Schema
from admmnet.data.table import RawColumn, RawTable, canonical, column_of, listed, numbered
from admmnet.errors import DataError, RequestError
from admmnet.types import Vector

RAW = (
    "nothing is declared of the columns, so that their numbers are taken as they are: one large column can leave "
    "little of the others; `admmnet data draft` on a public sample proposes bounds"
)


class Source(Struct, frozen=True):
    """Records that have been read and checked, but not yet transformed."""

    name: str  # of the data set, or the file
    y: Vector  # (n,) -1 and +1, 0..K-1, or targets in their own unit; nan if not asked for
    features: Features  # without the intercept
    table: RawTable  # what they were read as
    schema: Schema  # what further files of the same data are read by; complete
    dependent: tuple[str, ...] = ()  # what was read from the rows instead of being declared
    file: str | None = None  # file, or name of the set, that faults are found in
    notes: tuple[str, ...] = ()  # warnings to show once
    telling: tuple[str, ...] = ()  # as `Records.telling`
    official: int | None = None  # first row of the official test part
    test_share: float | None = 0.25  # drawn unless another is asked for; None for the official part


def source_of(
    table: RawTable,
    schema: Schema,
    positive: str | None = None,
    *,
    discover: bool,
    labelled: bool = True,
    drafts: bool = False,
) -> Source:
    """Check and encode a table.

    Without `discover`, categories, bounds, width and labels are never read from the rows: a schema that leaves them
    open is refused. With `drafts`, columns of which nothing is declared are encoded as `draft` proposes; else they are
    taken for numbers. Without `labelled` the label column may be absent, and is not looked at.
    """
    if table.dependent and not discover:
        raise RequestError(f"{table.origin}: the width must be declared, with --features D or data.schema.features")
    notes: tuple[str, ...] = ()
    drafted: tuple[str, ...] = ()
    if labelled:
        label = label_of(table, schema)
        if drafts and table.numbers is None:
            from admmnet.data.draft import completed

            schema, drafted, notes = completed(table, replace(schema, label=label), positive)
            table = replace(table, spelling=schema.spelling)
        table = without(table, label, schema.leave_out)
        y, schema, found = read_labels(table, label, schema, positive, discover)
    else:
        values = None if schema.labels is None else oriented(schema.labels, positive)
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
        elif (key := missing(schema)) is not None:
            raise RequestError(
                f"{table.origin}: {key} must be declared, for nothing is read from the rows of this file"
            )
        if not schema.rules:
            why = "".join(f"; {note}" for note in notes)
            raise RequestError(f"{table.origin}: no column is left besides the label {schema.label!r}{why}")
    return Source(
        name=Path(table.origin).name,
        y=y,
        features=encode(schema, table),
        table=table,
        schema=replace(schema, wanted=None),
        dependent=(*drafted, *found, *dependent),
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
    for table in tables:
        whose = table.where(0).partition("row")[0] if table.rows else ""
        if table.numbers is not None:
            check_names(table.names[1:], first.names[1:], whose)
        elif set(table.names) != set(first.names):
            raise RequestError(
                f"{whose}the frame has the columns {listed(table.names, 6)}, the first has {listed(first.names, 6)}: "
                "give all frames the same"
            )
    parts = tuple(table.rows for table in tables)
    starts = np.concatenate([[0], np.cumsum(parts)])

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
