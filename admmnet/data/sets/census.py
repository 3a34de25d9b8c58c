"""A synthetic stand-in for census records: 48,842 invented people, the same on every machine.

No record, frequency or correlation is taken from real people; columns are drawn one after the other from
tables, each given earlier ones, and labels from a noisy score. The shapes (a rare positive class, a majority
category in most columns, money that is mostly zero) follow what tables of this kind look like; no number was
computed from records of people. Errors on it say how a method behaves on data of this shape, nothing about the
world: about 24 % are positive, and every label has its noise, so that no classifier gets below about 14 % error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.data.known import DataSet
from admmnet.data.table import RawColumn, RawTable, column_of_numbers
from admmnet.types import Vector

Integers = NDArray[np.intp]

RECORDS = 48_842
_SEED = 20_240_501  # of the people, not of the draw: `--data-seed` never changes who they are

AGES = (17, 19, 22, 25, 28, 31, 34, 37, 40, 43, 46, 49, 53, 57, 62, 69, 91)
"""Ages at equally spaced probabilities 0, 1/16, ..., 1 (the last one is excluded)."""
STAGES = (25, 35, 50, 65)
"""Ages at which the five stages of life change."""

SEX = ("female", "male")
BIRTHPLACE = (
    "home", "north", "south", "east", "west", "isles", "coast", "delta", "steppe", "taiga", "highland", "?",
)  # fmt: skip
BIRTHPLACES = (880, 30, 22, 17, 13, 10, 7, 5, 4, 3, 2, 7)
LANGUAGE = ("first", "second", "third", "fourth", "other")
LANGUAGES = ((900, 60, 22, 10, 8), (260, 320, 200, 120, 100))  # born at home, elsewhere
REGION = ("r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9")
REGIONS = ((220, 180, 150, 120, 100, 90, 70, 50, 20), (380, 230, 90, 80, 70, 60, 40, 30, 20))

SCHOOLING = (  # years 1 to 16, by born at home or not times younger than 25 or not
    (1, 2, 4, 9, 16, 32, 60, 24, 330, 420, 25, 25, 75, 6, 2, 1),
    (1, 2, 7, 15, 14, 26, 33, 11, 325, 205, 46, 36, 185, 64, 19, 11),
    (6, 20, 40, 60, 50, 60, 70, 30, 280, 280, 15, 15, 65, 7, 1, 1),
    (12, 36, 72, 70, 50, 40, 40, 18, 240, 140, 25, 25, 140, 60, 12, 20),
)
DEGREES = (9, 10, 13, 14)
"""Years of schooling at which the five degrees change."""

MARITAL = ("never", "married", "divorced", "separated", "widowed", "spouse-absent")
MARITALS = (  # stage times sex
    (860, 105, 15, 12, 1, 7), (905, 80, 6, 5, 0, 4),
    (360, 440, 130, 50, 5, 15), (370, 530, 70, 18, 1, 11),
    (150, 510, 240, 60, 25, 15), (130, 710, 125, 20, 3, 12),
    (60, 500, 250, 40, 135, 15), (50, 795, 115, 17, 12, 11),
    (55, 330, 130, 15, 460, 10), (40, 775, 70, 10, 95, 10),
)  # fmt: skip
HOUSEHOLD = ("head", "spouse", "child", "alone", "kin", "shared")
HOUSEHOLDS = (  # marital times sex
    (90, 0, 400, 330, 50, 130), (110, 0, 380, 370, 45, 95),
    (60, 890, 12, 8, 25, 5), (955, 5, 15, 5, 15, 5),
    (420, 0, 60, 430, 40, 50), (110, 0, 70, 720, 40, 60),
    (480, 0, 80, 330, 60, 50), (120, 0, 90, 640, 70, 80),
    (330, 0, 5, 600, 50, 15), (190, 0, 5, 720, 60, 25),
    (300, 0, 60, 500, 80, 60), (80, 0, 60, 720, 80, 60),
)  # fmt: skip

OCCUPATION = (
    "management", "professional", "technical", "office", "sales", "crafts", "machines", "transport", "labour",
    "farming", "care", "service", "protection", "?",
)  # fmt: skip
OCCUPATIONS = (125, 126, 30, 115, 112, 125, 62, 48, 42, 30, 30, 70, 20, 57)
OCCUPATION_BY_DEGREE = (
    (3, 1, 2, 5, 6, 14, 20, 15, 18, 22, 20, 20, 5, 14),
    (6, 2, 5, 11, 9, 15, 15, 14, 13, 11, 12, 13, 10, 10),
    (10, 7, 17, 14, 12, 10, 7, 8, 7, 7, 9, 9, 13, 11),
    (20, 25, 15, 9, 14, 3, 2, 2, 2, 5, 4, 3, 9, 6),
    (20, 60, 10, 4, 5, 1, 1, 1, 1, 3, 2, 1, 4, 5),
)
OCCUPATION_BY_SEX = (
    (8, 11, 9, 20, 9, 2, 8, 2, 3, 2, 22, 17, 3, 11),
    (11, 10, 11, 5, 11, 15, 11, 15, 14, 15, 3, 7, 14, 9),
)

EMPLOYER = ("private", "own-small", "own-large", "local", "state", "federal", "unpaid", "?")
EMPLOYERS = (  # degree
    (770, 75, 20, 45, 25, 15, 5, 45),
    (760, 80, 28, 55, 30, 22, 3, 22),
    (740, 75, 35, 65, 40, 32, 2, 11),
    (660, 80, 55, 105, 50, 42, 1, 7),
    (520, 110, 75, 130, 105, 52, 1, 7),
)

HOUR_BANDS = ((1, 19), (20, 34), (35, 39), (40, 40), (41, 49), (50, 59), (60, 99))
HOURS = (  # stage times sex
    (130, 300, 90, 400, 35, 30, 15), (90, 220, 70, 460, 60, 65, 35),
    (40, 140, 95, 540, 75, 75, 35), (15, 55, 40, 540, 110, 150, 90),
    (45, 140, 100, 540, 70, 70, 35), (12, 30, 30, 520, 120, 180, 108),
    (60, 150, 100, 530, 65, 65, 30), (20, 50, 40, 520, 110, 165, 95),
    (240, 320, 80, 260, 35, 40, 25), (180, 250, 70, 290, 60, 90, 60),
)  # fmt: skip
GAIN_BANDS = ((0, 0), (1, 2999), (3000, 4999), (5000, 6999), (7000, 14_999), (15_000, 99_999))
GAINS = (  # married or not times degree
    (974, 12, 8, 2, 3, 1), (966, 15, 10, 2, 6, 1), (956, 20, 13, 2, 8, 1),
    (935, 22, 17, 2, 19, 5), (900, 20, 20, 5, 40, 15),
    (945, 14, 18, 5, 16, 2), (915, 14, 22, 7, 36, 6), (888, 16, 25, 7, 55, 9),
    (830, 14, 18, 7, 100, 31), (760, 12, 16, 7, 120, 85),
)  # fmt: skip
LOSS_BANDS = ((0, 0), (1, 1599), (1600, 1799), (1800, 1999), (2000, 2199), (2200, 4356))
LOSSES = ((974, 5, 10, 3, 3, 5), (936, 4, 8, 38, 4, 10))  # married or not

SHARPNESS, OFFSET = 0.76, -910
"""Of the labels' scores, which are in hundredths of a logit."""


