"""Data frames of a caller, as the tables that csv files would be; they are read through pandas (extra ``frames``)."""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from msgspec.structs import replace

from admmnet.data.columns import RawColumn, RawTable, column_of, fault_of_names, listed
from admmnet.errors import RequestError
from admmnet.types import Matrix

SPEAKERS = ("to_pandas", "__dataframe__", "__arrow_c_stream__")
"""What frames and series of other libraries have, one of them at least."""
DATES = (datetime.date, datetime.time, datetime.timedelta)
_DATES = "{} holds dates or times: make a number of it, such as days since a public date, or drop it"


def to_pandas(value: Any) -> Any:
    """Frame or series of pandas for what speaks for one, of any library; None for anything else.

    A RequestError says that pandas is missing, or that the other library cannot hand its frame over.
    """
    home = type(value).__module__.partition(".")[0]
    if home != "pandas" and (isinstance(value, type) or not any(hasattr(value, word) for word in SPEAKERS)):
        return None
    try:
        import pandas as pd
    except ImportError:
        raise RequestError(
            f"a {type(value).__name__} of {home} is read through pandas: pip install 'admmnet[frames]'"
        ) from None
    try:
        if home == "pandas":
            found = value
        elif hasattr(value, "to_pandas"):
            found = value.to_pandas()
        elif hasattr(value, "__arrow_c_stream__"):
            import pyarrow

            found = pyarrow.table(value).to_pandas()
        else:
            with warnings.catch_warnings():  # of its going: pandas 4 has none
                warnings.simplefilter("ignore")
                found = pd.api.interchange.from_dataframe(value)
    except Exception as error:
        raise RequestError(
            f"a {type(value).__name__} of {home} cannot be handed over to pandas ({type(error).__name__}): make a "
            "pandas.DataFrame of it"
        ) from None
    return found if isinstance(found, pd.DataFrame | pd.Series) else None


def names_of_columns(frame: Any, prefix: str = "") -> tuple[str, ...]:
    """Names of a pandas frame's columns as texts, each a different one; else a RequestError."""
    if frame.columns.nlevels > 1:
        raise RequestError(
            f"{prefix}the frame's columns have {frame.columns.nlevels} levels of names: give every column one name"
        )
    names = tuple(str(name).strip() for name in frame.columns)
    for k, name in enumerate(names):
        if name.encode(errors="ignore").decode() != name:  # half of a surrogate pair cannot be written
            raise RequestError(f"{prefix}the name of column {k}, {name!a}, is no Unicode text: rename it")
    if (fault := fault_of_names(names)) is not None:
        raise RequestError(f"{prefix}the frame has {fault}: every column needs a name of its own")
    return names


def frame_table(frame: Any, prefix: str, origin: str) -> RawTable:
    """A pandas frame as the table that a csv file would be: texts, "" where a cell is missing.

    A RequestError says that it has no records or no names, and, where a column is read, that it holds dates, complex
    numbers, or objects that are neither text nor number.
    """
    names = names_of_columns(frame, prefix)
    if 0 in frame.shape:
        raise RequestError(f"{prefix}the frame of shape {frame.shape} is empty: give at least one record")
    place = {name: k for k, name in enumerate(names)}

    @cache
    def read(name: str) -> RawColumn:
        return text_of_column(frame.iloc[:, place[name]], f"{prefix}column {name!r}")

    return RawTable(names, len(frame), read, lambda row: f"{prefix}row {row} (the first is 0)", origin)


def kinds_of(frame: Any) -> dict[str, str]:
    """Kind of each column of a pandas frame by its type: ``numeric``, or ``categorical`` of all that is no number."""
    types = zip(names_of_columns(frame), frame.dtypes, strict=True)
    return {name: "numeric" if getattr(dtype, "kind", "O") in "fiu" else "categorical" for name, dtype in types}


def numbers_of(frame: Any, prefix: str) -> tuple[tuple[str, ...], Matrix]:
    """Names and numbers (n, d) of a pandas frame, nan where a cell is missing; a RequestError if it holds others."""
    if frame.ndim != 2:
        raise RequestError(f"{prefix}X is a series: give a frame, such as X.to_frame()")
    names = names_of_columns(frame, prefix)
    kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
    others = [name for name, kind in zip(names, kinds, strict=True) if kind not in "fiub"]
    if others:
        raise RequestError(
            f"{prefix}X has columns that are no numbers, {listed(others, 4)}: give the whole frame with its label "
            "column and a schema: run(data=frame, label=NAME, schema=FILE)"
        )
    return names, frame.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def text_of_column(series: Any, what: str) -> RawColumn:
    """Texts of a pandas series; a RequestError if it holds what no csv file holds. ``what`` says where."""
    import pandas as pd

    kind = getattr(series.dtype, "kind", "O")
    if kind in "mM" or isinstance(series.dtype, pd.PeriodDtype):
        raise RequestError(_DATES.format(what))
    if kind == "c":
        raise RequestError(f"{what} holds complex numbers: make two columns of them, real and imaginary")
    if series.dtype == object:
        missing = series.isna().to_numpy()
        return column_of_cells([None if gone else v for v, gone in zip(series.tolist(), missing, strict=True)], what)
    codes, found = pd.factorize(series)
    levels = column_of_cells([*found.tolist(), None], what)  # the last for missing cells
    column = levels.codes[codes]  # -1 is the last
    return replace(levels, codes=column.astype(np.int32)).taken(np.arange(len(column)))


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
        raise RequestError(_DATES.format(what))
    raise RequestError(f"{what} holds a {type(value).__name__}: texts and numbers alone are read; drop or convert it")
