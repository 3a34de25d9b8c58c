"""Numbers, separators, headers and parquet files as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.config.toml import read_schema
from admmnet.data import DataSettings, load
from admmnet.data.draft import draft
from admmnet.data.given import Given
from admmnet.data.readers.delimited import Form, read_csv, read_unknown
from admmnet.data.table import RawColumn, RawTable, Spelling, no_number
from admmnet.errors import RequestError
from tests.data.conftest import NUMBER, WARD, Write, refusal

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
        ("1,234.5", 'thousands = ","'),
        ("2024-03-01", "is no number but a date; drop the column, or make an age"),
        ("01.03.2024 10:00", "a date"),
        ("12 %", "write it without its unit"),
        ("$5", "write it without its unit"),
        ("", "missing value"),
        ("nan", 'fill it in, or declare missing = "indicator"'),
        ("inf", "is not finite; remove the row"),
        ("see letter", "as categories, or drop it (`admmnet data draft` proposes one of these)"),
    ],
)
def test_what_is_no_number_is_named(text: str, words: str) -> None:
    assert words in str(no_number(text, Spelling()))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("s.csv", "a;b;y\n1;2;1\n", "line 1 has no commas but 2 semicolons: give --separator ';'"),
        ("t.csv", "a\tb\ty\n1\t2\t1\n", "line 1 has no commas but 2 tabs: give --separator tab"),
        ("c.tsv", "a,b,y\n1,2,1\n", "line 1 has no tabs but 2 commas: give --separator ','"),
        ("e.csv", "sep=;\na;y\n1;1\n", "line 1 is 'sep=;', which only spreadsheets read: remove that line"),
        ("n.csv", "39,7.5,1\n41,2,0\n", "line 1 looks like a record, as it holds the number 39: write a line"),
        ("d.csv", "A,2024-01-01,yes\nB,2024-01-02,no\n", "as it holds the date 2024-01-01"),
        ("w.csv", "A,yes\nB,no\nA,no\nB,yes\n", "as it holds nothing that does not occur again below"),
    ],
)
def test_other_forms_are_recognised(write: Write, name: str, text: str, words: str) -> None:
    assert words in refusal(write(name, text), label="y")


@pytest.mark.parametrize("header", ["0,1,y", "1,2,y", "2019,2020,y", "x1,x2,y", "a,b,y"])
def test_headers_that_count_are_headers(write: Write, header: str) -> None:
    records = load(DataSettings(data=write("t.csv", f"{header}\n3,2,1\n1,4,0\n"), label="y", no_test=True), 1, [0])
    assert records.feature_names == (*header.split(",")[:2], "intercept")


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("s.csv", "a;b;y\n3;4,5;1\n1;2;0\n", {"separator": ";", "schema": {"decimal": ","}}),
        ("s.csv", "\ufeffa;b;y\n3;4,5;1\n1;2;0\n", {"schema": {"separator": ";", "decimal": ","}}),
        ("s.tsv", "a\tb\ty\n3\t4.5\t1\n1\t2\t0\n", {}),
        ("s.csv", "a\tb\ty\n3\t4.5\t1\n1\t2\t0\n", {"separator": "tab"}),
        ("s.csv", 'a;b;y\n"3";"4.5";1\n1;2;0\n', {"separator": ";"}),
    ],
)
def test_declared_forms_are_read(write: Write, name: str, text: str, settings: dict[str, Any]) -> None:
    records = load(DataSettings(data=write(name, text), label="y", no_test=True, **settings), 1, [0])
    X = records.shards[0][0]
    np.testing.assert_allclose(X[:, :2] / X[:, 2:], np.array([[3.0, 4.5], [1.0, 2.0]]), rtol=1e-15)
    assert records.preprocessing == "public-bounds"


def test_a_file_without_a_header(write: Write) -> None:
    path = write("n.csv", "39,A,1\n41,B,0\n")
    assert read_unknown(Path(path))[1] == Form(",", False)
    schema = {"header": False, "label": "x3", "columns": {"x1": NUMBER, "x2": WARD}}
    records = load(DataSettings(data=path, no_test=True, schema=schema), 1, [0])
    assert records.feature_names == ("x1", "x2=A", "x2=B", "intercept")
    assert records.counts == {0: 2}
    table = read_csv(Path(write("h.csv", "39,40.5,y\n1,2,1\n")), form=Form(header=True))
    assert table.names == ("39", "40.5", "y")


@pytest.mark.parametrize("separator", ["ab", "", "a", "+"])
def test_a_separator_is_one_mark(write: Write, separator: str) -> None:
    path = write("t.csv", "a,y\n1,1\n2,0\n")
    assert "must be one mark" in refusal(path, label="y", schema={"separator": separator or "ab"})


def test_parquet(write: Write) -> None:
    pa = pytest.importorskip("pyarrow")
    import datetime

    import pyarrow.parquet as pq

    table = pa.table(
        {
            "n": pa.array([1, None, 3], pa.int32()),
            "x": [0.5, float("nan"), 2.0],
            "w": pa.array(["A", "B", None]).dictionary_encode(),
            "t": [True, False, None],
            "d": [datetime.date(2024, 1, 1)] * 3,
            "l": [[1], [2], [3]],
            "y": [1, 0, 1],
        }
    )
    pq.write_table(table, "p.parquet")
    columns = {
        "n": NUMBER | {"missing": "indicator"},
        "x": NUMBER | {"missing": 0},
        "w": WARD | {"missing": "B"},
        "t": {"kind": "categorical", "categories": ["True", "False"], "missing": "indicator"},
    }
    schema = {"label": "y", "columns": columns, "drop": ["d", "l"]}
    records = load(DataSettings(data="p.parquet", no_test=True, schema=schema), 1, [0])
    X = records.shards[0][0]
    rows: list[list[float]] = [[0.1, 0, 0.05, 1, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0, 1, 0], [0.3, 0, 0.2, 0, 1, 0, 0, 1]]
    np.testing.assert_allclose(X[:, :-1] / X[:, -1:], rows, rtol=1e-15)
    assert "p.parquet, column 'l' holds list<" in refusal(
        "p.parquet", schema=schema | {"drop": ["d"]} | {"columns": columns | {"l": NUMBER}}
    )
    assert run_command_line(["data", "draft", "p.parquet", "--label", "y", "-o", "p.toml"]) == 0
    text = Path("p.toml").read_text()
    assert "# 'd' is left out: constant\n" in text
    assert "# 'l' is left out: no numbers or texts\n" in text
    Path("q.parquet").write_bytes(b"PAR1 no such thing")
    assert "q.parquet is not a sound parquet file" in refusal("q.parquet", label="y")


def german(rows: int = 60) -> dict[str, list[Any]]:
    """Columns of texts as German files have them, and of numbers."""
    rng = np.random.default_rng(4)
    pay, dose = rng.uniform(900, 9000, rows).round(1), rng.uniform(0, 90, rows).round(3)
    texts = [f"{value:,.1f}".translate(str.maketrans(",.", ".,")) for value in pay]
    return {"pay": texts, "dose": dose.tolist(), "sick": ["yes" if p > 4000 else "no" for p in pay]}


def rows_in(data: str, schema: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(load(DataSettings(data=data, no_test=True, schema=schema), 1, [0]).shards[0][0])


def test_spellings_are_those_of_texts_in_parquet_files_and_frames(capsys: pytest.CaptureFixture[str]) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(german())
    frame.to_parquet("g.parquet")
    plain = frame.assign(pay=[float(x.replace(".", "").replace(",", ".")) for x in frame.pay])
    plain.to_csv("plain.csv", index=False)
    for words in ("data draft g.parquet --label sick -o s.toml", "data check g.parquet --schema s.toml"):
        assert run_command_line(words.split()) == 0, capsys.readouterr().err
    assert "its numbers are read as 1.234,5" in capsys.readouterr().out
    schema = read_schema(Path("s.toml"))["schema"]
    assert (schema["decimal"], schema["thousands"]) == (",", ".")
    bare = {key: value for key, value in schema.items() if key not in ("decimal", "thousands")}
    X = rows_in("plain.csv", bare)
    np.testing.assert_array_equal(rows_in("g.parquet", schema), X)
    for given in (frame, frame.convert_dtypes(), frame.astype({"sick": "category"}), frame.astype(object)):
        for declared in (schema, None):
            own = Given("frame", given)
            settings = DataSettings(
                data="frame", label="sick", no_test=True, schema=declared or {}, data_dependent=not declared
            )
            np.testing.assert_array_equal(own.load(settings, 1, [0]).shards[0][0], X)
    frame.assign(dose=[str(x).replace(".", ",") for x in frame.dose]).to_csv("g.csv", sep=";", index=False)
    for data in ("g.parquet", "g.csv"):
        drafted = DataSettings(data=data, label="sick", no_test=True, data_dependent=True, separator=";")
        np.testing.assert_array_equal(load(drafted, 1, [0]).shards[0][0], X)
    halves = Given("frame", own={0: frame[:30], 1: frame[30:]})
    settings = DataSettings(data="frame", no_test=True, schema=schema, split="shards")
    found = halves.load(settings, 2, [0, 1])
    np.testing.assert_array_equal(np.concatenate([found.shards[i][0] for i in (0, 1)]), X)


@pytest.mark.parametrize("shards", [False, True])
def test_numbers_beside_texts_of_numbers_are_not_guessed(shards: bool) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": ["1.234", 2, "5,5"] if shards else ["1.234", 1.234, "5,5"], "y": [0, 1, 1]})
    columns = {"a": {"kind": "numeric", "low": 0, "high": 9000}}
    schema = {"label": "y", "columns": columns, "decimal": ",", "thousands": "."}
    split = "shards" if shards else "iid"
    settings = DataSettings(data="frame", no_test=True, schema=schema, split=split)
    given = Given("frame", frame)
    if shards:
        given = Given("frame", own={0: frame, 1: pd.DataFrame({"a": [1.234, 7.0], "y": [0, 1]})})
    with pytest.raises(RequestError, match="holds numbers and texts of numbers") as caught:
        given.load(settings, 2 if shards else 1, [0])
    assert "decimal = ','" in str(caught.value)


def test_real_targets_in_another_spelling_are_drafted() -> None:
    texts = (*(f"{k},25" for k in range(30)), "1.500")
    codes = np.arange(31, dtype=np.int32)
    table = RawTable(("v", "y"), 31, lambda name: RawColumn(texts, codes), lambda row: "", "t")
    assert draft(table, "y").schema.targets == (0.0, 1100.0)
    typed = RawColumn(tuple(f"{k}.5" for k in range(31)), codes, typed=True)
    mixed = RawTable(
        ("v", "y"), 31, lambda name: RawColumn(texts, codes) if name == "v" else typed, lambda row: "", "t"
    )
    assert draft(mixed, "y").schema.targets == (0.0, 31.0)


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        (("1.234,50", "7,00", "12.000.000,25"), (",", ".")),
        (("1,234.50", "7.00", "900.25"), (".", ",")),
        (("0,5", "7,25", "3,125"), (",", "")),
        (("1 234,5", "9 000,0", "7"), (",", " ")),
        (("1'234.5", "9'000.0", "7"), (".", "'")),
        (("1234.5", "9000", "7"), (".", "")),
    ],
)
def test_a_draft_finds_out_how_numbers_are_written(marks: tuple[str, ...], found: tuple[str, str]) -> None:
    codes = np.arange(3, dtype=np.int32)
    table = RawTable(("v",), 3, lambda name: RawColumn(marks, codes), lambda row: "", "t")
    schema = draft(table, None).schema
    assert (schema.decimal, schema.thousands) == found
    assert [rule.column for rule in schema.rules] == ["v"]
    assert type(schema.rules[0]).__name__ == "Numeric"
