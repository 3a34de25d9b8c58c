"""YearPredictionMSD (UCI): 515,345 songs, 90 features of their timbre, and the year as a real target."""

from __future__ import annotations

from functools import partial

from admmnet.data.known import DataSet
from admmnet.data.readers.delimited import read_numbers

_NAMES = ("year", *(f"mean{k + 1}" for k in range(12)), *(f"covariance{k + 1}" for k in range(78)))

SETS = (
    DataSet(
        name="year-prediction-msd",
        read=partial(read_numbers, names=_NAMES),
        schema={"features": 90, "targets": [1922, 2011]},  # the range by the description of the set
        files=(("year-prediction-msd/YearPredictionMSD.txt",),),
        origin="the UCI archive (YearPredictionMSD): YearPredictionMSD.txt.zip",
        official=True,
        train=463_715,  # the first: no artist is in both parts, so that the split is to be respected
        records=515_345,
        test_share=None,
    ),
)
