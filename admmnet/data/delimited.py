"""Large files without a header: read block by block, so that only codes or numbers are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from admmnet.data.columns import Codes, Column, Table
from admmnet.data.files import read_blocks
from admmnet.data.tables import flat_cells
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix

Skip = Callable[[str], bool]


def read_delimited(path: Path, names: Sequence[str], separator: str, skip: Skip | None = None) -> Table:
    """Read a file of categories and short numbers, without quotes.

    Every distinct cell of a column is kept once, and four bytes a cell.

    Parameters
    ----------
    path : Path
        Plain, `.gz` or `.zip`.
    names : sequence of str
        The columns in order.
    separator : str
        Text between two cells.
    skip : callable, optional
        Whether a line at the top is no record.

    Returns
    -------
    Table
        Its columns; raw texts are stripped of blanks.

    Raises
    ------
    RequestError
        For a line with another number of cells, or a file without records.
    """
    indices = [_Index() for _ in names]
    blocks: list[Codes] = []
    first = 0
    for start, lines in _numbered(path):
        if skip is not None and not blocks:
            kept = next((k for k, line in enumerate(lines) if not skip(line)), len(lines))
            first, lines = start + kept, lines[kept:]
            if not lines:
                continue
        distinct = _Index()  # lines of such files repeat: each is cut into cells once a block
        which = np.fromiter(map(distinct.__getitem__, lines), np.int32, len(lines))
        place_of = _first_of(which, _line_of(path, start if blocks else first))
        cells = flat_cells(list(distinct), len(names), separator, place_of)
        codes = np.empty((len(names), len(distinct)), dtype=np.int32)
        for k, index in enumerate(indices):
            codes[k] = np.fromiter(map(index.__getitem__, cells[k :: len(names)]), np.int32, len(distinct))
        blocks.append(codes[:, which])
    if not blocks:
        raise RequestError(f"{path} holds no record: get the original file")
    whole = np.concatenate(blocks, axis=1)
    place = {name: k for k, name in enumerate(names)}

    def read(name: str) -> Column:
        return Column(tuple(level.strip() for level in indices[place[name]]), whole[place[name]])

    return Table(tuple(names), whole.shape[1], read, _line_of(path, first), str(path))


def read_numbers(path: Path, width: int) -> Matrix:
    """Read a file of comma separated finite numbers.

    Parameters
    ----------
    path : Path
        Plain, `.gz` or `.zip`.
    width : int
        Numbers a line must have.

    Returns
    -------
    ndarray, shape (n, width)
        The numbers.

    Raises
    ------
    RequestError
        With line and column (from 1), for anything else.
    """
    blocks: list[Matrix] = []
    for start, lines in _numbered(path):
        try:
            block = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            raise _fault(path, start, lines, width) from None
        if block.shape != (len(lines), width) or not np.isfinite(block).all():
            raise _fault(path, start, lines, width)
        blocks.append(block)
    n = sum(len(block) for block in blocks)
    numbers = np.empty((n, width))
    while blocks:  # from the end, each let go once it is copied
        block = blocks.pop()
        n -= len(block)
        numbers[n : n + len(block)] = block
    return numbers


class _Index(dict[str, int]):
    """Numbers the texts it meets."""

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


def _numbered(path: Path) -> Iterator[tuple[int, list[str]]]:
    start = 0
    for lines in read_blocks(path):
        yield start, lines
        start += len(lines)


def _line_of(path: Path, start: int) -> Callable[[int], str]:
    return lambda row: f"{path}, line {start + row + 1}"


def _first_of(which: Codes, place_of: Callable[[int], str]) -> Callable[[int], str]:
    """Place of the first row of every code."""
    return lambda code: place_of(int(np.argmax(which == code)))


def _fault(path: Path, start: int, lines: Sequence[str], width: int) -> DataError:
    """Words for the first line of a block that is not `width` finite numbers."""
    for row, line in enumerate(lines):
        cells = line.split(",")
        if len(cells) != width:
            found = len(cells) if line else 0
            return DataError(
                f"{path}, line {start + row + 1}: {found} values, expected {width}; mend or remove the line"
            )
        for k, cell in enumerate(cells):
            try:
                sound = np.isfinite(float(cell))
            except ValueError:
                sound = False
            if not sound:
                return DataError(
                    f"{path}, line {start + row + 1}, column {k + 1}: {cell!r} is no finite number;"
                    " mend or remove the line"
                )
    return DataError(
        f"{path}, lines {start + 1} to {start + len(lines)}: not {width} numbers a line; mend them"
    )
