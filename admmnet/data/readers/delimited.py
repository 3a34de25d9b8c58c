"""Text of one record a line: csv files, with a header or without one, and plain numbers."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, chain, islice, repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from admmnet.data.files import read_blocks
from admmnet.data.table import (
    DATE,
    PLAIN,
    RawColumn,
    RawTable,
    Refuse,
    column_of,
    column_of_numbers,
    fault_of_names,
    listed,
    numbered,
    numbering,
    refuse,
    table_of_numbers,
)
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix

_NUMBER = re.compile(r"[-+]?(\d[\d.,]*|[.,]\d+)(e[-+]?\d+)?", re.IGNORECASE)
TOGETHER = 4096
"""Records that are held as texts at a time."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Separators that are recognised, with words for them."""


def read_texts(
    path: Path,
    names: Sequence[str] | None = None,
    *,
    separator: str = ",",
    header: bool | None = None,
    skip: str = "",
    refuse: Refuse = refuse,
) -> RawTable:
    """Read a csv file; of a column each text is kept once, and four bytes a record.

    Cells have no blanks around them; faults of the header, ragged rows and quotes name their line. ``names`` are those
    of all columns, of files without a header (else x1, ..., xd), or of the columns that are wanted. A first line that
    is written with another separator, or looks like a record, is refused unless ``header`` says what it is. Lines at
    the top that begin with ``skip`` are no records.
    """
    every, places, indices = tuple[str, ...](), list[int](), list[dict[str, int]]()
    found, lines, ragged = list[NDArray[np.int32]](), array("l"), list[tuple[int, int]]()
    for begin, counts, cells in _blocks(path, separator, skip):
        if not every:
            every = _names(path, counts, cells, names, header)
            wanted = tuple(names or every)
            if missing := [name for name in wanted if name not in every]:
                raise DataError(f"{path} lacks the columns {listed(missing)}: get the original file")
            places, indices = [every.index(name) for name in wanted], [numbering() for _ in wanted]
            if header is not False:
                begin, cells, counts = begin[1:], cells[counts[0] :], counts[1:]
        if counts and set(counts) != {len(every)}:
            ragged += [(line, n) for line, n in zip(begin, counts, strict=True) if n != len(every)]
            begin = [line for line, n in zip(begin, counts, strict=True) if n == len(every)]
            ends = [end for end, n in zip(accumulate(counts), counts, strict=True) if n == len(every)]
            cells = [cell for end in ends for cell in cells[end - len(every) : end]]
        own = (map(index.__getitem__, cells[k :: len(every)]) for index, k in zip(indices, places, strict=True))
        found.append(np.array([np.fromiter(codes, np.int32, len(begin)) for codes in own]))
        lines.extend(begin)
    refuse(f"{path}, line {k}: {n} values, expected {len(every)}; mend or remove the line" for k, n in ragged)
    if not lines:
        raise RequestError(f"{path} has a header and no records: give a file with at least one record")
    if header is None and len(wanted) > 1 and all(map(dict.__contains__, indices, wanted)):
        raise _no_header(path, wanted, "nothing that does not occur again below")
    whole = np.concatenate(found, axis=1)

    @cache
    def read(name: str) -> RawColumn:
        k = wanted.index(name)
        levels = column_of([text.strip() for text in indices[k]])
        return RawColumn(levels.levels, levels.codes[whole[k]])

    return RawTable(wanted, len(lines), read, lambda row: f"{path}, line {lines[row]}", str(path))


Block = tuple[Sequence[int], Sequence[int], list[str]]
"""Some thousand records: the line on which each begins, how many cells it has, and the cells, row by row."""


