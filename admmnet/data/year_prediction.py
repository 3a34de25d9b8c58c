"""YearPredictionMSD (UCI): 515,345 songs, 90 features of their timbre, and the year as a real target."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from admmnet.data.columns import Column, column_of_numbers
from admmnet.data.delimited import read_numbers
from admmnet.data.files import locate_first
from admmnet.data.schema import Schema
from admmnet.data.source import Source
from admmnet.errors import RequestError

FILE = "year-prediction-msd/YearPredictionMSD.txt"
ORIGIN = "the UCI archive (YearPredictionMSD): YearPredictionMSD.txt.zip"
RECORDS = 515_345
OFFICIAL = 463_715
"""Training records: the first. No artist is in both parts, so that the split is to be respected."""
FEATURES = 90
YEARS = (1922.0, 2011.0)
"""Range of the target by the description of the set."""
_NAMES = tuple([f"mean{k + 1}" for k in range(12)] + [f"covariance{k + 1}" for k in range(78)])


def find_year(data_dir: str | None) -> Path:
    """Path of the file.

    Raises
    ------
    RequestError
        Saying where it was expected and what to do.
    """
    return locate_first((FILE,), data_dir, ORIGIN)


def read_year(data_dir: str | None, official: bool) -> Source:
    """Read the songs.

    Parameters
    ----------
    data_dir : str or None
        `--data-dir`.
    official : bool
        Whether the official split is meant, which goes by position and needs all records.

    Returns
    -------
    Source
        Raw features; y in years.

    Raises
    ------
    RequestError
        With file, line and column, for a row of another form, or if records are missing for the split.
    """
    path = find_year(data_dir)
    numbers = read_numbers(path, 1 + FEATURES)
    if official and len(numbers) != RECORDS:
        raise RequestError(
            f"{path} holds {len(numbers)} records, the official split needs {RECORDS}: get the original file,"
            " or draw a test set with --test-fraction"
        )
    X = numbers[:, 1:]

    def column(name: str) -> Column:
        if name not in ("year", *_NAMES):
            raise RequestError(
                f"year-prediction-msd has no column {name!r}; it has 'year', {_NAMES[0]!r}, ..."
            )
        return column_of_numbers(numbers[:, ("year", *_NAMES).index(name)])

    return Source(
        name="year-prediction-msd",
        y=np.clip(numbers[:, 0], *YEARS),
        features=_NAMES,
        rows=lambda which: X[which],
        column=column,
        where=lambda row: f"{path}, line {row + 1}",
        schema=Schema(features=FEATURES, targets=YEARS),
        official=OFFICIAL if len(numbers) == RECORDS else None,
        official_first=True,
    )
