"""Files of named columns (.csv) and of arrays (.npz)."""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data.columns import Column, Table, column_of, column_of_numbers
from admmnet.data.encode import complete, encode, missing
from admmnet.data.files import read_lines
from admmnet.data.labels import canonical, no_labels, read_answers
from admmnet.data.schema import Numeric, Schema
from admmnet.data.source import Source
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix


def flat_cells(lines: Sequence[str], width: int, separator: str, where: Callable[[int], str]) -> list[str]:
    """Cut lines without quotes into cells.

    Parameters
    ----------
    lines : sequence of str
        One record a line.
    width : int
        Cells a line must have.
    separator : str
        Text between two cells.
    where : callable
        Words for the place of a line (from 0).

    Returns
    -------
    list of str
        Row by row, ``len(lines) * width`` of them.

    Raises
    ------
    DataError
        For lines with another number of cells.
    """
    ragged = [row for row, line in enumerate(lines) if line.count(separator) != width - 1]
    if ragged:
        raise DataError(_ragged(where(row), _cells(lines[row], separator), width) for row in ragged)
    return separator.join(lines).split(separator) if lines else []


def read_csv(
    path: Path, schema: Schema, positive: str | None, discover: bool, labelled: bool = True
) -> Source:
    """Read a csv file with a header line.

    Parameters
    ----------
    path : Path
        `.csv` or `.csv.gz`, comma separated, UTF-8.
    schema : Schema
        Declared columns; without any, all columns but the label must be numeric.
    positive : str or None
        Label value that becomes +1.
    discover : bool
        Whether categories, bounds and labels may be read from the rows.
    labelled : bool
        Whether labels are read; if not, the label column may be absent and is not looked at.

    Returns
    -------
    Source
        Its records.

    Raises
    ------
    DataError
        With file, line and column.
    RequestError
        If the schema leaves open what may not be read from the rows.
    """
    source = encoded_table(csv_table(path), schema, positive, discover, labelled)
    return replace(source, name=path.name)


def encoded_table(
    table: Table, schema: Schema, positive: str | None, discover: bool, labelled: bool = True
) -> Source:
    """Check and encode a table; parameters and errors are those of `read_csv`."""
    path = table.origin
    if labelled and schema.label is None:
        raise DataError(
            f"{path}: name the label column with --label NAME; the header has {', '.join(table.names)}",
            reason="needs the name of its label column, --label NAME",
        )
    if labelled and schema.label is not None:
        table = without(table, schema.label, schema.leave_out)
        labels = read_answers(
            table.column(schema.label), schema.label, table.where, schema, positive, discover
        )
    else:
        labels = no_labels(table.rows, schema.labels, positive)
    if not schema.rules:
        names = [name for name in table.names if name != schema.label and name not in schema.drop]
        schema = replace(schema, rules=tuple(Numeric(name, name, None, None, "none") for name in names))
    dependent: tuple[str, ...] = ()
    if discover:
        schema, dependent = complete(schema, table)
    elif (key := missing(schema)) is not None:
        raise RequestError(f"{path}: {key} must be declared, for nothing is read from the rows of this file")
    if not schema.rules:
        raise RequestError(f"{path}: no column is left besides the label {schema.label!r}")
    encoded = encode(schema, table)
    return Source(
        name=path,
        y=labels.y,
        features=encoded.names,
        rows=encoded.rows,
        column=table.column,
        where=table.where,
        schema=replace(schema, labels=labels.values),
        dependent=labels.dependent + dependent,
        bounds=encoded.bounds,
    )


def without(table: Table, label: str, values: tuple[str, ...]) -> Table:
    """Table without the records whose label is one of `values`; each record decides for itself.

    Raises
    ------
    DataError
        If there is no such column, or no record is left.
    """
    if not values:
        return table
    column = table.column(label)
    out = {canonical(value) for value in values}
    keep = np.array([canonical(level) not in out for level in column.levels])[column.codes]
    if not keep.any():
        raise DataError(
            f"{table.origin}: every record has a label of leave_out, {list(values)!r}; none is left"
        )
    kept = np.flatnonzero(keep)

    def read(name: str) -> Column:
        whole = table.read(name)
        levels, codes = np.unique(whole.codes[kept], return_inverse=True)
        return Column(tuple(whole.levels[level] for level in levels), codes.astype(np.int32))

    return Table(table.names, len(kept), read, lambda row: table.where(int(kept[row])), table.origin)


def csv_table(path: Path, ragged: list[str] | None = None) -> Table:
    """Read the cells of a csv file.

    Parameters
    ----------
    path : Path
        The file.
    ragged : list of str, optional
        Takes faults of lines with another number of cells, which are left out then; without it they are refused.

    Raises
    ------
    DataError
        For a header without names or with one twice, or a ragged row.
    RequestError
        For a file without records.
    """
    lines = read_lines(path)
    if any('"' in line for line in lines):
        return _quoted_table(path, "\n".join(lines), ragged)
    names, body = _header(path, lines[0].split(",")), lines[1:]
    numbers = list(range(2, len(lines) + 1))
    if ragged is not None:
        whole = [line.count(",") == len(names) - 1 for line in body]
        ragged += [
            _ragged(f"{path}, line {number}", _cells(line, ","), len(names))
            for line, number, good in zip(body, numbers, whole, strict=True)
            if not good
        ]
        body, numbers = list(compress(body, whole)), list(compress(numbers, whole))

    def where(row: int) -> str:
        return f"{path}, line {numbers[row]}"

    return _table(path, names, flat_cells(body, len(names), ",", where), where)


