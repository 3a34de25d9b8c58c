"""MNIST (LeCun, Cortes, Burges): 70,000 images of digits, one digit against all others."""

from __future__ import annotations

from functools import partial

from admmnet.data.known import DataSet
from admmnet.data.readers.idx import read_images


def _against(digit: str) -> DataSet:
    return DataSet(
        name=f"mnist:{digit}",
        shown="mnist:DIGIT",
        read=partial(read_images, label="digit", classes=10),
        schema={"labels": ["other", digit], "features": 784},
        files=tuple(
            (f"mnist/{part}-{kind}-ubyte",)
            for part in ("train", "t10k")
            for kind in ("images-idx3", "labels-idx1")
        ),
        origin="the MNIST database: train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the two of t10k",
        relabel=lambda label: digit if label == digit else "other",
        official=True,
        test_share=1 / 7,  # as many test records as t10k has, drawn from all
        bound=1.0,
    )


SETS = tuple(map(_against, "0123456789"))