def _number(weight: float, **rule: Any) -> dict[str, Any]:
    return {"kind": "numeric", "weight": weight} | rule


def _one_of(weight: float, categories: Sequence[Any], **rule: Any) -> dict[str, Any]:
    return {"kind": "categorical", "weight": weight, "categories": categories} | rule


SCHEMA: dict[str, Any] = {
    "label": "income",
    "labels": ["low", "high"],
    "columns": {
        "age": _number(0.75, low=17, high=90),
        "age-bin": _number(2, column="age", edges=[17, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65]),
        "schooling": _number(3.5, low=1, high=16, scale="centred"),
        "schooling-year": _one_of(2.5, list(range(1, 17)), column="schooling"),
        "hours-bin": _number(0.75, column="hours", edges=[1, 20, 35, 40, 41, 50, 60]),
        "gain": _number(3.5, low=0, high=99_999, scale="log"),
        "gain-bin": _number(12, column="gain", edges=[1, 3000, 5000, 7000]),
        "loss-bin": _number(8, column="loss", edges=[1, 1600, 1800, 2000, 2200]),
        "employer": _one_of(0.75, EMPLOYER),
        "marital": _one_of(2.5, MARITAL),
        "occupation": _one_of(3, OCCUPATION),
        "household": _one_of(2.5, HOUSEHOLD),
        "region": _one_of(0.4, REGION),
        "language": _one_of(0.4, LANGUAGE),
        "sex": _one_of(0.75, SEX),
        "birthplace": _one_of(0.4, BIRTHPLACE),
    },
}
"""The encoding, in the keys of `[data.schema]`."""


def read_census(paths: Sequence[Path] = ()) -> RawTable:
    """Generate the records."""
    columns = _people()
    return RawTable(tuple(columns), RECORDS, columns.__getitem__, lambda row: f"census, record {row + 1}", "census")


