"""IDX files: the big-endian arrays of bytes that MNIST comes in."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from admmnet.data.files import read_bytes
from admmnet.data.table import RawColumn, RawTable, column_of_numbers
from admmnet.errors import DataError, RequestError

_BYTES = 0x08  # type code of unsigned bytes, the only one of these files


def read_images(paths: Sequence[Path], label: str, classes: int) -> RawTable:
    """Read files of images, each followed by that of their labels, numbers below `classes`.

    Features are r0c0, r0c1, ..., row by row: pixels divided by 255, the largest value a byte can have.
    """
    images, labels = ([read_idx(path, axes) for path in paths[k::2]] for k, axes in ((0, 3), (1, 1)))
    for k, (pictures, answers) in enumerate(zip(images, labels, strict=True)):
        image_path, label_path = paths[2 * k : 2 * k + 2]
        if len(pictures) != len(answers) or pictures.shape[1:] != images[0].shape[1:]:
            raise RequestError(
                f"{image_path} is {' x '.join(map(str, pictures.shape))} and {label_path} has {len(answers)} labels:"
                " get the original files"
            )
        if answers.max() >= classes:
            at = int(np.argmax(answers >= classes))
            raise DataError(f"{label_path}, record {at + 1}: label {answers[at]}, expected 0 to {classes - 1}")
    height, width = images[0].shape[1:]
    pixels = np.concatenate([pictures.reshape(len(pictures), -1) for pictures in images])
    starts = np.cumsum([0, *map(len, images)]).tolist()
    names = tuple(f"r{r}c{c}" for r in range(height) for c in range(width))

    def read(name: str) -> RawColumn:
        values = np.concatenate(labels) if name == label else pixels[:, names.index(name)]
        return column_of_numbers(values.astype(np.float64))

    def where(row: int) -> str:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{paths[2 * part]}, image {row - starts[part] + 1}"

    sizes = tuple(map(len, images))
    return RawTable((label, *names), starts[-1], read, where, str(paths[0]), label, pixels, 255.0, parts=sizes)


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
