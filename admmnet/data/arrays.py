"""Arrays, lists and sparse matrices of a caller, as tables; what is no table of finite numbers is refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from admmnet.data.columns import (
    RawColumn,
    RawTable,
    check_finite,
    column_of,
    column_of_numbers,
    numbered,
    refuse,
    table_of_numbers,
)
from admmnet.data.frames import column_of_cells, numbers_of, text_of_column, to_pandas
from admmnet.errors import RequestError, article, short

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


def table_of(X: Any, y: Any, prefix: str, origin: str, *, finite: bool = True, labelled: bool = True) -> RawTable:
    """Rows and labels that a caller gave as the table that a file of numbers would be; ``origin`` is its name.

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

    return table_of_numbers(rows, names, label, lambda: labels, where, origin)


def array_of(value: Any, word: str, prefix: str = "") -> np.ndarray[Any, Any]:
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


def rows_of(X: Any, prefix: str = "") -> tuple[tuple[str, ...], Any]:
    """Names, where there are any, and rows (n, d) as float64, a copy: dense or CSR; numbers may be not finite.

    A RequestError says why X is no table of numbers.
    """
    if X is None:
        raise RequestError(f"{prefix}X is missing: labels y go with rows X")
    if hasattr(X, "tocsr"):
        _check_kind(X.dtype.kind, X.shape, prefix)
        return (), _csr(X, prefix)
    if (frame := to_pandas(X)) is not None:
        return numbers_of(frame, prefix)
    array = array_of(X, "X", prefix)
    _check_kind(array.dtype.kind, array.shape, prefix)
    return (), array.astype(np.float64)


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


def _check_kind(kind: str, shape: tuple[int, ...], prefix: str) -> None:
    if len(shape) != 2:
        remedy = "X.reshape(-1, 1) if there is one feature" if len(shape) == 1 else "X.reshape(len(X), -1)"
        raise RequestError(f"{prefix}X has shape {shape}: a table (n, d), a row a record, is needed; {remedy}")
    if kind not in NUMBERS:
        raise RequestError(f"{prefix}X holds {_KINDS.get(kind, 'no numbers')}")


def _labels(y: Any, n: int, prefix: str) -> RawColumn:
    """Labels as the texts that a file would have."""
    if y is None:
        raise RequestError(f"{prefix}y is missing: rows X go with labels y, one a row")
    series = to_pandas(y)
    if series is not None and series.ndim == 1:
        check_length((len(series),), n, prefix)
        column = text_of_column(series, f"{prefix}y")
        truths = {"True": "1", "False": "0"}
        column = column.mapped(lambda text: truths.get(text, text)) if series.dtype == bool else column
        return _labelled(column, prefix)
    if series is not None:
        raise RequestError(f"{prefix}y is a frame: give one column, such as y.iloc[:, 0]")
    array = array_of(y, "y", prefix)
    check_length(array.shape, n, prefix)
    if array.dtype.kind == "O":
        return _labelled(column_of_cells(array.tolist(), f"{prefix}y"), prefix)
    if array.dtype.kind == "U":
        return _labelled(column_of([text.strip() for text in array.tolist()]), prefix)
    if array.dtype.kind not in NUMBERS:
        raise RequestError(
            f"{prefix}y holds {_KINDS.get(array.dtype.kind, 'no labels').partition(':')[0]}: give numbers or texts"
        )
    numbers = array.astype(np.float64)
    refuse(
        f"{prefix}y[{row}] is {numbers[row]:g}: every record needs a label"
        for row in np.flatnonzero(~np.isfinite(numbers)).tolist()
    )
    return column_of_numbers(numbers)


def _labelled(column: RawColumn, prefix: str) -> RawColumn:
    """Refuse records without a label: a missing one is no value."""
    empty = [code for code, text in enumerate(column.levels) if not text]
    refuse(
        f"{prefix}row {row} (the first is 0): label '' of y is missing, every record needs one"
        for row in np.flatnonzero(np.isin(column.codes, empty)).tolist()
    )
    return column


def check_length(shape: tuple[int, ...], n: int, prefix: str = "") -> None:
    """Refuse labels y that are not one a row of X."""
    if shape == (n,):
        return
    remedy = "give one label a row"
    if len(shape) == 2 and shape[0] == n:
        remedy = "y.ravel() has it" if shape[1] == 1 else "of one column a class y.argmax(axis=1) has it"
    raise RequestError(f"{prefix}y has shape {shape}, X has {n} rows: shape ({n},) is needed; {remedy}")