def _quoted_table(path: Path, text: str, ragged: list[str] | None) -> Table:
    reader = csv.reader(io.StringIO(text), strict=True)
    cells: list[str] = []
    starts: list[int] = []
    try:
        names = _header(path, next(reader))
        start = reader.line_num + 1
        for record in reader:
            if len(record) == len(names):
                cells.extend(record)
                starts.append(start)
            else:
                fault = _ragged(f"{path}, line {start}", len(record), len(names))
                if ragged is None:
                    raise DataError(fault)
                ragged.append(fault)
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; mend the quotes") from None
    return _table(path, names, cells, lambda row: f"{path}, line {starts[row]}")


def _table(path: Path, names: tuple[str, ...], cells: list[str], where: Callable[[int], str]) -> Table:
    if not cells:
        raise RequestError(f"{path} has a header and no records: give a file with at least one record")
    place = {name: k for k, name in enumerate(names)}

    def read(name: str) -> Column:
        return column_of([cell.strip() for cell in cells[place[name] :: len(names)]])

    return Table(names, len(cells) // len(names), read, where, str(path))


def _header(path: Path, fields: Sequence[str]) -> tuple[str, ...]:
    names = tuple(field.strip() for field in fields)
    for k, name in enumerate(names):
        if not name or name in names[:k]:
            fault = f"{name!r} twice" if name else f"no name for column {k + 1}"
            raise DataError(f"{path}, line 1: the header holds {fault}; every column needs a name of its own")
    return names


def _cells(line: str, separator: str) -> int:
    return line.count(separator) + 1 if line else 0


def _ragged(place: str, cells: int, width: int) -> str:
    return f"{place}: {cells} values, expected {width}; mend or remove the line"


def read_npz(
    path: Path, schema: Schema, positive: str | None, discover: bool, labelled: bool = True
) -> Source:
    """Read the arrays X (n, d) and y (n,) of an npz file.

    Parameters
    ----------
    path, schema, positive, discover, labelled
        As in `read_csv`; of the schema only `labels` and `features` count, y takes the label column's place.

    Returns
    -------
    Source
        Its records; features and raw columns are called x1, ..., xd.

    Raises
    ------
    DataError
        For other keys, types or shapes, and for values that are not finite, with row (from 1) and column.
    """
    X, y = arrays_of(path, labelled)
    d = X.shape[1]
    if schema.features is not None and schema.features != d:
        raise DataError(
            f"{path}: X has {d} columns, expected {schema.features}; correct --features or the file"
        )

    def where(row: int) -> str:
        return f"{path}, row {row + 1}"

    check_finite(X, where)
    if labelled:
        texts = column_of([str(v) for v in y.tolist()])
        labels = read_answers(texts, "y", where, schema, positive, discover)
    else:
        labels = no_labels(len(X), schema.labels, positive)
    names = tuple(f"x{k + 1}" for k in range(d))

    def column(name: str) -> Column:
        if name not in names:
            raise RequestError(f"{path} has no column {name!r}; its columns are x1 to x{d}")
        return column_of_numbers(X[:, names.index(name)])

    return Source(
        name=path.name,
        y=labels.y,
        features=names,
        rows=lambda which: X[which],
        column=column,
        where=where,
        schema=replace(schema, labels=labels.values, features=d),
        dependent=labels.dependent,
    )


def check_finite(X: Matrix, where: Callable[[int], str]) -> None:
    """Refuse numbers that are not finite, each with its row and column.

    Raises
    ------
    DataError
        If there is one.
    """
    bad = np.argwhere(~np.isfinite(X))
    if bad.size:
        raise DataError(
            f"{where(row)}, column x{k + 1}: {X[row, k]:g} is not finite; remove the row or fill it in"
            for row, k in bad.tolist()
        )


def arrays_of(path: Path, labelled: bool) -> tuple[Matrix, np.ndarray[Any, Any]]:
    """X (n, d) and y (n,) of an npz file, unchecked but for keys, types and shapes; errors are those of `read_npz`."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise zipfile.BadZipFile("no zip archive")
        with np.load(path, allow_pickle=False) as archive:
            if not ({"X", "y"} if labelled else {"X"}) <= set(archive.files):
                keys, wanted = ", ".join(archive.files) or "none", "arrays X and y" if labelled else "array X"
                raise DataError(f"{path} must hold the {wanted}, its keys are: {keys}")
            X = archive["X"]
            y = archive["y"] if labelled else np.zeros(len(X) if X.ndim else 0)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is not a sound npz file ({error}): store it anew with numpy.savez") from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or 'it is cut off'}") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}; X must be numeric, y numbers or text, without objects") from None
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"{path}: X must be a numeric (n, d) array, got {X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiubU":
        raise DataError(f"{path}: y must be {X.shape[0]} numbers or texts, got {y.dtype} of shape {y.shape}")
    if 0 in X.shape:
        raise RequestError(f"{path}: X of shape {X.shape} is empty: give at least one record and one feature")
    if y.dtype.kind == "b":
        y = y.astype(np.int8)
    return np.asarray(X, dtype=np.float64), y
