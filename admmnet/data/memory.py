"""Frames and arrays of a caller, as the tables that csv files would be; frames of any library, by narwhals."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from msgspec.structs import replace

from admmnet.data.table import (
    RawColumn,
    RawTable,
    check_finite,
    column_of,
    column_of_numbers,
    fault_of_names,
    listed,
    numbered,
    refuse,
    table_of_numbers,
)
from admmnet.errors import RequestError, article, short
from admmnet.types import Matrix

DATES = (datetime.date, datetime.time, datetime.timedelta)
PLAIN_HOMES = "builtins", "numpy", "scipy", "pathlib", "types"
"""Packages whose values are no frames."""


def frame_of(value: Any) -> Any:
    """Frame or series of narwhals for one of any library whose rows are in memory; None for anything else.

    A RequestError says that columns of a frame have no names of their own.
    """
    if type(value).__module__.partition(".")[0] in PLAIN_HOMES:
        return None
    import narwhals as nw  # imported here: other records do without it

    try:
        return nw.from_native(value, eager_only=True, allow_series=True)
    except nw.exceptions.NarwhalsError as error:
        names = list(getattr(value, "columns", ()))
        twice = next((name for name in names if names.count(name) > 1), None)
        fault = " ".join(str(error).split()) if twice is None else f"it has column {twice!r} twice"
        raise RequestError(f"the frame: {fault}: every column needs a name of its own") from None
    except TypeError:
        if isinstance(value, type) or not hasattr(value, "__arrow_c_stream__"):
            return None
    try:
        return nw.from_arrow(value, backend="pyarrow")
    except ImportError:
        raise RequestError("Arrow's stream is read by pyarrow: pip install 'admmnet[frames]'") from None


def with_column(frame: Any, name: str, values: Any) -> Any:
    """A frame with one column more."""
    own = type(frame).from_dict({name: np.asarray(values).tolist()}, backend=frame.implementation)
    return frame.with_columns(own.get_column(name))


def names_of_columns(frame: Any, prefix: str = "") -> tuple[str, ...]:
    """Names of a frame's columns as texts, each a different one; else a RequestError."""
    if levels := max((len(name) for name in frame.columns if isinstance(name, tuple)), default=0):
        raise RequestError(f"{prefix}the frame's columns have {levels} levels of names: give every column one name")
    names = tuple(str(name).strip() for name in frame.columns)
    for k, name in enumerate(names):
        if name.encode(errors="ignore").decode() != name:  # half of a surrogate pair cannot be written
            raise RequestError(f"{prefix}the name of column {k}, {name!a}, is no Unicode text: rename it")
    if (fault := fault_of_names(names)) is not None:
        raise RequestError(f"{prefix}the frame has {fault}: every column needs a name of its own")
    return names


def frame_table(frame: Any, prefix: str) -> RawTable:
    """A frame as the table that a csv file would be: texts, "" where a cell is missing.

    A RequestError says that it has no records or no names, and, where a column is read, that it holds what is neither
    text nor number.
    """
    frame = frame_of(frame)
    names = names_of_columns(frame, prefix)
    if 0 in frame.shape:
        raise RequestError(f"{prefix}the frame of shape {frame.shape} is empty: give at least one record")
    place = dict(zip(names, frame.columns, strict=True))

    @cache
    def read(name: str) -> RawColumn:
        return text_of_column(frame.get_column(place[name]), f"{prefix}column {name!r}")

    return RawTable(names, len(frame), read, lambda row: f"{prefix}row {row} (the first is 0)", "the frame")


def kinds_of(frame: Any) -> dict[str, str]:
    """Kind of each column of a frame by its type: ``numeric``, or ``categorical`` of all that is no number."""
    frame = frame_of(frame)
    kinds = {}
    for name, column in zip(names_of_columns(frame), map(frame.get_column, frame.columns), strict=True):
        numeric = column.dtype.is_numeric()
        if str(column.dtype) == "Unknown":  # its own library says so
            own = column.to_native().dtype
            numeric = getattr(getattr(own, "subtype", own), "kind", "O") in "iuf"
        kinds[name] = "numeric" if numeric else "categorical"
    return kinds


