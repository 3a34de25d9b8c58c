"""MNIST (LeCun, Cortes, Burges): 70,000 images of digits, all ten as classes or one against all others.

It comes in IDX files: big-endian arrays of bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.files import read_bytes
from admmnet.data.known import DataSet
from admmnet.data.source import stacked
from admmnet.data.table import RawTable, column_of_numbers, table_of_numbers
from admmnet.errors import DataError, RequestError

_BYTES = 0x08  # type code of unsigned bytes, the only one of these files


def _read(paths: Sequence[Path]) -> RawTable:
    """Read files of images, each followed by that of their labels.

    Features are r0c0, r0c1, ..., row by row: pixels divided by 255, the largest value a byte can have.
    """
    return stacked([_labelled(*pair) for pair in zip(paths[::2], paths[1::2], strict=True)])


def _labelled(images: Path, labels: Path) -> RawTable:
    pictures, answers = _read_idx(images, 3), _read_idx(labels, 1)
    n, height, width = pictures.shape
    if n != len(answers):
        raise RequestError(f"{images} has {n} images and {labels} has {len(answers)} labels: get the original files")
    if answers.max() > 9:
        at = int(np.argmax(answers > 9))
        raise DataError(f"{labels}, record {at + 1}: label {answers[at]}, expected 0 to 9")
    names = tuple(f"r{r}c{c}" for r in range(height) for c in range(width))
    column, place = partial(column_of_numbers, answers.astype(np.float64)), f"{images}, image {{}}".format
    rows = pictures.reshape(n, -1)
    return replace(table_of_numbers(rows, names, "digit", column, lambda k: place(k + 1), str(images)), unit=255.0)


def _read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, of 3 axes for images and 1 for labels; the array is read-only."""
    data = read_bytes(path)
    start = 4 + 4 * axes
    if len(data) < start or data[:4] != bytes((0, 0, _BYTES, axes)):
        raise DataError(
            f"{path} starts with {data[:4].hex()}, expected {bytes((0, 0, _BYTES, axes)).hex()}: it is no IDX file"
            f" of bytes with {axes} {'axes' if axes > 1 else 'axis'}; get the original"
        )
    shape = struct.unpack(f">{axes}I", data[4:start])
    if len(data) == start or len(data) - start != math.prod(shape):
        words = " x ".join(map(str, shape))
        raise RequestError(f"{path} holds {len(data) - start} bytes for {words}: get the original file")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


DIGITS = [str(digit) for digit in range(10)]


def _digits(digit: str | None = None) -> DataSet:
    labels = DIGITS if digit is None else {"other": [other for other in DIGITS if other != digit], digit: [digit]}
    return DataSet(
        name="mnist" if digit is None else f"mnist:{digit}",
        shown="" if digit is None else "mnist:DIGIT",
        read=_read,
        schema={"labels": labels, "features": 784},
        files=tuple(
            (f"mnist/{part}-{kind}-ubyte",) for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
        ),
        origin="the MNIST database: train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two of t10k",
        official=True,
        test_share=1 / 7,  # as many test records as t10k has, drawn from all
        bound=1.0,
    )


SETS = tuple(map(_digits, (None, *DIGITS)))
