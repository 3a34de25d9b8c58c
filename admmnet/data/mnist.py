"""MNIST (LeCun, Cortes, Burges): 70,000 images of digits, one digit against all others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from admmnet.data.columns import Column, Rows, column_of_numbers, listed
from admmnet.data.files import locate_first
from admmnet.data.idx import read_idx
from admmnet.data.schema import Schema
from admmnet.data.source import Source
from admmnet.errors import DataError, RequestError
from admmnet.types import Matrix, Vector

PARTS = ("train", "t10k")
TEST_SHARE = 1 / 7
"""As many test records as `t10k` has, drawn from all."""
ORIGIN = "the MNIST database: train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two of t10k"


def find_mnist(data_dir: str | None) -> list[tuple[Path, Path]]:
    """Paths of images and labels of both parts.

    Raises
    ------
    RequestError
        Saying where they were expected and what to do.
    """
    return [
        (
            locate_first((f"mnist/{part}-images-idx3-ubyte",), data_dir, ORIGIN),
            locate_first((f"mnist/{part}-labels-idx1-ubyte",), data_dir, ORIGIN),
        )
        for part in PARTS
    ]


def read_mnist(data_dir: str | None, digit: int) -> Source:
    """Read both parts; rows of `t10k` come last.

    Parameters
    ----------
    data_dir : str or None
        `--data-dir`.
    digit : int
        The digit that is +1; all others are -1.

    Returns
    -------
    Source
        Pixels divided by 255, the largest value a byte can have.

    Raises
    ------
    RequestError
        If a file is missing or unsound.
    """
    paths = find_mnist(data_dir)
    images = [read_idx(path, 3) for path, _ in paths]
    labels = [read_idx(path, 1) for _, path in paths]
    for (image_path, label_path), pictures, digits in zip(paths, images, labels, strict=True):
        if len(pictures) != len(digits) or pictures.shape[1:] != images[0].shape[1:]:
            raise RequestError(
                f"{image_path} is {' x '.join(map(str, pictures.shape))} and {label_path} has {len(digits)} labels:"
                " get the original files"
            )
        if digits.max() > 9:
            at = int(np.argmax(digits > 9))
            raise DataError(f"{label_path}, record {at + 1}: label {digits[at]}, expected 0 to 9")
    height, width = images[0].shape[1:]
    flat = [pictures.reshape(len(pictures), -1) for pictures in images]
    answers = np.concatenate(labels)
    first = len(images[0])
    names = tuple(f"r{r}c{c}" for r in range(height) for c in range(width))

    def rows(which: Rows) -> Matrix:
        X = np.empty((len(which), height * width))
        late = which >= first  # two arrays stay as they were read: joining them would hold all pixels twice
        X[~late] = flat[0][which[~late]]
        X[late] = flat[1][which[late] - first]
        X /= 255.0
        return X

    def column(name: str) -> Column:
        if name == "digit":
            values: Vector = answers.astype(np.float64)
        elif name in names:
            values = np.concatenate([part[:, names.index(name)] for part in flat]).astype(np.float64)
        else:
            raise RequestError(f"mnist has no column {name!r}; it has 'digit', {listed(names, 3)}")
        return column_of_numbers(values)

    def where(row: int) -> str:
        part = int(row >= first)
        return f"{paths[part][0]}, image {row - part * first + 1}"

    return Source(
        name=f"mnist:{digit}",
        y=np.where(answers == digit, 1.0, -1.0),
        features=names,
        rows=rows,
        column=column,
        where=where,
        schema=Schema(labels=("other", str(digit)), features=height * width),
        bounds=np.ones(height * width),
        official=first,
        test_share=TEST_SHARE,
    )