@cache
def _people() -> Mapping[str, RawColumn]:
    """Made once a process: 2.7 MB, half of the time in which a short run reads its records."""
    generator = np.random.Generator(np.random.PCG64(_SEED))

    def uniform() -> Vector:
        return generator.random(RECORDS)

    nobody: Integers = np.zeros(RECORDS, dtype=np.intp)
    age = np.floor(np.interp(uniform(), np.arange(len(AGES)) / (len(AGES) - 1), AGES)).astype(np.intp)
    stage = np.searchsorted(STAGES, age, side="right")
    sex = _pick(uniform(), nobody, [(48, 52)])
    birthplace = _pick(uniform(), nobody, [BIRTHPLACES])
    elsewhere = (birthplace > 0).astype(np.intp)
    language = _pick(uniform(), elsewhere, LANGUAGES)
    region = _pick(uniform(), elsewhere, REGIONS)
    schooling = 1 + _pick(uniform(), 2 * elsewhere + (stage > 0), SCHOOLING)
    degree = np.searchsorted(DEGREES, schooling, side="right")
    marital = _pick(uniform(), 2 * stage + sex, MARITALS)
    married = (marital == 1).astype(np.intp)
    household = _pick(uniform(), 2 * marital + sex, HOUSEHOLDS)
    frequencies = [
        [a * b * c for a, b, c in zip(OCCUPATIONS, by_degree, by_sex, strict=True)]
        for by_degree in OCCUPATION_BY_DEGREE
        for by_sex in OCCUPATION_BY_SEX
    ]
    occupation = _pick(uniform(), 2 * degree + sex, frequencies)
    employer = _pick(uniform(), degree, EMPLOYERS)
    hours_band = _pick(uniform(), 2 * stage + sex, HOURS)
    hours = _within(uniform(), hours_band, HOUR_BANDS)
    gain_band = _pick(uniform(), 5 * married + degree, GAINS)
    gain = _within(uniform(), gain_band, GAIN_BANDS)
    loss_band = _pick(uniform(), married, LOSSES)
    loss = _within(uniform(), loss_band, LOSS_BANDS)

    # a year of schooling counts more for the married: the one interplay that no feature states
    score = (40 + 5 * married) * schooling - 25 * elsewhere
    for code, points in (  # a gain or a loss of money settles most cases
        (sex, (0, 25)),
        (stage, (-90, -10, 30, 40, 0)),
        (marital, (0, 330, 10, 0, 5, 0)),
        (household, (0, 60, -60, 0, -40, -20)),
        (occupation, (85, 70, 65, 15, 30, 0, -25, -15, -60, -90, -120, -75, 45, -40)),
        (employer, (0, -45, 45, -5, -15, 55, -200, -60)),
        (hours_band, (-60, -50, -10, 0, 40, 60, 55)),
        (gain_band, (0, -60, -30, 40, 480, 900)),
        (loss_band, (0, -30, -60, 330, -40, 200)),
        (region, (15, 5, 0, 0, -5, -10, -10, -20, -25)),
    ):
        score = score + np.array(points)[code]
    income = (uniform() < _chance(score)).astype(np.intp)

    coded: dict[str, tuple[tuple[str, ...], Integers]] = {
        "employer": (EMPLOYER, employer),
        "marital": (MARITAL, marital),
        "occupation": (OCCUPATION, occupation),
        "household": (HOUSEHOLD, household),
        "region": (REGION, region),
        "language": (LANGUAGE, language),
        "sex": (SEX, sex),
        "birthplace": (BIRTHPLACE, birthplace),
        "income": (("low", "high"), income),
    }
    numbers = {"age": age, "schooling": schooling, "hours": hours, "gain": gain, "loss": loss}
    columns = {name: column_of_numbers(values.astype(np.float64)) for name, values in numbers.items()}
    return columns | {name: RawColumn(levels, code.astype(np.int32)) for name, (levels, code) in coded.items()}


def _pick(u: Vector, parent: Integers, frequencies: Sequence[Sequence[int]]) -> Integers:
    """Draw a category a row by inverse CDF, from the row of `frequencies` that its parent names."""
    weights = np.array(frequencies, dtype=np.float64)
    ends = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    edges = (ends + np.arange(len(weights))[:, None]).ravel()  # one increasing list; row p covers [p, p + 1]
    width = weights.shape[1]
    drawn = np.searchsorted(edges, parent + u, side="right") - parent * width
    inside: Integers = np.clip(drawn, 0, width - 1)  # rounding of parent + u must not lead to another row
    return inside


def _within(u: Vector, band: Integers, bands: Sequence[tuple[int, int]]) -> Integers:
    """Whole numbers inside bands, the low ones more often."""
    low, high = (np.array(ends)[band] for ends in zip(*bands, strict=True))
    values: Integers = low + np.floor(u * u * (high - low + 1)).astype(np.intp)
    return values


def _chance(score: Integers) -> Vector:
    """Logistic of the score through a rounded table, so that a last bit of exp() changes no label."""
    lowest = int(score.min())
    logits = (SHARPNESS * (points + OFFSET) / 100 for points in range(lowest, int(score.max()) + 1))
    table = np.array([round(1 / (1 + math.exp(-logit)), 9) for logit in logits])
    return table[score - lowest]


SETS = (
    DataSet(
        name="census",
        read=read_census,
        schema=SCHEMA,
        test_share=13_842 / RECORDS,  # leaves 35,000 for training
        notes=("census is synthetic: invented records in the shape of census data",),
    ),
)
