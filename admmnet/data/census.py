"""A synthetic stand-in for census records: 48,842 invented people, the same on every machine.

No record, frequency or correlation is taken from real people; columns are drawn one after the other from
the tables of `census_tables`, each given earlier ones, and labels from a noisy score. Errors on it say how a
method behaves on data of this shape, nothing about the world.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from admmnet.data import census_tables as t
from admmnet.data.columns import Column, Table, column_of_numbers
from admmnet.data.encode import encode
from admmnet.data.labels import read_labels
from admmnet.data.schema import parse_schema
from admmnet.data.source import Source
from admmnet.types import Vector

RECORDS = 48_842
TEST_SHARE = 13_842 / RECORDS
"""Leaves 35,000 records for training."""
_SEED = 20_240_501  # of the people, not of the draw: `--data-seed` never changes who they are

Integers = NDArray[np.intp]


def read_census() -> Source:
    """Generate the records.

    Returns
    -------
    Source
        48,842 records, about 24 % of them positive; every label has its noise, so that no classifier gets
        below about 14 % error.
    """
    columns = _people()

    def where(row: int) -> str:
        return f"census, record {row + 1}"

    table = Table(tuple(columns), RECORDS, columns.__getitem__, where, "census")
    schema = parse_schema(t.SCHEMA)
    labels = read_labels(table.column("income"), "income", where, schema.labels, None, discover=False)
    encoded = encode(schema, table)
    return Source(
        name="census",
        y=labels.y,
        features=encoded.names,
        rows=encoded.rows,
        column=table.column,
        where=where,
        schema=schema,
        bounds=encoded.bounds,
        test_share=TEST_SHARE,
        notes=("census is synthetic: invented records in the shape of census data",),
    )


def _people() -> dict[str, Column]:
    generator = np.random.Generator(np.random.PCG64(_SEED))

    def uniform() -> Vector:
        return generator.random(RECORDS)

    nobody: Integers = np.zeros(RECORDS, dtype=np.intp)
    age = np.floor(np.interp(uniform(), np.arange(len(t.AGES)) / (len(t.AGES) - 1), t.AGES)).astype(np.intp)
    stage = np.searchsorted(t.STAGES, age, side="right")
    sex = _pick(uniform(), nobody, [(48, 52)])
    birthplace = _pick(uniform(), nobody, [t.BIRTHPLACES])
    elsewhere = (birthplace > 0).astype(np.intp)
    language = _pick(uniform(), elsewhere, t.LANGUAGES)
    region = _pick(uniform(), elsewhere, t.REGIONS)
    schooling = 1 + _pick(uniform(), 2 * elsewhere + (stage > 0), t.SCHOOLING)
    degree = np.searchsorted(t.DEGREES, schooling, side="right")
    marital = _pick(uniform(), 2 * stage + sex, t.MARITALS)
    married = (marital == 1).astype(np.intp)
    household = _pick(uniform(), 2 * marital + sex, t.HOUSEHOLDS)
    frequencies = [
        [a * b * c for a, b, c in zip(t.OCCUPATIONS, by_degree, by_sex, strict=True)]
        for by_degree in t.OCCUPATION_BY_DEGREE
        for by_sex in t.OCCUPATION_BY_SEX
    ]
    occupation = _pick(uniform(), 2 * degree + sex, frequencies)
    employer = _pick(uniform(), degree, t.EMPLOYERS)
    hours_band = _pick(uniform(), 2 * stage + sex, t.HOURS)
    hours = _within(uniform(), hours_band, t.HOUR_BANDS)
    gain_band = _pick(uniform(), 5 * married + degree, t.GAINS)
    gain = _within(uniform(), gain_band, t.GAIN_BANDS)
    loss_band = _pick(uniform(), married, t.LOSSES)
    loss = _within(uniform(), loss_band, t.LOSS_BANDS)

    score = (t.SCORE_YEAR + t.SCORE_MARRIED_YEAR * married) * schooling + t.SCORE_ELSEWHERE * elsewhere
    for points, code in (
        (t.SCORE_SEX, sex), (t.SCORE_STAGE, stage), (t.SCORE_MARITAL, marital),
        (t.SCORE_HOUSEHOLD, household), (t.SCORE_OCCUPATION, occupation), (t.SCORE_EMPLOYER, employer),
        (t.SCORE_HOURS, hours_band),
        (t.SCORE_GAIN, gain_band), (t.SCORE_LOSS, loss_band), (t.SCORE_REGION, region),
    ):  # fmt: skip
        score = score + np.array(points)[code]
    income = (uniform() < _chance(score)).astype(np.intp)

    coded: dict[str, tuple[tuple[str, ...], Integers]] = {
        "employer": (t.EMPLOYER, employer),
        "marital": (t.MARITAL, marital),
        "occupation": (t.OCCUPATION, occupation),
        "household": (t.HOUSEHOLD, household),
        "region": (t.REGION, region),
        "language": (t.LANGUAGE, language),
        "sex": (t.SEX, sex),
        "birthplace": (t.BIRTHPLACE, birthplace),
        "income": (("low", "high"), income),
    }
    numbers = {"age": age, "schooling": schooling, "hours": hours, "gain": gain, "loss": loss}
    columns = {name: column_of_numbers(values.astype(np.float64)) for name, values in numbers.items()}
    return columns | {name: Column(levels, code.astype(np.int32)) for name, (levels, code) in coded.items()}


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
    logits = (t.SHARPNESS * (points + t.OFFSET) / 100 for points in range(lowest, int(score.max()) + 1))
    table = np.array([round(1 / (1 + math.exp(-logit)), 9) for logit in logits])
    return table[score - lowest]
