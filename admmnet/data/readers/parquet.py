"""Columns of a parquet file, by pyarrow."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from admmnet.data.files import grows, most_unpacked
from admmnet.data.memory import DATES, column_of_cells
from admmnet.data.table import RawColumn, RawTable, fault_of_names
from admmnet.errors import DataError, RequestError

_WORD = 8  # bytes a cell, at least, once it is unpacked


def read_parquet(path: Path) -> RawTable:
    """Read a parquet file; a null is a missing value.

    Numbers, texts, truth values, dates and times become their text; other columns, such as lists, are refused where
    they are used.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise RequestError(
            f"{path} needs pyarrow, which is not installed: pip install 'admmnet[frames]', or store it as csv"
        ) from None
    try:
        file = pq.ParquetFile(path)
        if file.metadata.num_rows * file.metadata.num_columns * _WORD > most_unpacked(path):
            raise grows(path)
        whole = file.read()
    except (pa.ArrowException, OSError) as error:
        why = " ".join(str(error).split())[:200]
        raise DataError(f"{path} is not a sound parquet file ({why}): store it anew") from None
    names = tuple(whole.column_names)
    if (fault := fault_of_names(names)) is not None:
        raise DataError(f"{path} holds {fault}; every column needs a name of its own")
    if not whole.num_rows:
        raise RequestError(f"{path} has no records: give a file with at least one record")

    @cache
    def read(name: str) -> RawColumn:
        column = whole.column(name)
        kind = column.type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise DataError(
                f"{path}, column {name!r} holds {kind}: one number or text a record is wanted; drop the column"
            )
        cells = (str(cell) if isinstance(cell, DATES) else cell for cell in column.to_pylist())
        return column_of_cells(list(cells), f"{path}, column {name!r}")

    return RawTable(names, whole.num_rows, read, lambda row: f"{path}, row {row + 1}", str(path))
