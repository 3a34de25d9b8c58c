"""Sets of the LIBSVM data page that papers on private learning use, in its own form, with two labels each."""

from __future__ import annotations

from functools import partial

from admmnet.data.known import DataSet
from admmnet.data.readers.libsvm import read_libsvm

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


def _set(
    name: str,
    width: int,
    labels: tuple[str, str],
    *files: tuple[str, ...],
    bound: float | None = None,
    sha256: dict[str, str] | None = None,
) -> DataSet:
    """Declare a set; of two files the second is its test part."""
    return DataSet(
        name=name,
        read=partial(read_libsvm, width=width),
        schema={"labels": list(labels), "features": width},
        files=files,
        origin=PAGE,
        sha256=sha256 or {},
        official=len(files) > 1,
        bound=bound,
        stated=True,
    )


SETS = (
    _set(
        "a9a",
        123,
        ("-1", "+1"),
        ("a9a/a9a", "adult/a9a"),
        ("a9a/a9a.t", "adult/a9a.t"),
        bound=1.0,  # every entry that is not 0
        sha256={
            "a9a/a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
            "a9a/a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
        },
    ),
    _set("ijcnn1", 22, ("-1", "+1"), ("ijcnn1/ijcnn1",), ("ijcnn1/ijcnn1.t",)),
    # the class of most records, lodgepole pine, against the other six; features are scaled to [0, 1]
    _set("covtype", 54, ("1", "2"), ("covtype/covtype.libsvm.binary.scale",), bound=1.0),
    # the test part, 677,399 documents, is not read: its text would fill the memory of most machines
    _set("rcv1", 47_236, ("-1", "+1"), ("rcv1/rcv1_train.binary",), bound=1.0),
)
