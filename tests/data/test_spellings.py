"""Numbers, separators and headers as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admmnet.config.toml import read_schema
from admmnet.data import DataSettings
from admmnet.data.given import Given
from admmnet.data.readers.delimited import Form, read_csv, read_unknown
from admmnet.data.table import Spelling, no_number
from admmnet.errors import RequestError
from tests.command_runs import Admmnet
from tests.data.conftest import NUMBER, WARD, Write, every

pytestmark = pytest.mark.usefixtures("_here")


@pytest.mark.parametrize(
    ("spelling", "text", "value"),
    [
        (Spelling(), "1.5", 1.5),
        (Spelling(","), "1,5", 1.5),
        (Spelling(",", "."), "-1.234.567,5", -1234567.5),
        (Spelling(",", "."), "1.234", 1234.0),
        (Spelling(".", ","), "1,234.5", 1234.5),
        (Spelling(",", " "), "12 345,0", 12345.0),
        (Spelling(","), "1.5", None),  # 15 for some readers, 1.5 for others
        (Spelling(",", "."), "1.5", None),
        (Spelling(".", ","), "1,5", None),
        (Spelling(".", ","), "12,34,567", None),
        (Spelling(), "1,5", None),
        (Spelling(), "inf", None),
    ],
)
def test_numbers_as_they_are_written(spelling: Spelling, text: str, value: float | None) -> None:
    assert spelling.finite(text) == value
    assert (no_number(text, spelling) is None) is (value is not None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3,14", 'declare decimal = "," in [data.schema]'),
        ("1,234", "may be with decimals or thousands"),
        ("1,234.5", 'thousands = ","'),
        ("2024-03-01", "is no number but a date; drop the column, or make an age"),
        ("01.03.2024 10:00", "a date"),
        ("12 %", "write it without its unit"),
        ("$5", "write it without its unit"),
        ("<5", "but a limit; write the number that stands for it"),
        ("1 234", "is no number for its blanks"),
        ("", "missing value"),
        ("nan", 'fill it in, or declare missing = "indicator"'),
        ("inf", "is not finite; remove the row"),
        ("see letter", "as categories, or drop it (`admmnet data draft` proposes one of these)"),
    ],
)
def test_what_is_no_number_is_named(text: str, words: str) -> None:
    assert words in str(no_number(text, Spelling()))


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("s.csv", "a;b;y\n3;4,5;1\n1;2;0\n", {"separator": ";", "schema": {"decimal": ","}}),
        ("s.csv", "\ufeffa;b;y\n3;4,5;1\n1;2;0\n", {"schema": {"separator": ";", "decimal": ","}}),
        ("s.tsv", "a\tb\ty\n3\t4.5\t1\n1\t2\t0\n", {}),
        ("s.csv", "a\tb\ty\n3\t4.5\t1\n1\t2\t0\n", {"separator": "tab"}),
        ("s.csv", 'a;b;y\n"3";"4.5";1\n1;2;0\n', {"separator": ";"}),
        ("s.csv", "0,1,y\n3,4.5,1\n1,2,0\n", {}),  # headers that count
        ("s.csv", "1,2,y\n3,4.5,1\n1,2,0\n", {}),
        ("s.csv", "2019,2020,y\n3,4.5,1\n1,2,0\n", {}),
    ],
)
def test_declared_forms_are_read(write: Write, name: str, text: str, settings: dict[str, Any]) -> None:
    records = every(write(name, text), label="y", no_test=True, **settings)
    X = records.shards[0][0]
    np.testing.assert_allclose(X[:, :2] / X[:, 2:], np.array([[3.0, 4.5], [1.0, 2.0]]), rtol=1e-15)
    assert records.preprocessing == "public-bounds"


def test_a_file_without_a_header(write: Write) -> None:
    path = write("n.csv", "39,A,1\n41,B,0\n")
    assert read_unknown(Path(path))[1] == Form(",", False)
    schema = {"header": False, "label": "x3", "columns": {"x1": NUMBER, "x2": WARD}}
    records = every(path, no_test=True, schema=schema)
    assert records.feature_names == ("x1", "x2=A", "x2=B", "intercept")
    assert records.counts == {0: 2}
    table = read_csv(Path(write("h.csv", "39,40.5,y\n1,2,1\n")), form=Form(header=True))
    assert table.names == ("39", "40.5", "y")


def test_spellings_are_those_of_texts_in_parquet_files_and_frames(admmnet: Admmnet) -> None:
    rng = np.random.default_rng(4)
    pay, dose = rng.uniform(900, 9000, 60).round(1), rng.uniform(0, 90, 60).round(3)
    plain = pd.DataFrame({"pay": pay, "dose": dose, "sick": np.where(pay > 4000, "yes", "no")})
    frame = plain.assign(pay=[f"{value:,.1f}".translate(str.maketrans(",.", ".,")) for value in pay])
    frame.to_parquet("g.parquet")
    frame.assign(dose=[str(x).replace(".", ",") for x in dose]).to_csv("g.csv", sep=";", index=False)
    told = admmnet.ok("data", "draft", "g.parquet", "--label", "sick", "-o", "s.toml").out
    assert "its numbers are read as 1.234,5" in told
    schema = read_schema(Path("s.toml"))["schema"]
    assert (schema["decimal"], schema["thousands"]) == (",", ".")
    usual = {key: value for key, value in schema.items() if key not in ("decimal", "thousands")}

    def rows_of(given: Any, agents: int = 1, **others: Any) -> Any:
        request = DataSettings(data="frame", no_test=True, **others)
        shards = Given("frame", **given).load(request, agents, range(agents)).shards
        return np.concatenate([shards[i][0] for i in range(agents)])

    X = rows_of({"pool": plain}, schema=usual)
    np.testing.assert_array_equal(every("g.parquet", no_test=True, schema=schema).shards[0][0], X)
    drafted: dict[str, Any] = {"label": "sick", "data_dependent": True}
    for data in ("g.parquet", "g.csv"):
        np.testing.assert_array_equal(every(data, no_test=True, separator=";", **drafted).shards[0][0], X)
    for pool in (frame, frame.convert_dtypes(), frame.astype({"sick": "category"}), frame.astype(object)):
        for how in ({"schema": schema}, drafted):
            np.testing.assert_array_equal(rows_of({"pool": pool}, **how), X)
    np.testing.assert_array_equal(rows_of({"own": {0: frame[:30], 1: frame[30:]}}, 2, split="shards", schema=schema), X)


@pytest.mark.parametrize(
    "values", [{"pool": ["1.234", 1.234, "5,5"]}, {"own": (["1.234", 2, "5,5"], [1.234, 7.0])}], ids=["pool", "shards"]
)
def test_numbers_beside_texts_of_numbers_are_not_guessed(values: dict[str, Any]) -> None:
    columns = {"a": {"kind": "numeric", "low": 0, "high": 9000}}
    schema = {"label": "y", "columns": columns, "decimal": ",", "thousands": "."}
    frames = [pd.DataFrame({"a": a, "y": [0, 1, 1][: len(a)]}) for a in values.get("own", values.values())]
    whole = "pool" in values
    given = Given("frame", frames[0]) if whole else Given("frame", own=dict(enumerate(frames)))
    settings = DataSettings(data="frame", no_test=True, schema=schema, split="iid" if whole else "shards")
    with pytest.raises(RequestError, match="holds numbers and texts of numbers; decimal = ','"):
        given.load(settings, len(frames), [0])
