"""Adult (Kohavi 1996; UCI, CC BY 4.0): 48,842 records, encoded by the public code book alone.

Categories and ranges are those of the file `adult.names`, bands those of published labour statistics, countries
are grouped by region. Nothing is fitted to records, no part is weighted; `docs/data.md` lists it all.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data.columns import Column, Table, column_of
from admmnet.data.encode import encode
from admmnet.data.files import locate, read_lines
from admmnet.data.labels import read_labels
from admmnet.data.schema import parse_schema
from admmnet.data.source import Source
from admmnet.data.tables import flat_cells
from admmnet.errors import RequestError

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
TEST_SHARE = 13_842 / 48_842
"""Leaves 35,000 of the 48,842 records for training."""

NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status",
    "occupation", "relationship", "race", "sex", "capital-gain", "capital-loss",
    "hours-per-week", "native-country", "income",
)  # fmt: skip
"""Columns of the raw files in order."""

SCHEMA: dict[str, Any] = {
    "label": "income",
    "labels": ["<=50K", ">50K"],
    "drop": ["fnlwgt", "education"],
    "columns": {
        # age bands and hours worked as labour statistics publish them; full time starts at 35 hours
        "age": {"kind": "numeric", "edges": [17, 25, 35, 45, 55, 65]},
        "hours-per-week": {"kind": "numeric", "edges": [1, 35, 40, 41, 49, 60]},
        "education-num": {"kind": "categorical", "categories": list(range(1, 17))},
        # most people have neither: whether there is any, and how much on a log scale
        "any-gain": {"kind": "numeric", "column": "capital-gain", "edges": [1]},
        "capital-gain": {"kind": "numeric", "low": 0, "high": 99_999, "scale": "log"},
        "any-loss": {"kind": "numeric", "column": "capital-loss", "edges": [1]},
        "capital-loss": {"kind": "numeric", "low": 0, "high": 4356, "scale": "log"},
        "workclass": {
            "kind": "categorical",
            "categories": [
                "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
                "Without-pay", "Never-worked", "?",
            ],
        },
        "marital-status": {
            "kind": "categorical",
            "categories": [
                "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
                "Married-spouse-absent", "Married-AF-spouse",
            ],
        },
        "occupation": {
            "kind": "categorical",
            "categories": [
                "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
                "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing",
                "Transport-moving", "Priv-house-serv", "Protective-serv", "Armed-Forces", "?",
            ],
        },
        "relationship": {
            "kind": "categorical",
            "categories": ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
        },
        "race": {
            "kind": "categorical",
            "categories": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
        },
        "sex": {"kind": "categorical", "categories": ["Female", "Male"]},
        "native-country": {
            "kind": "categorical",
            "groups": {
                "United-States": ["United-States"],
                "Latin-America": [
                    "Puerto-Rico", "Outlying-US(Guam-USVI-etc)", "Cuba", "Honduras", "Jamaica", "Mexico",
                    "Dominican-Republic", "Ecuador", "Haiti", "Columbia", "Guatemala", "Nicaragua",
                    "El-Salvador", "Trinadad&Tobago", "Peru",
                ],
                "Asia": [
                    "Cambodia", "India", "Japan", "South", "China", "Iran", "Philippines", "Vietnam", "Laos",
                    "Taiwan", "Thailand", "Hong",
                ],
                "Europe-Canada": [
                    "England", "Canada", "Germany", "Greece", "Italy", "Poland", "Portugal", "Ireland",
                    "France", "Hungary", "Scotland", "Yugoslavia", "Holand-Netherlands",
                ],
                "?": ["?"],
            },
        },
    },
}  # fmt: skip
"""The encoding, in the keys of `[data.schema]`."""


def find_adult(data_dir: str | None, download: bool) -> tuple[Path, Path]:
    """Paths of the training and the test file.

    Parameters
    ----------
    data_dir : str or None
        `--data-dir`.
    download : bool
        Whether files that are nowhere may be downloaded to the cache.

    Returns
    -------
    data, test : Path
        Existing files.

    Raises
    ------
    RequestError
        Saying where they were expected and what to do.
    """
    data, test = (
        locate(f"adult/{name}", data_dir, URL + name if download else None, SHA256[name]) for name in SHA256
    )
    return data, test


def read_adult(data_dir: str | None) -> Source:
    """Read both files; rows of `adult.test` come last.

    Parameters
    ----------
    data_dir : str or None
        `--data-dir`.

    Returns
    -------
    Source
        All records, `official` being the first of `adult.test`.

    Raises
    ------
    RequestError
        With file, line and column, for a row that the code book does not allow.
    """
    data, test = find_adult(data_dir, download=True)
    parts: list[tuple[Path, int, list[str]]] = []
    for path in (data, test):
        lines = read_lines(path)
        first = 1 if lines[0].startswith("|") else 0  # "|1x3 Cross validator"
        if len(lines) == first:
            raise RequestError(f"{path} holds no record: get the original file of the UCI archive")
        parts.append((path, first, lines[first:]))
    counts = [len(lines) for _, _, lines in parts]

    def place(part: int, row: int) -> str:
        path, first, _ = parts[part]
        return f"{path}, line {row + first + 1}"

    def where(row: int) -> str:
        return place(0, row) if row < counts[0] else place(1, row - counts[0])

    cells: list[str] = []
    for part, (_, _, lines) in enumerate(parts):
        cells += flat_cells(lines, len(NAMES), ", ", partial(place, part))

    def read(name: str) -> Column:
        return column_of(cells[NAMES.index(name) :: len(NAMES)])

    table = Table(NAMES, sum(counts), read, where, "adult")
    schema = parse_schema(SCHEMA)
    raw = table.column("income")
    income = Column(tuple(level.rstrip(".") for level in raw.levels), raw.codes)  # adult.test ends them so
    labels = read_labels(income, "income", where, schema.labels, None, discover=False)
    encoded = encode(schema, table)
    return Source(
        name="adult",
        y=np.ascontiguousarray(labels.y),
        features=encoded.names,
        rows=encoded.rows,
        column=table.column,
        where=where,
        schema=schema,
        bounds=encoded.bounds,
        official=counts[0],
        test_share=TEST_SHARE,
    )