def _blocks(path: Path, separator: str, skip: str) -> Iterator[Block]:
    line, blocks = 1, read_blocks(path)
    for lines in blocks:
        if line == 1:
            top = next((k for k, text in enumerate(lines) if not (skip and text.startswith(skip))), 0)
            line, lines = line + top, lines[top:]
            _check_separator(path, lines[0], separator)
        texts = separator.join(filter(None, lines))
        if '"' in texts:  # cells may go on in the next line
            yield from _quoted(path, chain(lines, chain.from_iterable(blocks)), line, separator)
            return
        counts = [marks + 1 for marks in map(str.count, lines, repeat(separator))]
        if "" in lines:
            counts = [n if text else 0 for n, text in zip(counts, lines, strict=True)]
        yield range(line, line + len(lines)), counts, texts.split(separator)
        line += len(lines)


def _quoted(path: Path, lines: Iterable[str], line: int, separator: str) -> Iterator[Block]:
    reader = csv.reader((f"{text}\n" for text in lines), strict=True, delimiter=separator)
    above = line - 1
    try:
        while records := list(islice(reader, TOGETHER)):
            *begin, line = accumulate((1 + sum(cell.count("\n") for cell in cells) for cells in records), initial=line)
            yield begin, list(map(len, records)), list(chain.from_iterable(records))
    except csv.Error as error:
        raise DataError(f"{path}, line {above + reader.line_num}: {error}; mend the quotes") from None


def _names(
    path: Path, counts: Sequence[int], cells: Sequence[str], names: Sequence[str] | None, header: bool | None
) -> tuple[str, ...]:
    """Names of all columns, by the first record, which has them but for files without a header."""
    first, second = cells[: counts[0]], cells[counts[0] : sum(counts[:2])]
    if header is False:
        if not first:
            raise DataError(f"{path}, line 1 is empty: remove it")
        return tuple(names or numbered(len(first)))
    if header is None and (fault := _looks_like_record(first, second)) is not None:
        raise _no_header(path, first, fault)
    found = tuple(cell.strip() for cell in first) or ("",)
    if (fault := fault_of_names(found)) is not None:
        hint = "" if found[0] else " (row numbers of pandas? write the file with index=False)"
        raise DataError(f"{path}, line 1: the header holds {fault}{hint}; every column needs a name of its own")
    return found


def read_unknown(path: Path, separator: str | None = None) -> tuple[RawTable, str, bool | None]:
    """Read a text file of columns, and say its separator, unless that is given, and False if it has no header."""
    separator = separator or _most(next(read_blocks(path))[0])
    try:
        return read_texts(path, separator=separator), separator, None
    except DataError as error:
        if error.reason != _NAMELESS:
            raise
    return read_texts(path, separator=separator, header=False), separator, False


def read_numbers(path: Path, names: Sequence[str]) -> RawTable:
    """Read a file of comma separated finite numbers, of which the first is the label and all others are features."""
    width, blocks = len(names), list[Matrix]()
    for begin, counts, cells in _blocks(path, ",", ""):
        at = zip(begin, counts, strict=True)
        refuse(f"{path}, line {k}: {n} values, expected {width}; mend or remove the line" for k, n in at if n != width)
        try:
            block = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            block = np.array([*map(PLAIN.value, cells)])
        odd = ((begin[k // width], k % width + 1, cells[k]) for k in np.flatnonzero(~np.isfinite(block)).tolist())
        refuse(f"{path}, line {k}, column {j}: {cell!r} is no finite number; mend or remove it" for k, j, cell in odd)
        blocks.append(block.reshape(-1, width))
    numbers, where = np.concatenate(blocks), f"{path}, line {{}}".format
    labels = partial(column_of_numbers, numbers[:, 0])
    return table_of_numbers(numbers[:, 1:], tuple(names[1:]), names[0], labels, lambda row: where(row + 1), str(path))


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


_NAMELESS = "has a first line that names no columns"


def _no_header(path: Path, first: Sequence[str], what: str) -> DataError:
    return DataError(
        f"{path}, line 1 looks like a record, as it holds {what}: write a line of column names above it, or"
        " declare header = false in [data.schema] (columns x1, x2, ...; `admmnet data draft` does); the line has"
        f" {listed(first, 6)}",
        reason=_NAMELESS,
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