def numbers_of(frame: Any, prefix: str) -> tuple[tuple[str, ...], Matrix]:
    """Names and numbers (n, d) of a frame, nan where a cell is missing; a RequestError if it holds others."""
    import narwhals as nw

    if isinstance(frame, nw.Series):
        raise RequestError(f"{prefix}X is a series: give a frame, such as X.to_frame()")
    names, columns = names_of_columns(frame, prefix), list(map(frame.get_column, frame.columns))
    fits = [column.dtype.is_numeric() or column.dtype == nw.Boolean for column in columns]
    if others := [name for name, fit in zip(names, fits, strict=True) if not fit]:
        raise RequestError(
            f"{prefix}X has columns that are no numbers, {listed(others, 4)}: give the whole frame with its label "
            "column and a schema: run(data=frame, label=NAME, schema=FILE)"
        )
    return names, np.column_stack([column.cast(nw.Float64).to_numpy().astype(np.float64) for column in columns])


def text_of_column(series: Any, what: str) -> RawColumn:
    """Texts of a series; a RequestError if it holds what no csv file holds. ``what`` says where."""
    cells = zip(series.to_list(), series.is_null().to_list(), strict=True)
    return column_of_cells([None if gone else value for value, gone in cells], what)


def column_of_cells(values: Sequence[Any], what: str) -> RawColumn:
    """Column of cells, by ``text_of``; it says whether they are numbers, or texts of such."""
    texts = [text_of(value, what) for value in values]
    words = any(isinstance(value, str) for value in values)
    # the text of a whole number is the same in every spelling
    mixed = words and any("." in t for v, t in zip(values, texts, strict=True) if not isinstance(v, str))
    return replace(column_of(texts), typed=None if mixed else not words)


