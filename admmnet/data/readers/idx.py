"""IDX files: the big-endian arrays of bytes that MNIST comes in."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.files import read_bytes
from admmnet.data.source import stacked
from admmnet.data.table import RawTable, column_of_numbers, table_of_numbers
from admmnet.errors import DataError, RequestError

_BYTES = 0x08  # type code of unsigned bytes, the only one of these files


def read_images(paths: Sequence[Path], label: str, classes: int) -> RawTable:
    """Read files of images, each followed by that of their labels, numbers below `classes`.

    Features are r0c0, r0c1, ..., row by row: pixels divided by 255, the largest value a byte can have.
    """
    return stacked([_labelled(*pair, label, classes) for pair in zip(paths[::2], paths[1::2], strict=True)])


def _labelled(images: Path, labels: Path, label: str, classes: int) -> RawTable:
    pictures, answers = read_idx(images, 3), read_idx(labels, 1)
    n, height, width = pictures.shape
    if n != len(answers):
        raise RequestError(f"{images} has {n} images and {labels} has {len(answers)} labels: get the original files")
    if answers.max() >= classes:
        at = int(np.argmax(answers >= classes))
        raise DataError(f"{labels}, record {at + 1}: label {answers[at]}, expected 0 to {classes - 1}")
    names = tuple(f"r{r}c{c}" for r in range(height) for c in range(width))
    column = partial(column_of_numbers, answers.astype(np.float64))

    def where(row: int) -> str:
        return f"{images}, image {row + 1}"

    return replace(table_of_numbers(pictures.reshape(n, -1), names, label, column, where, str(images)), unit=255.0)


def read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, of 3 axes for images and 1 for labels; the array is read-only."""
    data = read_bytes(path)
    start = 4 + 4 * axes
    if len(data) < start or data[:4] != bytes((0, 0, _BYTES, axes)):
        raise DataError(
            f"{path} starts with {data[:4].hex()}, expected {bytes((0, 0, _BYTES, axes)).hex()}: it is no IDX file"
            f" of bytes with {axes} {'axes' if axes > 1 else 'axis'}; get the original"
        )
    shape = struct.unpack(f">{axes}I", data[4:start])
    size = int(np.prod([int(n) for n in shape], dtype=object))
    if size == 0 or len(data) - start != size:
        words = " x ".join(map(str, shape))
        raise RequestError(f"{path} holds {len(data) - start} bytes for {words}: get the original file")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)
