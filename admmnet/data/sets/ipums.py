"""Extracts of IPUMS USA and IPUMS International (csv), the source of the "US" and "Brazil" sets of papers.

The variables and their codes are those of the public documentation of each collection; nothing is read from records.
IPUMS licenses its data to registered users, so that the extract is the user's own (docs/data.md).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from admmnet.data.known import DataSet, bands, codes, each
from admmnet.data.readers.delimited import read_texts
from admmnet.data.schema import Schema, parse_schema
from admmnet.data.table import RawTable
from admmnet.errors import RequestError

INCOMES: dict[str, list[int]] = {"INCTOT": [9_999_998, 9_999_999], "INCEARN": [99_999_998, 99_999_999]}
"""Variables the label may be made of, and their codes for "unknown" and "not in universe"."""

TECHNICAL = (
    "YEAR", "SAMPLE", "SERIAL", "CBSERIAL", "HHWT", "HHTYPE", "CLUSTER", "STRATA", "GQ", "PERNUM", "PERWT", "DATANUM",
    "COUNTRY", "MULTYEAR", "CPI99", "CBPERNUM", "REPWT", "REPWTP", "PERSONS", "SUBSAMP",
)  # fmt: skip
"""Variables that identify or weigh a record: left out."""


_AGE = bands(15, 25, 35, 45, 55, 65, 999)  # 999: unknown
_SEX = codes(1, 2, 9)
_CHILDREN = bands(1, 2, 3, 4)
_FAMILY = bands(2, 3, 4, 5, 7)

USA: dict[str, Any] = {
    "label": "INCTOT",
    "threshold": 25_000,
    "columns": {
        "AGE": _AGE,
        "SEX": _SEX,
        "MARST": codes(1, 2, 3, 4, 5, 6, 9),
        "RACE": codes(*range(1, 10)),
        "EDUC": codes(*range(12), 99),
        "EMPSTAT": codes(0, 1, 2, 3, 9),
        "CLASSWKR": codes(0, 1, 2),
        "UHRSWORK": bands(1, 35, 40, 41, 49, 60),
        "OWNERSHP": codes(0, 1, 2),
        "FAMSIZE": _FAMILY,
        "NCHILD": _CHILDREN,
    },
}
"""Encoding of an IPUMS USA extract: yearly income above 25,000 dollars."""

INTERNATIONAL: dict[str, Any] = {
    "label": "INCTOT",
    "threshold": 300,
    "columns": {
        "AGE": _AGE,
        "SEX": _SEX,
        "MARST": codes(0, 1, 2, 3, 4, 9),
        "NATIVITY": codes(0, 1, 2, 9),
        "EDATTAIN": codes(0, 1, 2, 3, 4, 9),
        "EMPSTAT": codes(0, 1, 2, 3, 9),
        "CLASSWK": codes(0, 1, 2, 3, 4, 9),
        "HRSWORK1": bands(1, 35, 40, 41, 49, 60, 998),  # 998 and 999: unknown, not in universe
        "OWNERSHIP": codes(0, 1, 2, 9),
        "FAMSIZE": _FAMILY,
        "NCHILD": _CHILDREN,
    },
}
"""Encoding of an IPUMS International extract: monthly income above 300 of the country's currency, as for Brazil."""


def _adapt(table: RawTable, declared: Schema, labelled: bool) -> Schema:
    """Fill in what the user's schema leaves open; records of unknown income are left out."""
    schema = declared if declared.rules else _public(table, declared, labelled)
    if not schema.leave_out and schema.label in INCOMES:
        schema = replace(schema, leave_out=tuple(str(code) for code in INCOMES[schema.label]))
    return schema


def _public(table: RawTable, declared: Schema, labelled: bool) -> Schema:
    """Fill in the public encoding of the collection that the variables of the header belong to."""
    path, header = table.origin, table.names
    usa = not {"EDUC", "OWNERSHP", "CLASSWKR", "UHRSWORK", "RACE"}.isdisjoint(header)
    schema = parse_schema(USA if usa else INTERNATIONAL)
    label = declared.label or schema.label
    assert label is not None  # both tables name one
    if label not in INCOMES:
        raise RequestError(
            f"{path}: the label of an ipums extract is one of {', '.join(INCOMES)}, got {label!r}; for another one"
            " declare its columns in [data.schema]"
        )
    used = {*(rule.column for rule in schema.rules), label}
    missing = [name for name in used if name not in header and (labelled or name != label)]
    if missing:
        collection = "USA" if usa else "International"
        raise RequestError(
            f"{path} lacks {', '.join(sorted(missing))}: an extract of IPUMS {collection} needs the variables"
            f" {', '.join(sorted(used))}; make it anew, or declare its own columns in [data.schema]"
        )
    known = {*used, *TECHNICAL, *INCOMES, *declared.drop}
    left = {name for name in header if name in known or name.removesuffix("D") in known}  # EDUCD beside EDUC
    drop = (*(left - used), *(name for name in declared.drop if name == "*"))
    one = declared.labels is None and declared.targets is None and declared.threshold is None
    return replace(
        declared, rules=schema.rules, label=label, drop=drop, threshold=schema.threshold if one else declared.threshold
    )


SETS = (
    DataSet(
        name="ipums:",
        shown="ipums:FILE",
        takes=(r".*\.csv(\.gz)?", "an extract in csv form, ending with .csv or .csv.gz"),
        read=each(read_texts),
        files=(("ipums/FILE",),),
        origin="ipums.org (an extract in csv form, for registered users)",
        adapt=_adapt,
        public=False,
    ),
)
