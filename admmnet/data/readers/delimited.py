"""Text of one record a line: csv with a header, delimited cells without one, and plain numbers."""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from admmnet.data.columns import (
    Codes,
    Index,
    RawColumn,
    RawTable,
    Refuse,
    Where,
    column_of,
    column_of_numbers,
    fault_of_names,
    listed,
    numbered,
    refuse,
    table_of_numbers,
)
from admmnet.data.files import read_blocks, read_lines
from admmnet.data.values import DATE, PLAIN, Spelling
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix

_NUMBER = re.compile(r"[-+]?(\d[\d.,]*|[.,]\d+)(e[-+]?\d+)?", re.IGNORECASE)

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Separators that are recognised, with words for them."""


class Form(NamedTuple):
    """How a text file of columns is written."""

    separator: str = ","
    header: bool | None = None  # whether the first line names the columns; None: it must, and look so
    spelling: Spelling = PLAIN


COMMAS = Form()
"""The usual form."""


class Cells(NamedTuple):
    """The cells of a text file of columns."""

    names: tuple[str, ...]
    texts: list[str]  # row by row, as they are written
    where: Where

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.texts) // len(self.names)

    def records(self) -> Iterator[list[str]]:
        """Cells of every record."""
        width = len(self.names)
        return (self.texts[width * row : width * (row + 1)] for row in range(self.rows))

    def without(self, rows: Container[int]) -> Cells:
        """Cells of the other rows."""
        kept = [row for row in range(self.rows) if row not in rows]
        texts = [text for row, record in enumerate(self.records()) if row not in rows for text in record]
        return Cells(self.names, texts, lambda row: self.where(kept[row]))


def read_csv(path: Path, refuse: Refuse = refuse, form: Form = COMMAS) -> RawTable:
    """As ``read_cells``, as a table of columns without blanks around their texts."""
    return table_of(read_cells(path, refuse, form), form, str(path))


def table_of(found: Cells, form: Form, origin: str) -> RawTable:
    """Table of cells."""
    names, cells, where = found
    place = {name: k for k, name in enumerate(names)}

    @cache
    def read(name: str) -> RawColumn:
        return column_of([cell.strip() for cell in cells[place[name] :: len(names)]])

    return RawTable(names, found.rows, read, where, origin, spelling=form.spelling)


def read_cells(path: Path, refuse: Refuse = refuse, form: Form = COMMAS) -> Cells:
    """Read a file of cells; faults of the header, ragged rows and open quotes name their line.

    Columns of a file without a header are x1, ..., xd. A first line that is written with another separator, or looks
    like a record, is refused unless ``form`` says what it is.
    """
    lines, separator = read_lines(path), form.separator
    _check_separator(path, lines[0], separator)
    if any('"' in line for line in lines):
        starts, records = _quoted(path, lines, separator)
        names = _header(path, records, starts, form)
        good = _even(list(map(len, records)), len(names), lambda row: f"{path}, line {starts[row]}", refuse)
        cells = [cell for row in good for cell in records[row]]
    else:
        starts = list(range(1, len(lines) + 1))
        first = [line.split(separator) for line in lines[:2]]
        names = _header(path, first, starts, form)
        lines = lines[len(lines) - len(starts) :]
        cells, good = _cells(lines, len(names), separator, lambda row: f"{path}, line {starts[row]}", refuse)
    if not cells:
        raise RequestError(f"{path} has a header and no records: give a file with at least one record")
    if form.header is None and _recurs(names, cells):
        raise _no_header(path, names, "nothing that does not occur again below")
    return Cells(names, cells, lambda row: f"{path}, line {starts[good[row]]}")


def form_of_text(path: Path, separator: str | None = None) -> tuple[str, bool]:
    """Separator of a text file of columns, unless it is given, and whether its first line names them."""
    lines = read_lines(path)
    separator = separator or _most(lines[0])
    _check_separator(path, lines[0], separator)
    _, (first, *records) = _quoted(path, lines, separator)
    if _looks_like_record(first, *records[:1]) is not None:
        return separator, False
    return separator, not _recurs([name.strip() for name in first], [cell for each in records for cell in each])


def header_of(path: Path, separator: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Separator of a text file of columns, and the names in its first line; nothing else of it is used."""
    line = next(read_blocks(path))[0]
    separator = separator or _most(line)
    starts, records = _quoted(path, [line], separator)
    return separator, _header(path, records, starts, Form(separator))


