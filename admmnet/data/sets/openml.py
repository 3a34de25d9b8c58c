"""Data sets of OpenML by their number: a file that was got there, as ARFF or parquet, with columns of any kind.

Anybody may upload to OpenML, and a file names no label column and no bounds: it is read as a person's own file is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admmnet.data.columns import Table
from admmnet.data.known import DataSet
from admmnet.data.readers.arff import read_arff
from admmnet.data.readers.parquet import read_parquet


def _read(paths: Sequence[Path]) -> Table:
    (path,) = paths
    return read_parquet(path) if path.suffix == ".parquet" else read_arff(path)


SETS = (
    DataSet(
        name="openml:",
        shown="openml:ID",
        takes=(r"[1-9]\d{0,8}", "the number of a data set, as in openml:31"),
        read=_read,
        files=(("openml/FILE.arff", "openml/FILE.parquet"),),
        origin="openml.org (the data set of that number, as ARFF or parquet)",
        adapt=lambda table, declared, labelled: declared,
        discover=True,
        public=False,
        stated=True,
    ),
)
