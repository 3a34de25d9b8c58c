"""Adult (Kohavi 1996; UCI, CC BY 4.0): 48,842 records, encoded by the public code book alone.

Categories and ranges are those of the file `adult.names`, bands those of published labour statistics, countries
are grouped by region. Nothing is fitted to records, no part is weighted; `docs/data.md` lists it all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from admmnet.data.known import DataSet, bands, codes
from admmnet.data.readers.delimited import Form, read_texts

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
        "age": bands(17, 25, 35, 45, 55, 65),
        "hours-per-week": bands(1, 35, 40, 41, 49, 60),
        "education-num": codes(*range(1, 17)),
        # most people have neither: whether there is any, and how much on a log scale
        "any-gain": bands(1) | {"column": "capital-gain"},
        "capital-gain": {"kind": "numeric", "low": 0, "high": 99_999, "scale": "log"},
        "any-loss": bands(1) | {"column": "capital-loss"},
        "capital-loss": {"kind": "numeric", "low": 0, "high": 4356, "scale": "log"},
        "workclass": codes(
            "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
            "Never-worked", "?",
        ),
        "marital-status": codes(
            "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
            "Married-AF-spouse",
        ),
        "occupation": codes(
            "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
            "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
            "Priv-house-serv", "Protective-serv", "Armed-Forces", "?",
        ),
        "relationship": codes("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
        "race": codes("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
        "sex": codes("Female", "Male"),
        "native-country": {
            "kind": "categorical",
            "groups": {
                "United-States": ["United-States"],
                "Latin-America": [
                    "Puerto-Rico", "Outlying-US(Guam-USVI-etc)", "Cuba", "Honduras", "Jamaica", "Mexico",
                    "Dominican-Republic", "Ecuador", "Haiti", "Columbia", "Guatemala", "Nicaragua", "El-Salvador",
                    "Trinadad&Tobago", "Peru",
                ],
                "Asia": [
                    "Cambodia", "India", "Japan", "South", "China", "Iran", "Philippines", "Vietnam", "Laos", "Taiwan",
                    "Thailand", "Hong",
                ],
                "Europe-Canada": [
                    "England", "Canada", "Germany", "Greece", "Italy", "Poland", "Portugal", "Ireland", "France",
                    "Hungary", "Scotland", "Yugoslavia", "Holand-Netherlands",
                ],
                "?": ["?"],
            },
        },
    },
}  # fmt: skip
"""The encoding, in the keys of `[data.schema]`."""

AGE: dict[str, Any] = {
    "label": "age",
    "targets": [17, 90],  # people of 17 and more, by the code book; the survey counts all above 90 as 90
    "drop": SCHEMA["drop"],
    "columns": {name: own for name, own in SCHEMA["columns"].items() if name != "age"}
    # adult.test ends incomes with a full stop
    | {"income": {"kind": "categorical", "groups": {word: [word, f"{word}."] for word in SCHEMA["labels"]}}},
}
"""The same with the age in years as a real target, and the income among the features."""

ADULT = DataSet(
    name="adult",
    read=partial(read_texts, names=NAMES, form=Form(header=False), skip="|"),  # "|1x3 Cross validator"
    schema=SCHEMA,
    files=(("adult/adult.data",), ("adult/adult.test",)),
    origin="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
    sha256={
        "adult/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult/adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
    relabel=lambda label: label.rstrip("."),  # adult.test ends them so
    official=True,
    test_share=13_842 / 48_842,  # leaves 35,000 for training
)

SETS = (ADULT, replace(ADULT, name="adult:age", schema=AGE, relabel=None))