def read_delimited(paths: Sequence[Path], names: Sequence[str], separator: str, skip: tuple[str, ...] = ()) -> RawTable:
    """Read files of categories and short numbers, without quotes or a header, whose records follow each other.

    Every distinct cell of a column is kept once, and four bytes a cell. Lines at the top that begin with one of `skip`
    are no records; empty ones among them are none either.
    """

    def blocks(path: Path, indices: list[Index[str]]) -> Iterator[tuple[int, Codes]]:
        begun = False
        for above, lines in _numbered(path):
            top = 0
            while skip and not begun and top < len(lines) and (not lines[top].strip() or lines[top].startswith(skip)):
                top += 1
            if top < len(lines):
                begun = True
                yield above + top, _codes(lines[top:], indices, separator, _line_of(path, above + top))

    return _coded(paths, names, blocks)


def read_chosen(paths: Sequence[Path], names: Sequence[str]) -> RawTable:
    """Read some columns of csv files with a header, whose records follow each other and stand in a line each.

    Of wide files the other columns take no memory.
    """

    def blocks(path: Path, indices: list[Index[str]]) -> Iterator[tuple[int, Codes]]:
        places: list[int] = []
        for above, lines in _numbered(path):
            reader = csv.reader(lines, strict=False)
            try:
                records = list(reader)
            except csv.Error as error:
                raise DataError(f"{path}, line {above + reader.line_num}: {error}; mend the line") from None
            if not places:
                header, records = [cell.strip() for cell in records[0]], records[1:]
                missing = [name for name in names if name not in header]
                if missing:
                    raise DataError(f"{path} lacks the columns {listed(missing)}: get the original file")
                places, width = [header.index(name) for name in names], len(header)
                above += 1
            _even(list(map(len, records)), width, _line_of(path, above), refuse)
            codes = [[index[record[k]] for record in records] for index, k in zip(indices, places, strict=True)]
            yield above, np.array(codes, dtype=np.int32)

    return _coded(paths, names, blocks)


def _coded(
    paths: Sequence[Path], names: Sequence[str], blocks: Callable[[Path, list[Index[str]]], Iterator[tuple[int, Codes]]]
) -> RawTable:
    """Table of the coded cells of files, which come in blocks with the number of lines above each."""
    indices = [Index[str]() for _ in names]
    found: list[Codes] = []
    starts, lines_before = [0], []  # of each file: its first row, and the lines above its first record
    for path in paths:
        own = list(blocks(path, indices))
        if not own:
            raise RequestError(f"{path} holds no record: get the original file")
        lines_before.append(own[0][0])
        found += [codes for _, codes in own]
        starts.append(sum(codes.shape[1] for codes in found))
    whole = np.concatenate(found, axis=1)

    def read(name: str) -> RawColumn:
        k = list(names).index(name)
        return RawColumn(tuple(indices[k]), whole[k]).mapped(str.strip)

    def where(row: int) -> str:
        part = bisect_right(starts, row) - 1
        return _line_of(paths[part], lines_before[part])(row - starts[part])

    parts = tuple(np.diff(starts).tolist()) if len(paths) > 1 else ()
    return RawTable(tuple(names), whole.shape[1], read, where, str(paths[0]), parts=parts)


def read_numbers(paths: Sequence[Path], names: Sequence[str]) -> RawTable:
    """Read a file of comma separated finite numbers, of which the first is the label and all others are features."""
    (path,) = paths
    blocks: list[Matrix] = []
    for start, lines in _numbered(path):
        try:
            block = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            block = np.zeros((0, 0))
        if block.shape != (len(lines), len(names)) or not np.isfinite(block).all():
            raise _fault(path, start, lines, len(names))
        blocks.append(block)
    n = sum(len(block) for block in blocks)
    numbers = np.empty((n, len(names)))
    while blocks:  # from the end, each let go once it is copied
        block = blocks.pop()
        n -= len(block)
        numbers[n : n + len(block)] = block

    labels = partial(column_of_numbers, numbers[:, 0])
    return table_of_numbers(numbers[:, 1:], tuple(names[1:]), names[0], labels, _line_of(path, 0), str(path))


def _codes(lines: list[str], indices: list[Index[str]], separator: str, where: Where) -> Codes:
    """Codes of the cells of some lines, shape (columns, lines); equal lines are cut into cells once."""
    distinct = Index[str]()
    which = np.fromiter(map(distinct.__getitem__, lines), np.int32, len(lines))
    width = len(indices)
    cells, _ = _cells(list(distinct), width, separator, lambda code: where(int(np.argmax(which == code))), refuse)
    codes = np.empty((width, len(distinct)), dtype=np.int32)
    for k, index in enumerate(indices):
        codes[k] = np.fromiter(map(index.__getitem__, cells[k::width]), np.int32, len(distinct))
    return codes[:, which]


def _cells(
    lines: Sequence[str], width: int, separator: str, where: Where, refuse: Refuse
) -> tuple[list[str], Sequence[int]]:
    """Cells of lines without quotes, row by row, and the rows that have `width` of them."""
    good = _even([line.count(separator) + 1 if line else 0 for line in lines], width, where, refuse)
    lines = lines if len(good) == len(lines) else [lines[row] for row in good]
    return (separator.join(lines).split(separator) if lines else []), good


