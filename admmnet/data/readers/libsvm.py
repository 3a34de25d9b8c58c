"""LIBSVM text: a label, then index:value pairs with indices from 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from admmnet.data.files import read_blocks
from admmnet.data.table import PLAIN, RawTable, Refuse, Where, column_of, numbered, refuse, table_of_numbers
from admmnet.errors import DataError, RequestError

_LINE = re.compile(r"[^\s:]+(?:\s+\d{1,9}:[^\s:]+)*")

WIDEST = 100_000
"""Largest number of features: models, messages and releases are dense vectors of that many numbers."""


def read_libsvm(path: Path, width: int | None, refuse: Refuse = refuse) -> RawTable:
    """Read a libsvm file; the label column is called label, features x1, ..., xd; d is read from rows if not given.

    Refused, with file, line and index: malformed lines, indices that are 0, repeated, out of order or above the
    width, and values that are no finite numbers.
    """
    lines = [line.partition("#")[0].strip() for block in read_blocks(path) for line in block]
    sound = np.array([_LINE.fullmatch(line) is not None for line in lines])
    refuse(
        f"{path}, line {row + 1}: expected a label and index:value pairs, got {lines[row][:40]!r}; mend it"
        for row in np.flatnonzero(~sound).tolist()
    )
    at = np.flatnonzero(sound)
    lines = [lines[row] for row in at.tolist()]

    def where(row: int) -> str:
        return f"{path}, line {at[row] + 1}"

    rows = _parse(path, lines, width, where, refuse)
    heads = column_of([line.split(None, 1)[0] for line in lines])
    table = table_of_numbers(rows, numbered(rows.shape[1]), "label", lambda: heads, where, str(path))
    return replace(table, dependent=() if width is not None else (f"width {rows.shape[1]}",))


def _parse(path: Path, lines: Sequence[str], width: int | None, where: Where, refuse: Refuse) -> Any:
    """Rows (n, d) of well-formed lines, a scipy CSR array."""
    from scipy.sparse import csr_array  # imported here: help does without it

    counts = np.fromiter((line.count(":") for line in lines), dtype=np.intp, count=len(lines))
    starts = np.concatenate(([0], np.cumsum(counts)))
    tokens = " ".join(line.split(None, 1)[1] for line in lines if ":" in line).replace(":", " ").split()

    def place(pair: int) -> str:
        return f"{where(int(np.searchsorted(starts, pair, side='right')) - 1)}, index"

    numbers = {text: PLAIN.value(text) for text in set(tokens[1::2])}
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
    return csr_array((values, indices - 1, starts), shape=(len(lines), d))
