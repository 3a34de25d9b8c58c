"""Attribute-relation files (ARFF), the form of Weka and OpenML: columns are declared above the records."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from admmnet.data.columns import Column, Table, column_of, refuse
from admmnet.data.files import read_lines
from admmnet.errors import DataError, RequestError

_ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)+'|\"(?:[^\"\\]|\\.)+\"|[^'\"\s]\S*)\s+\S.*", re.IGNORECASE)


def read_arff(path: Path) -> Table:
    """Read a dense ARFF file; a question mark is a missing value.

    What the head says of the values is not used: who wrote it may have read it from the records.
    """
    lines = read_lines(path)
    data = next((k for k, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if data is None:
        raise DataError(f"{path} has no line @data: give an ARFF file")
    heads = [line.strip() for line in lines[:data] if line.strip().lower().startswith("@attribute")]
    names = tuple(_name(path, head) for head in heads)
    if len(set(names)) < len(names) or not names:
        raise DataError(f"{path} declares {len(names)} attributes, {len(set(names))} of them different: mend it")
    at = [k for k, line in enumerate(lines) if k > data and line.strip() and not line.lstrip().startswith("%")]
    if not at:
        raise RequestError(f"{path} has a header and no records: give a file with at least one record")
    if lines[at[0]].lstrip().startswith("{"):
        raise DataError(f"{path}, line {at[0] + 1}: a sparse ARFF file is not read; store it as .libsvm")
    records = [_cells(path, k, lines[k]) for k in at]
    refuse(
        f"{path}, line {k + 1}: {len(cells)} values, expected {len(names)}; mend or remove the line"
        for k, cells in zip(at, records, strict=True)
        if len(cells) != len(names)
    )

    @cache
    def read(name: str) -> Column:
        place = names.index(name)
        return column_of([cells[place].strip() for cells in records])

    return Table(names, len(records), read, lambda row: f"{path}, line {at[row] + 1}", str(path))


def _name(path: Path, head: str) -> str:
    found = _ATTRIBUTE.fullmatch(head)
    if found is None:
        raise DataError(f"{path}: {head[:40]!r} is no attribute with a name and a type; mend it")
    name = found[1]
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name[0] in "'\"" else name


def _cells(path: Path, line: int, text: str) -> Sequence[str]:
    """Cells of a record; of both quotes the one that comes first is meant."""
    quote = min("'\"", key=lambda mark: text.find(mark) % (len(text) + 1))
    try:
        (cells,) = csv.reader([text], quotechar=quote, escapechar="\\", skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise DataError(f"{path}, line {line + 1}: {error}; mend the quotes") from None
    return cells
