"""ACSIncome (Ding, Hardt, Miller, Schmidt 2021): persons of the American Community Survey, income above 50,000 dollars.

The records are the Census Bureau's public-use files of persons, one a state, as folktables gets them; which persons
count, and the ten variables, are those of folktables' ACSIncome. Codes are those of the public data dictionary of
2018; occupations and places of birth are taken together by the dictionary's own groups. Nothing is read from records.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from admmnet.data.known import DataSet, bands, codes
from admmnet.data.readers.delimited import Form, read_texts
from admmnet.data.source import selected
from admmnet.data.table import RawTable

STATE = "ST"
"""Column of the state, by its number; for --split by-column:ST."""
_LABELS = ("at most 50000", "above 50000")
_ABOVE = {"AGEP": 16, "PINCP": 100, "WKHP": 0, "PWGTP": 0}
"""What each must exceed for a person to count: folktables' adult_filter."""


COLUMNS: dict[str, dict[str, Any]] = {
    "AGEP": bands(17, 25, 35, 45, 55, 65),
    "COW": codes(*range(1, 10)),
    "SCHL": codes(*range(1, 25)),
    "MAR": codes(*range(1, 6)),
    # management, business, finance, computers, engineering, science, social service, law, education, arts, medicine,
    # health support, protection, food, cleaning, personal care, sales, office, farming, construction, extraction,
    # repair, production, transport, military, unemployed
    "OCCP": bands(
        *(0, 500, 800, 1000, 1300, 1600, 2000, 2100, 2200, 2600, 3000, 3600, 3700, 4000, 4200, 4300, 4700),
        *(5000, 6000, 6200, 6800, 7000, 7700, 9000, 9800, 9900),
    ),
    # states, islands, Europe, Asia, Canada, Mexico, Central America and Caribbean, South America, Africa, Oceania
    "POBP": bands(1, 60, 100, 200, 300, 303, 304, 360, 400, 500),
    "RELP": codes(*range(0, 18)),
    "WKHP": bands(1, 35, 40, 41, 49, 60),
    "SEX": codes(*range(1, 3)),
    "RAC1P": codes(*range(1, 10)),
}
"""The ten variables, in the keys of `[data.schema]`."""


def _income(text: str) -> str:
    """Label of a raw income, which `_adults` has found to be a number."""
    return _LABELS[float(text) > 50_000]


def _plain(text: str) -> str:
    """Code without the zeros before it, which the files have."""
    return text.lstrip("0") or text[-1:]


def _read(paths: Sequence[Path]) -> RawTable:
    table = read_texts(paths, (*COLUMNS, STATE, *(n for n in _ABOVE if n not in COLUMNS)), Form(header=True))
    return replace(table, read=lambda name: table.read(name).mapped(_plain))


def _adults(table: RawTable) -> RawTable:
    """Persons of 17 and more who worked, with an income above 100 dollars."""
    keep = np.ones(table.rows, dtype=bool)
    for name, least in _ABOVE.items():
        keep &= (table.numbers_of(name, missing=True) > least)[table.column(name).codes]  # nan: not asked
    return selected(table, keep)


SETS = (
    DataSet(
        name="acsincome",
        read=_read,
        select=_adults,
        schema={"label": "PINCP", "labels": list(_LABELS), "drop": [STATE, "PWGTP"], "columns": COLUMNS},
        files=(("acsincome/psam_p[0-9][0-9].csv", "2018/1-Year/psam_p[0-9][0-9].csv"),),
        origin="the Census Bureau's ACS PUMS of 2018, 1-Year, persons, one file a state (folktables gets them)",
        relabel=_income,
        stated=True,
    ),
)