def text_of(value: Any, what: str) -> str:
    """Text of one cell, as a csv file would have it; "" for a missing one.

    A RequestError says that it is neither text, truth value nor number, and has its type alone.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real | Decimal):
        number = float(value)
        if math.isnan(number):
            return ""
        return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)
    if isinstance(value, DATES):
        raise RequestError(
            f"{what} holds dates or times: make a number of it, such as days since a public date, or drop it"
        )
    raise RequestError(f"{what} holds a {type(value).__name__}: texts and numbers alone are read; drop or convert it")


NUMBERS = "fiub"
"""Kinds of numpy types that are real numbers."""
_KINDS = {
    "c": "complex numbers: give real ones, such as X.real and X.imag side by side",
    "M": "dates: give numbers, such as days since a public date",
    "m": "durations: give numbers, such as X / np.timedelta64(1, 'D')",
    "U": "text: numbers are needed; a data frame, run(data=frame, label=NAME), may have columns of text",
    "S": "bytes: numbers are needed",
    "O": "objects: numbers are needed; X.astype(float) makes them, where every entry is one",
    "V": "records with fields: give a data frame, run(data=frame, label=NAME)",
}


def table_of(X: Any, y: Any, prefix: str, *, finite: bool, labelled: bool = True) -> RawTable:
    """Rows and labels that a caller gave as the table that a file of numbers would be.

    X is an array, sparse matrix or frame of numbers (n, d), and y has n numbers, truth values (0 and 1 then) or texts.
    A RequestError, which starts with ``prefix``, says that one is not; a DataError names rows that are not ``finite``,
    where they must be.
    """
    names, rows = rows_of(X, prefix)
    n, d = rows.shape
    if 0 in rows.shape:
        raise RequestError(f"{prefix}X of shape {rows.shape} is empty: give at least one record and one feature")
    names = names or numbered(d)

    def where(row: int) -> str:
        return f"{prefix}row {row} (the first is 0)"

    if finite:
        check_finite(rows, names, where)
    label = "y"
    while label in names:
        label += "_"
    labels = _labels(y, n, prefix) if labelled else column_of_numbers(np.zeros(n))

    return table_of_numbers(rows, names, label, lambda: labels, where, "X")


def array_of(value: Any, word: str, prefix: str) -> np.ndarray[Any, Any]:
    """Make an array of what a caller calls one by the name ``word``; a RequestError says why it is none."""
    kind = type(value).__name__
    if isinstance(value, str | bytes | os.PathLike):
        raise RequestError(
            f"{prefix}{word} = {short(os.fspath(value))}: {word} takes an array; a file goes to data=PATH"
        )
    if not hasattr(value, "__array__") and not isinstance(value, Sequence):
        raise RequestError(
            f"{prefix}{word} is {article(kind)}: give an array, or a list of rows such as list({word}) makes"
        )
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise RequestError(
            f"{prefix}{word} is masked, and masks are not read: fill in the masked entries, {word}.filled(0)"
        )
    try:
        return np.asarray(value)
    except Exception as error:  # of rows of different lengths, or of another library's arrays
        if isinstance(value, Sequence):
            raise RequestError(
                f"{prefix}{word} is a list of rows of different lengths: every record needs the same features"
            ) from None
        raise RequestError(
            f"{prefix}{word} is {article(kind)} that gives numpy no array ({type(error).__name__}): give one, such as "
            f"{word}.detach().cpu().numpy() of a tensor"
        ) from None


def rows_of(X: Any, prefix: str) -> tuple[tuple[str, ...], Any]:
    """Names, where there are any, and rows (n, d) as float64, a copy: dense or CSR; numbers may be not finite.

    A RequestError says why X is no table of numbers.
    """
    if X is None:
        raise RequestError(f"{prefix}X is missing: labels y go with rows X")
    sparse = hasattr(X, "tocsr")
    if not sparse and (frame := frame_of(X)) is not None:
        return numbers_of(frame, prefix)
    rows = X if sparse else array_of(X, "X", prefix)
    if len(rows.shape) != 2:
        remedy = "X.reshape(-1, 1) if there is one feature" if len(rows.shape) == 1 else "X.reshape(len(X), -1)"
        raise RequestError(f"{prefix}X has shape {rows.shape}: a table (n, d), a row a record, is needed; {remedy}")
    if rows.dtype.kind not in NUMBERS:
        raise RequestError(f"{prefix}X holds {_KINDS.get(rows.dtype.kind, 'no numbers')}")
    return (), _csr(rows, prefix) if sparse else rows.astype(np.float64)


def _csr(X: Any, prefix: str) -> Any:
    """A CSR copy of a sparse table; entries that it has twice are added up as float64."""
    from scipy.sparse import csr_array

    try:
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)
        found = X.astype(np.float64).tocsr()
        # a new one: what X says of its own order may have become untrue
        rows = csr_array((found.data, found.indices, found.indptr), shape=X.shape, copy=True)
        rows.check_format(full_check=True)
        rows.sum_duplicates()
    except (ValueError, IndexError):
        raise RequestError(
            f"{prefix}X is a damaged sparse matrix: its indices must be whole numbers inside its shape, {X.shape}"
        ) from None
    return rows


def _labels(y: Any, n: int, prefix: str) -> RawColumn:
    """Labels as the texts that a file would have; one that is missing is no value, and none but one a row is taken."""
    if y is None:
        raise RequestError(f"{prefix}y is missing: rows X go with labels y, one a row")
    series = frame_of(y)
    if series is not None and len(series.shape) == 2:
        raise RequestError(f"{prefix}y is a frame: give one column, such as y.iloc[:, 0]")
    values = array_of(y, "y", prefix) if series is None else series
    if values.shape != (n,):
        remedy = "give one label a row"
        if len(values.shape) == 2 and len(values) == n:
            remedy = "y.ravel() has it" if values.shape[1] == 1 else "of one column a class y.argmax(axis=1) has it"
        raise RequestError(f"{prefix}y has shape {values.shape}, X has {n} rows: shape ({n},) is needed; {remedy}")
    if series is not None:
        column = text_of_column(series, f"{prefix}y")
        truths = {"True": "1", "False": "0"} if str(series.dtype) == "Boolean" else {}
        column = replace(column, levels=tuple(truths.get(text, text) for text in column.levels))
    elif values.dtype.kind in "OU":
        column = column_of_cells(values.tolist(), f"{prefix}y")
    elif values.dtype.kind in NUMBERS:
        numbers = values.astype(np.float64)
        refuse(
            f"{prefix}y[{row}] is {numbers[row]:g}: every record needs a label"
            for row in np.flatnonzero(~np.isfinite(numbers)).tolist()
        )
        return column_of_numbers(numbers)
    else:
        what = _KINDS.get(values.dtype.kind, "no labels").partition(":")[0]
        raise RequestError(f"{prefix}y holds {what}: give numbers or texts")
    empty = [code for code, text in enumerate(column.levels) if not text]
    refuse(
        f"{prefix}row {row} (the first is 0): label '' of y is missing, every record needs one"
        for row in np.flatnonzero(np.isin(column.codes, empty)).tolist()
    )
    return column
