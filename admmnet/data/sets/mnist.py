"""MNIST (LeCun, Cortes, Burges): 70,000 images of digits, all ten as classes or one against all others."""

from __future__ import annotations

from functools import partial

from admmnet.data.known import DataSet
from admmnet.data.readers.idx import read_images

DIGITS = [str(digit) for digit in range(10)]


def _digits(digit: str | None = None) -> DataSet:
    labels = DIGITS if digit is None else {"other": [other for other in DIGITS if other != digit], digit: [digit]}
    return DataSet(
        name="mnist" if digit is None else f"mnist:{digit}",
        shown="" if digit is None else "mnist:DIGIT",
        read=partial(read_images, label="digit", classes=10),
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
