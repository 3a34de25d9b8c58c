"""LIBSVM text: a label, then index:value pairs with indices from 1."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.data.columns import (
    Column,
    Features,
    Refuse,
    Rows,
    Table,
    Where,
    column_of,
    column_of_numbers,
    numbered,
    refuse,
)
from admmnet.data.files import read_lines
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix, Vector

_LINE = re.compile(r"[^\s:]+(?:\s+\d{1,9}:[^\s:]+)*")

WIDEST = 100_000
"""Largest number of features: models, messages and releases are dense vectors of that many numbers."""


def read_libsvm(path: Path, width: int | None, refuse: Refuse = refuse, *more: Path) -> Table:
    """Read a libsvm file, or some whose records follow each other.

    The label column is called label, features x1, ..., xd; d is read from rows if not given.

    Refused, with file, line and index: malformed lines, indices that are 0, repeated, out of order or above the
    width, and values that are no finite numbers.
    """
    lines: list[str] = []
    starts: list[int] = []
    for file in (path, *more):
        starts.append(len(lines))
        lines += [line.partition("#")[0].strip() for line in read_lines(file)]
    parts = tuple(np.diff([*starts, len(lines)]).tolist()) if more else ()

    def place(line: int) -> str:
        which = bisect_right(starts, line) - 1
        return f"{(path, *more)[which]}, line {line - starts[which] + 1}"

    sound = [_LINE.fullmatch(line) is not None for line in lines]
    refuse(
        f"{place(row)}: expected a label and index:value pairs, got {lines[row][:40]!r}; mend it"
        for row, good in enumerate(sound)
        if not good
    )
    at = np.flatnonzero(sound)
    if len(at) < len(lines):
        lines = [lines[row] for row in at.tolist()]

    def where(row: int) -> str:
        return place(int(at[row]))

    rows = _parse(path, lines, width, where, refuse)
    d = rows.width
    names = numbered(d)
    heads = column_of([line.split(None, 1)[0] for line in lines])

    def read(name: str) -> Column:
        return heads if name == "label" else column_of_numbers(rows.column(names.index(name)))

    features = Features(names, rows.dense, sparse=rows.csr)
    found = () if width is not None else (f"width {d}",)
    return Table(("label", *names), len(lines), read, where, str(path), "label", features, found, parts)


class _Pairs:
    """Rows in compressed form: row i holds the pairs from starts[i] to starts[i + 1], features counted from 0."""

    def __init__(self, starts: NDArray[np.intp], indices: NDArray[np.intp], values: Vector, width: int) -> None:
        self.starts, self.indices, self.values, self.width = starts, indices, values, width

    def dense(self, which: Rows) -> Matrix:
        """Return some rows as a dense array (m, d)."""
        X = np.zeros((len(which), self.width))
        counts = self.starts[which + 1] - self.starts[which]
        ends = np.cumsum(counts)
        shift = self.starts[which] - (ends - counts)
        pairs = np.arange(ends[-1]) + np.repeat(shift, counts)
        X[np.repeat(np.arange(len(which)), counts), self.indices[pairs]] = self.values[pairs]
        return X

    def csr(self, which: Rows) -> Any:
        """Return some rows as a scipy CSR array (m, d)."""
        from scipy.sparse import csr_array  # imported here: only who asks for sparse rows needs it

        n = len(self.starts) - 1
        return csr_array((self.values, self.indices, self.starts), shape=(n, self.width))[which]

    def column(self, index: int) -> Vector:
        """Return one dense feature (n,)."""
        x = np.zeros(len(self.starts) - 1)
        pairs = np.flatnonzero(self.indices == index)
        x[np.searchsorted(self.starts, pairs, side="right") - 1] = self.values[pairs]
        return x


def _parse(path: Path, lines: Sequence[str], width: int | None, where: Where, refuse: Refuse) -> _Pairs:
    """Pairs of well-formed lines."""
    counts = np.fromiter((line.count(":") for line in lines), dtype=np.intp, count=len(lines))
    starts = np.concatenate(([0], np.cumsum(counts)))
    tokens = " ".join(line.split(None, 1)[1] for line in lines if ":" in line).replace(":", " ").split()

    def place(pair: int) -> str:
        return f"{where(int(np.searchsorted(starts, pair, side='right')) - 1)}, index"

    numbers: dict[str, float] = {}
    for text in set(tokens[1::2]):
        try:
            numbers[text] = float(text)
        except ValueError:
            numbers[text] = np.nan
    values = np.fromiter(map(numbers.__getitem__, tokens[1::2]), dtype=np.float64, count=len(tokens) // 2)
    refuse(
        f"{place(at)} {tokens[2 * at]}: {tokens[2 * at + 1]!r} is no finite number; mend or remove the line"
        for at in np.flatnonzero(~np.isfinite(values)).tolist()
    )
    places = {text: int(text) for text in set(tokens[::2])}
    indices = np.fromiter(map(places.__getitem__, tokens[::2]), dtype=np.intp, count=len(tokens) // 2)
    rising = np.ones(len(indices), dtype=bool)
    rising[1:] = np.diff(indices) > 0
    rising[starts[:-1][counts > 0]] = True
    refuse(
        f"{place(at)} {indices[at]}: indices must start at 1 and increase; mend the line"
        for at in np.flatnonzero(~rising | (indices < 1)).tolist()
    )
    d = width if width is not None else int(indices.max(initial=0))
    refuse(
        f"{place(at)} {indices[at]}: above the width {d}; raise --features, or mend the line"
        for at in np.flatnonzero(indices > d).tolist()
    )
    if d > WIDEST:
        raise DataError(f"{path}: width {d} is above {WIDEST}; models are dense, so hash or select features")
    if d == 0:
        raise RequestError(f"{path} holds no index:value pair; give --features D if that is meant")
    return _Pairs(starts, indices - 1, values, d)
