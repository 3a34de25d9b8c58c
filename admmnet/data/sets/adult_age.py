"""Adult with the age in years as a real target, and the income among the features."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from admmnet.data.known import read_set

_ADULT = read_set(Path(__file__).with_name("adult.toml"))
_INCOMES = {"kind": "categorical", "groups": _ADULT.schema["labels"]}
_OTHERS = {name: own for name, own in _ADULT.schema["columns"].items() if name != "age"}
SCHEMA = {
    "label": "age",
    "targets": [17, 90],  # people of 17 and more, by the code book; the survey counts all above 90 as 90
    "drop": _ADULT.schema["drop"],
    "columns": _OTHERS | {"income": _INCOMES},
}

SETS = (replace(_ADULT, name="adult:age", schema=SCHEMA),)