def _even(counts: Sequence[int], width: int, where: Where, refuse: Refuse) -> Sequence[int]:
    """Rows that have `width` cells; the others are refused."""
    ragged = [row for row, count in enumerate(counts) if count != width]
    refuse(f"{where(row)}: {counts[row]} values, expected {width}; mend or remove the line" for row in ragged)
    return [row for row, count in enumerate(counts) if count == width] if ragged else range(len(counts))


def usual_separator(path: Path) -> str:
    """Separator of a text file that declares none: its ending says so."""
    return "\t" if path.name.endswith((".tsv", ".tsv.gz")) else ","


def _most(line: str) -> str:
    """Separator that a line has most often; a comma where it has none."""
    outside = re.sub(r'"[^"]*"', "", line)
    return max(SEPARATORS, key=outside.count)


def _check_separator(path: Path, line: str, separator: str) -> None:
    if re.fullmatch(r"sep=.", line.strip()):
        raise DataError(f"{path}, line 1 is {line.strip()!r}, which only spreadsheets read: remove that line")
    found = _most(line)
    if separator not in line and found in line:
        flag = "tab" if found == "\t" else f"'{found}'"
        words = SEPARATORS.get(separator, f"{separator!r}")
        raise DataError(
            f"{path}, line 1 has no {words} but {line.count(found)} {SEPARATORS[found]}: give --separator {flag}",
            reason="has cells that another --separator divides",
        )


def _quoted(path: Path, lines: Iterable[str], separator: str) -> tuple[list[int], list[list[str]]]:
    """Line on which every record starts, and the cells of all."""
    reader = csv.reader(io.StringIO("\n".join(lines)), strict=True, delimiter=separator)
    starts = [1]
    records = []
    try:
        for record in reader:
            records.append(record)
            starts.append(reader.line_num + 1)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; mend the quotes") from None
    return starts[:-1], records


def _header(path: Path, records: list[list[str]], starts: list[int], form: Form) -> tuple[str, ...]:
    """Names of the columns; a first line that has them is taken from ``records`` and ``starts``."""
    if form.header is False:
        return numbered(len(records[0]))
    if form.header is None and (fault := _looks_like_record(*records[:2])) is not None:
        raise _no_header(path, records[0], fault)
    starts.pop(0)
    names = tuple(field.strip() for field in records.pop(0))
    if (fault := fault_of_names(names)) is not None:
        hint = "" if names[0] else " (row numbers of pandas? write the file with index=False)"
        raise DataError(f"{path}, line 1: the header holds {fault}{hint}; every column needs a name of its own")
    return names


def _no_header(path: Path, first: Sequence[str], what: str) -> DataError:
    return DataError(
        f"{path}, line 1 looks like a record, as it holds {what}: write a line of column names above it, or"
        " declare header = false in [data.schema] (columns x1, x2, ...; `admmnet data draft` does); the line has"
        f" {listed(first, 6)}",
        reason="has a first line that names no columns",
    )


def _looks_like_record(first: Sequence[str], second: Sequence[str] = ()) -> str | None:
    """What in a first line names no column: numbers, but for counts and years, and dates; None if there is nothing."""
    cells = [cell.strip() for cell in first]
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    start = int(numbers[0]) if numbers and numbers[0].isdecimal() else -1
    counted = [str(start + k) for k in range(len(numbers))]
    if numbers and (numbers != counted or 1 < start < 1900 or start > 2100):
        return f"the number {numbers[0]}"
    dates = [cell for cell in cells if DATE.fullmatch(cell)]
    if dates:
        return f"the date {dates[0]}"
    return "what line 2 holds" if len(cells) > 1 and list(first) == list(second) else None


def _recurs(names: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether every name occurs in its own column, as the cells of a record without numbers do."""
    return len(names) > 1 and all(name in cells[k :: len(names)] for k, name in enumerate(names))


def _numbered(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Blocks of lines, each with the number of lines above it."""
    start = 0
    for lines in read_blocks(path):
        yield start, lines
        start += len(lines)


def _line_of(path: Path, above: int) -> Callable[[int], str]:
    return lambda row: f"{path}, line {above + row + 1}"


def _fault(path: Path, start: int, lines: Sequence[str], width: int) -> DataError:
    """Words for the first line of a block that is not `width` finite numbers."""
    where = _line_of(path, start)
    cells, _ = _cells(lines, width, ",", where, refuse)
    for at, cell in enumerate(cells):
        if PLAIN.finite(cell) is None:
            place = f"{where(at // width)}, column {at % width + 1}"
            return DataError(f"{place}: {cell!r} is no finite number; mend or remove the line")
    return DataError(f"{path}, lines {start + 1} to {start + len(lines)}: not {width} numbers a line; mend them")
