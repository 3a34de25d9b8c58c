"""Text of one record a line: csv with a header, delimited cells without one, and plain numbers."""

from __future__ import annotations

import csv
import io
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from admmnet.data.columns import (
    Codes,
    Column,
    Features,
    Refuse,
    Table,
    Where,
    column_of,
    column_of_numbers,
    refuse,
)
from admmnet.data.files import read_blocks, read_lines
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix


def read_csv(path: Path, refuse: Refuse = refuse) -> Table:
    """Read a csv file with a header line; faults of the header, ragged rows and open quotes name their line."""
    lines = read_lines(path)
    if any('"' in line for line in lines):
        starts, records = _quoted(path, lines)
        names = _header(path, records.pop(0))
        good = _even(list(map(len, records)), len(names), lambda row: f"{path}, line {starts[row]}", refuse)
        cells = [cell for row in good for cell in records[row]]
    else:
        starts = list(range(2, len(lines) + 1))
        names = _header(path, lines.pop(0).split(","))
        cells, good = _cells(lines, len(names), ",", lambda row: f"{path}, line {starts[row]}", refuse)
    if not cells:
        raise RequestError(f"{path} has a header and no records: give a file with at least one record")
    place = {name: k for k, name in enumerate(names)}

    @cache
    def read(name: str) -> Column:
        return column_of([cell.strip() for cell in cells[place[name] :: len(names)]])

    return Table(names, len(good), read, lambda row: f"{path}, line {starts[good[row]]}", str(path))


def read_delimited(
    paths: Sequence[Path], names: Sequence[str], separator: str, skip: tuple[str, ...] = ()
) -> Table:
    """Read files of categories and short numbers, without quotes or a header, whose records follow each other.

    Every distinct cell of a column is kept once, and four bytes a cell. Lines at the top that begin with one of `skip`
    are no records; empty ones among them are none either.
    """
    indices = [_Index() for _ in names]
    blocks: list[Codes] = []
    starts, lines_before = [0], []  # of each file: its first row, and the lines above its first record
    for path in paths:
        first = None
        for above, lines in _numbered(path):
            if first is None:
                top = next((k for k, line in enumerate(lines) if not _no_record(line, skip)), None)
                if top is None:
                    continue
                first, above, lines = above + top, above + top, lines[top:]
            blocks.append(_codes(lines, indices, separator, _line_of(path, above)))
        if first is None:
            raise RequestError(f"{path} holds no record: get the original file")
        lines_before.append(first)
        starts.append(sum(block.shape[1] for block in blocks))
    whole = np.concatenate(blocks, axis=1)

    def read(name: str) -> Column:
        k = list(names).index(name)
        return Column(tuple(indices[k]), whole[k]).mapped(str.strip)

    def where(row: int) -> str:
        part = bisect_right(starts, row) - 1
        return _line_of(paths[part], lines_before[part])(row - starts[part])

    parts = tuple(np.diff(starts).tolist()) if len(paths) > 1 else ()
    return Table(tuple(names), whole.shape[1], read, where, str(paths[0]), parts=parts)


def read_numbers(paths: Sequence[Path], names: Sequence[str]) -> Table:
    """Read a file of comma separated finite numbers, of which the first is the label and all others are features."""
    (path,) = paths
    blocks: list[Matrix] = []
    for start, lines in _numbered(path):
        try:
            block = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            raise _fault(path, start, lines, len(names)) from None
        if block.shape != (len(lines), len(names)) or not np.isfinite(block).all():
            raise _fault(path, start, lines, len(names))
        blocks.append(block)
    n = sum(len(block) for block in blocks)
    numbers = np.empty((n, len(names)))
    while blocks:  # from the end, each let go once it is copied
        block = blocks.pop()
        n -= len(block)
        numbers[n : n + len(block)] = block

    def read(name: str) -> Column:
        return column_of_numbers(numbers[:, list(names).index(name)])

    features = Features(tuple(names[1:]), lambda which: numbers[which, 1:])
    return Table(tuple(names), len(numbers), read, _line_of(path, 0), str(path), names[0], features)


class _Index(dict[str, int]):
    """Numbers the texts it meets."""

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


def _codes(lines: list[str], indices: list[_Index], separator: str, where: Where) -> Codes:
    """Codes of the cells of some lines, shape (columns, lines); equal lines are cut into cells once."""
    distinct = _Index()
    which = np.fromiter(map(distinct.__getitem__, lines), np.int32, len(lines))
    width = len(indices)
    cells, _ = _cells(
        list(distinct), width, separator, lambda code: where(int(np.argmax(which == code))), refuse
    )
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


def _quoted(path: Path, lines: Iterable[str]) -> tuple[list[int], list[list[str]]]:
    """Line on which every record but the first starts, and the cells of all."""
    reader = csv.reader(io.StringIO("\n".join(lines)), strict=True)
    starts: list[int] = []
    records = []
    try:
        for record in reader:
            records.append(record)
            starts.append(reader.line_num + 1)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; mend the quotes") from None
    return starts, records


def _header(path: Path, fields: Sequence[str]) -> tuple[str, ...]:
    names = tuple(field.strip() for field in fields)
    for k, name in enumerate(names):
        if not name or name in names[:k]:
            fault = f"{name!r} twice" if name else f"no name for column {k + 1}"
            raise DataError(f"{path}, line 1: the header holds {fault}; every column needs a name of its own")
    return names


def _no_record(line: str, skip: tuple[str, ...]) -> bool:
    return bool(skip) and (not line.strip() or line.lstrip().startswith(skip))


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
    _cells(lines, width, ",", where, refuse)
    for row, line in enumerate(lines):
        for k, cell in enumerate(line.split(",")):
            try:
                sound = np.isfinite(float(cell))
            except ValueError:
                sound = False
            if not sound:
                place = f"{where(row)}, column {k + 1}"
                return DataError(f"{place}: {cell!r} is no finite number; mend or remove the line")
    return DataError(
        f"{path}, lines {start + 1} to {start + len(lines)}: not {width} numbers a line; mend them"
    )
