"""MNIST (LeCun, Cortes, Burges): 70,000 images of digits, all ten as classes or one against all others."""

from __future__ import annotations

from functools import partial

from admmnet.data.known import DataSet
from admmnet.data.readers.idx import read_images


def _digits(digit: str | None = None) -> DataSet:
    return DataSet(
        name="mnist" if digit is None else f"mnist:{digit}",
        shown="" if digit is None else "mnist:DIGIT",
        read=partial(read_images, label="digit", classes=10),
        schema={"labels": list("0123456789") if digit is None else ["other", digit], "features": 784},
        files=tuple(
            (f"mnist/{part}-{kind}-ubyte",) for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
        ),
        origin="the MNIST database: train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two of t10k",
        relabel=None if digit is None else lambda label: digit if label == digit else "other",
        official=True,
        test_share=1 / 7,  # as many test records as t10k has, drawn from all
        bound=1.0,
    )


SETS = tuple(map(_digits, (None, *"0123456789")))
