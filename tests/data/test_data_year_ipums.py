"""year-prediction-msd and ipums: small files in the real formats."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from admmnet.data import DataSettings, load, load_new, sets, validate
from admmnet.data.rows import INTERCEPT
from admmnet.errors import RequestError
from tests.data.conftest import Write, below, every

# year-prediction-msd


def songs(n: int = 40) -> str:
    rng = np.random.default_rng(1)
    rows = rng.normal(0, 50, (n, 90))
    years = rng.integers(1922, 2012, n)
    return "".join(f"{year}," + ",".join(f"{v:.5f}" for v in row) + "\n" for year, row in zip(years, rows, strict=True))


FILE = "year-prediction-msd/YearPredictionMSD.txt"


def test_year_prediction(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = songs()
    folder = below(write(FILE, text))
    with pytest.raises(RequestError, match=r"holds 40 records, the official split needs 515345.*--test-fraction"):
        every("year-prediction-msd", data_dir=folder)
    records = every("year-prediction-msd", data_dir=folder, test_fraction=0.25)
    assert records.task == "real"
    assert records.preprocessing == "public-bounds"
    assert records.X_test.shape == (10, 91)
    numbers = np.array([[float(cell) for cell in line.split(",")] for line in text.splitlines()])
    name = "year-prediction-msd"
    monkeypatch.setitem(sets.KNOWN, name, replace(sets.KNOWN[name], records=40, train=30))
    for test in (None, "official"):
        official = every("year-prediction-msd", 3, data_dir=folder, test=test)
        assert official.counts == {0: 10, 1: 10, 2: 10}
        np.testing.assert_allclose(official.y_test, (numbers[30:, 0] - 1966.5) / 44.5, rtol=1e-14)
        raw = official.X_test / official.X_test[:, -1:]
        np.testing.assert_allclose(raw[:, :-1], numbers[30:, 1:], rtol=1e-9)
    assert official.target is not None
    np.testing.assert_allclose(official.target.unscaled(official.y_test), numbers[30:, 0], rtol=1e-14)


def test_year_prediction_packed(tmp_path: Path, write: Write) -> None:
    plain = every("year-prediction-msd", data_dir=below(write(FILE, songs())), test_fraction=0.25)
    for kind in ("gz", "zip"):
        folder = tmp_path / kind / "year-prediction-msd"
        folder.mkdir(parents=True)
        if kind == "gz":
            (folder / "YearPredictionMSD.txt.gz").write_bytes(gzip.compress(songs().encode()))
        else:
            with zipfile.ZipFile(folder / "YearPredictionMSD.txt.zip", "w") as archive:
                archive.writestr("YearPredictionMSD.txt", songs())
        packed = every("year-prediction-msd", data_dir=str(folder.parent), test_fraction=0.25)
        np.testing.assert_array_equal(packed.X_test, plain.X_test)
        np.testing.assert_array_equal(packed.y_test, plain.y_test)
    with zipfile.ZipFile(folder / "YearPredictionMSD.txt.zip", "a") as archive:
        archive.writestr("readme", "two")
    with pytest.raises(RequestError, match="holds 2 files"):
        every("year-prediction-msd", data_dir=str(folder.parent), test_fraction=0.25)
    (folder / "YearPredictionMSD.txt.zip").write_bytes(b"PK no zip")
    with pytest.raises(RequestError, match="is not a sound zip file"):
        every("year-prediction-msd", data_dir=str(folder.parent), test_fraction=0.25)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",", "", "line 3: 90 values, expected 91"),
        (",", ",,", "line 3: 92 values, expected 91"),
        (",", ",x", r"line 3, column 2: 'x.*' is no finite number"),
        (",", ",nan,", "line 3: 92 values"),
        ("19", "inf", "column 1: 'inf.*' is no finite number"),
        ("19", "#19", "column 1: '#19.*' is no finite number"),
        ("19", "\n19", "line 3: 0 values, expected 91"),
    ],
)
def test_year_prediction_refusals(old: str, new: str, words: str, write: Write) -> None:
    lines = songs(6).splitlines()
    lines[2] = ("1999" + lines[2][4:]).replace(old, new, 1)
    folder = below(write(FILE, "\n".join(lines)))
    with pytest.raises(RequestError, match=words):
        every("year-prediction-msd", data_dir=folder, test_fraction=0.5)


# ipums

USA = (
    "YEAR,SERIAL,PERNUM,PERWT,SEX,AGE,MARST,RACE,RACED,EDUC,EDUCD,EMPSTAT,CLASSWKR,UHRSWORK,OWNERSHP,FAMSIZE,"
    "NCHILD,INCTOT\n"
)
PERSONS = [
    "2019,1,1,12,1,43,1,1,100,10,101,1,2,45,1,4,2,61000",
    "2019,1,2,12,2,41,1,2,200,6,60,1,2,20,1,4,2,25000",
    "2019,1,3,12,2,10,6,1,100,2,20,0,0,0,1,4,0,9999999",
    "2019,2,1,12,2,70,5,1,100,11,114,3,1,0,2,1,0,25001",
]
BRAZIL = (
    "COUNTRY,YEAR,SAMPLE,AGE,SEX,MARST,MARSTD,NATIVITY,EDATTAIN,EMPSTAT,CLASSWK,HRSWORK1,OWNERSHIP,FAMSIZE,"
    "NCHILD,INCTOT\n"
)
BRAZILIANS = [
    "76,2000,76200001,30,1,2,210,1,3,1,2,44,1,3,1,301",
    "76,2000,76200001,999,2,1,110,2,4,3,0,999,2,1,0,300",
    "76,2000,76200001,4,2,1,110,1,0,0,0,999,2,5,0,9999998",
]


def extract(write: Write, text: str, name: str = "usa_00001.csv") -> str:
    return below(write(f"ipums/{name}", text))


def test_ipums_usa(write: Write) -> None:
    folder = extract(write, USA + "\n".join(PERSONS), "usa_00001.csv.gz")
    settings = DataSettings(data="ipums:usa_00001.csv.gz", data_dir=folder, test_fraction=0.34)
    validate(settings)
    records = load(settings, 1, [0])
    assert records.name == "ipums:usa_00001.csv.gz"
    assert len(records.y_test) + records.counts[0] == 3  # the child has no income
    assert records.left_out
    assert records.preprocessing == "data-dependent"  # the codes are public, but who has them is not
    new = load_new(settings, records.feature_names)
    np.testing.assert_array_equal(new.y_test, [1, -1, 1])
    assert new.labels == ("at most 25000", "above 25000")
    names = {name for name, value in zip(records.feature_names, new.X_test[0], strict=True) if value != 0}
    assert names == {
        "AGE=[35,45)", "SEX=1", "MARST=1", "RACE=1", "EDUC=10", "EMPSTAT=1", "CLASSWKR=2", "UHRSWORK=[41,49)",
        "OWNERSHP=1", "FAMSIZE=[4,5)", "NCHILD=[2,3)", INTERCEPT,
    }  # fmt: skip
    unlabelled = load_new(settings, records.feature_names, labelled=False)
    assert len(unlabelled.X_test) == 4


def test_ipums_international(write: Write) -> None:
    folder = extract(write, BRAZIL + "\n".join(BRAZILIANS), "brazil.csv")
    settings = DataSettings(data="ipums:brazil.csv", data_dir=folder, test_fraction=0.5)
    records = load(settings, 1, [0])
    new = load_new(settings, records.feature_names)
    np.testing.assert_array_equal(new.y_test, [1, -1])
    row = dict(zip(records.feature_names, new.X_test[1], strict=True))
    assert row["AGE=[999,inf)"] > 0
    assert row["HRSWORK1=[998,inf)"] > 0
    assert row["NATIVITY=2"] > 0


def test_ipums_threshold_and_own_columns(write: Write) -> None:
    folder = extract(write, USA + "\n".join(PERSONS))
    settings = DataSettings(
        data="ipums:usa_00001.csv", data_dir=folder, test_fraction=0.34, schema={"threshold": 60_000}
    )
    new = load_new(settings, load(settings, 1, [0]).feature_names)
    np.testing.assert_array_equal(new.y_test, [1, -1, -1])
    own = {"drop": ["*"], "threshold": 0, "columns": {"SEX": {"kind": "categorical", "categories": [1, 2]}}}
    settings = DataSettings(data=f"ipums:{folder}/ipums/usa_00001.csv", test_fraction=0.5, label="INCTOT", schema=own)
    assert load(settings, 1, [0]).feature_names == ("SEX=1", "SEX=2", INTERCEPT)


@pytest.mark.parametrize(
    ("text", "others", "words"),
    [
        (USA.replace("UHRSWORK", "HRSWORK2") + PERSONS[0], {}, r"lacks UHRSWORK: an extract of IPUMS USA needs"),
        (BRAZIL.replace("EDATTAIN,", ""), {}, r"has a header and no records"),
        (BRAZIL.replace("EDATTAIN,", "") + "1," * 14 + "1", {}, "lacks EDATTAIN: an extract of IPUMS International"),
        (USA.replace("YEAR", "POVERTY") + PERSONS[0], {}, "does not declare 'POVERTY'; add each to"),
        (USA + PERSONS[0].replace(",43,1,", ",43,8,"), {}, "line 2, column 'MARST': undeclared category '8'"),
        (USA + PERSONS[2], {}, "every record has a label of leave_out"),
        (USA + PERSONS[0], {"label": "AGE"}, "the label of an ipums extract is one of INCTOT, INCEARN, got 'AGE'"),
        (USA + PERSONS[0], {"positive": "1"}, "--positive 1 goes with"),
        (USA + PERSONS[0], {"test": "other.csv"}, "takes no --test"),
    ],
)  # fmt: skip
def test_ipums_refusals(text: str, others: dict[str, Any], words: str, write: Write) -> None:
    folder = extract(write, text)
    with pytest.raises(RequestError, match=words):
        every("ipums:usa_00001.csv", data_dir=folder, **others)
