"""LIBSVM text: a label, then index:value pairs with indices from 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.data.columns import Column, Rows, column_of, column_of_numbers
from admmnet.data.files import read_lines
from admmnet.data.labels import no_labels, read_answers
from admmnet.data.schema import Schema
from admmnet.data.source import Source
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix, Vector

_LINE = re.compile(r"[^\s:]+(?:\s+\d{1,9}:[^\s:]+)*")

WIDEST = 100_000
"""Largest number of features: rows become dense."""


@dataclass(frozen=True)
class Sparse:
    """Rows in compressed form.

    Attributes
    ----------
    starts : ndarray of int, shape (n + 1,)
        Row i holds the pairs from starts[i] to starts[i + 1].
    indices : ndarray of int, shape (pairs,)
        Feature of each pair, from 0.
    values : ndarray, shape (pairs,)
        Its value.
    width : int
        Number of features d.
    """

    starts: NDArray[np.intp]
    indices: NDArray[np.intp]
    values: Vector
    width: int

    def rows(self, which: Rows) -> Matrix:
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


def read_libsvm(
    path: Path, schema: Schema, positive: str | None, discover: bool, labelled: bool = True
) -> Source:
    """Read a libsvm file.

    Parameters
    ----------
    path : Path
        `.libsvm` or `.svm`, plain or `.gz`.
    schema : Schema
        Its columns do not count.
    positive : str or None
        Label value that becomes +1.
    discover : bool
        Whether the width and the labels may be read from the rows.
    labelled : bool
        Whether labels are read; if not, any word may stand in their place.

    Returns
    -------
    Source
        Its records; features and raw columns are called x1, ..., xd.

    Raises
    ------
    DataError
        With file, line and index, for malformed lines, indices that are 0, repeated, out of order or
        above the width, and values that are no finite numbers.
    """
    if schema.features is None and not discover:
        raise RequestError(f"{path}: the width must be declared, with --features D or data.schema.features")
    lines = libsvm_lines(path)

    def where(row: int) -> str:
        return f"{path}, line {row + 1}"

    if faults := malformed(lines, where):
        raise DataError(faults.values())
    sparse = sparse_of(path, lines, schema.features)
    if labelled:
        heads = column_of([line.split(None, 1)[0] for line in lines])
        labels = read_answers(heads, "label", where, schema, positive, discover)
    else:
        labels = no_labels(len(lines), schema.labels, positive)
    width = sparse.width
    names = tuple(f"x{k + 1}" for k in range(width))

    def column(name: str) -> Column:
        if name not in names:
            raise RequestError(f"{path} has no column {name!r}; its columns are x1 to x{width}")
        return column_of_numbers(sparse.column(names.index(name)))

    discovered = (f"width {width}",) if schema.features is None else ()
    return Source(
        name=path.name,
        y=labels.y,
        features=names,
        rows=sparse.rows,
        column=column,
        where=where,
        schema=replace(schema, labels=labels.values, features=width),
        dependent=labels.dependent + discovered,
        sparse=sparse.csr,
    )


def libsvm_lines(path: Path) -> list[str]:
    """Lines of a file without their comments."""
    return [line.partition("#")[0].strip() for line in read_lines(path)]


def malformed(lines: Sequence[str], where: Callable[[int], str]) -> dict[int, str]:
    """Number (from 0) of every line that is no label with index:value pairs, and words for it."""
    return {
        row: f"{where(row)}: expected a label and index:value pairs, got {line[:40]!r}; mend it"
        for row, line in enumerate(lines)
        if _LINE.fullmatch(line) is None
    }


def sparse_of(path: Path, lines: Sequence[str], features: int | None) -> Sparse:
    """Pairs of well-formed lines; errors are those of `read_libsvm`."""
    counts = np.fromiter((line.count(":") for line in lines), dtype=np.intp, count=len(lines))
    starts = np.concatenate(([0], np.cumsum(counts)))
    tokens = " ".join(line.split(None, 1)[1] for line in lines if ":" in line).replace(":", " ").split()

    def line_of(pair: int) -> str:
        return f"{path}, line {int(np.searchsorted(starts, pair, side='right'))}"

    numbers: dict[str, float] = {}
    for text in set(tokens[1::2]):
        try:
            numbers[text] = float(text)
        except ValueError:
            numbers[text] = np.nan
    values = np.fromiter(map(numbers.__getitem__, tokens[1::2]), dtype=np.float64, count=len(tokens) // 2)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(
            f"{line_of(at)}, index {tokens[2 * at]}: {tokens[2 * at + 1]!r} is no finite number;"
            " mend or remove the line"
            for at in bad.tolist()
        )
    places = {text: int(text) for text in set(tokens[::2])}
    indices = np.fromiter(map(places.__getitem__, tokens[::2]), dtype=np.intp, count=len(tokens) // 2)
    rising = np.ones(len(indices), dtype=bool)
    rising[1:] = np.diff(indices) > 0
    rising[starts[:-1][counts > 0]] = True
    bad = np.flatnonzero(~rising | (indices < 1))
    if bad.size:
        raise DataError(
            f"{line_of(at)}, index {indices[at]}: indices must start at 1 and increase; mend the line"
            for at in bad.tolist()
        )
    width = features if features is not None else int(indices.max(initial=0))
    bad = np.flatnonzero(indices > width)
    if bad.size:
        raise DataError(
            f"{line_of(at)}, index {indices[at]}: above the width {width}; raise --features, or mend the line"
            for at in bad.tolist()
        )
    if width > WIDEST:
        raise DataError(
            f"{path}: width {width} is above {WIDEST}; rows are dense here, so hash or select features"
        )
    if width == 0:
        raise RequestError(f"{path} holds no index:value pair; give --features D if that is meant")
    return Sparse(starts, indices - 1, values, width)
