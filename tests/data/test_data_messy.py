"""Files as people have them: missing values, other separators and marks, no header, parquet, no schema."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.cli import run_command_line
from admmnet.config.toml import read_schema
from admmnet.data import DataSettings, load
from admmnet.data.columns import Column, Table
from admmnet.data.draft import draft
from admmnet.data.given import Given
from admmnet.data.readers.delimited import Form, form_of_text, read_csv
from admmnet.data.schema import parse_schema, to_table
from admmnet.data.source import Source, source_of
from admmnet.data.values import Spelling, no_number
from admmnet.errors import RequestError
from tests.data.conftest import Write, refusal
from tests.people_runs import summary_of

NUMBER: dict[str, Any] = {"kind": "numeric", "low": 0, "high": 10}
WARD: dict[str, Any] = {"kind": "categorical", "categories": ["A", "B"]}


def encoded(columns: dict[str, Any], *, data: str = "a,w,y\n5,A,1\nNA,?,0\n,B,1\n") -> Source:
    path = Path("t.csv")
    path.write_text(data)
    table = read_csv(path)
    drop = [
        name for name in table.names if name not in ("y", *(e.get("column", k) for k, e in columns.items()))
    ]
    return source_of(table, parse_schema({"label": "y", "columns": columns, "drop": drop}), discover=False)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("column", "entry", "names", "rows"),
    [
        ("a", NUMBER | {"missing": "indicator"}, ("a", "a=missing"), [[0.5, 0], [0, 1], [0, 1]]),
        ("a", NUMBER | {"missing": 10}, ("a",), [[0.5], [1], [1]]),
        ("a", NUMBER | {"missing": -3, "scale": "centred"}, ("a",), [[0], [-1], [-1]]),
        ("a", NUMBER | {"missing": "indicator", "weight": 2}, ("a", "a=missing"), [[1, 0], [0, 2], [0, 2]]),
        (
            "a",
            {"kind": "numeric", "edges": [0, 4], "missing": "indicator"},
            ("a=[0,4)", "a=[4,inf)", "a=missing"),
            [[0, 1, 0], [0, 0, 1], [0, 0, 1]],
        ),
        (
            "w",
            WARD | {"missing": "indicator"},
            ("w=A", "w=B", "w=missing"),
            [[1, 0, 0], [0, 0, 1], [0, 1, 0]],
        ),
        ("w", WARD | {"missing": "B"}, ("w=A", "w=B"), [[1, 0], [0, 1], [0, 1]]),
        ("w", WARD | {"other": True}, ("w=A", "w=B", "w=other"), [[1, 0, 0], [0, 0, 1], [0, 1, 0]]),
        (
            "w",
            WARD | {"other": True, "missing": "indicator"},
            ("w=A", "w=B", "w=other", "w=missing"),
            [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]],
        ),
        (
            "w",
            {"kind": "categorical", "categories": ["A", "B", "?"], "missing": "indicator"},
            ("w=A", "w=B", "w=?", "w=missing"),
            [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]],  # what is declared is no missing value
        ),
    ],
)
def test_missing_values(
    column: str, entry: dict[str, Any], names: tuple[str, ...], rows: list[list[float]]
) -> None:
    source = encoded({column: entry})
    assert source.features.names == names
    np.testing.assert_array_equal(source.features.take(np.arange(3)), rows)
    assert parse_schema(to_table(source.schema)) == source.schema


@pytest.mark.parametrize(
    ("column", "entry", "words"),
    [
        (
            "a",
            NUMBER,
            "line 3, column 'a': 'NA' is no number but a missing value; fill it in, or declare missing =",
        ),
        ("a", NUMBER | {"missing": "refuse"}, "'NA' is no number but a missing value"),
        ("w", WARD, "undeclared category '?'"),
        (
            "w",
            WARD | {"missing": "refuse", "other": True},
            "line 3, column 'w': missing value '?'; remove the row",
        ),
        (
            "a",
            NUMBER | {"missing": "drop"},
            "a.missing must be 'indicator', 'refuse' or a number, got 'drop'",
        ),
        ("a", NUMBER | {"missing": True}, "a.missing must be a finite number, got True"),
        (
            "w",
            WARD | {"missing": "C"},
            "w.missing must be 'indicator', 'refuse' or one of the categories, got 'C'",
        ),
    ],
)
def test_missing_values_that_are_refused(column: str, entry: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        encoded({column: entry})
    assert words in str(caught.value)


def test_bounds_and_categories_are_read_past_missing_values() -> None:
    columns = {
        "a": {"kind": "numeric", "missing": "indicator"},
        "w": {"kind": "categorical", "missing": "indicator"},
    }
    Path("t.csv").write_text("a,w,y\n5,A,1\nNA,?,0\n7,B,1\n")
    source = source_of(
        read_csv(Path("t.csv")), parse_schema({"label": "y", "columns": columns}), discover=True
    )
    assert source.features.names == ("a", "a=missing", "w=A", "w=B", "w=missing")
    np.testing.assert_array_equal(source.features.take(np.arange(3))[:, 0], [0, 0, 1])
    Path("t.csv").write_text("a,y\n?,1\nNA,0\n")
    schema = parse_schema({"label": "y", "columns": {"a": columns["a"]}})
    with pytest.raises(RequestError, match="column 'a' has no value at all"):
        source_of(read_csv(Path("t.csv")), schema, discover=True)


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
        ("see letter", "as categories, or drop it (`admmnet data draft` proposes what)"),
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
        (
            "n.csv",
            "39,7.5,1\n41,2,0\n",
            "line 1 looks like a record, for it holds the number 39: write a line",
        ),
        ("d.csv", "A,2024-01-01,yes\nB,2024-01-02,no\n", "for it holds the date 2024-01-01"),
        ("w.csv", "A,yes\nB,no\nA,no\nB,yes\n", "for it holds nothing that does not occur again below"),
    ],
)
def test_other_forms_are_recognised(write: Write, name: str, text: str, words: str) -> None:
    assert words in refusal(write(name, text), label="y")


@pytest.mark.parametrize("header", ["0,1,y", "1,2,y", "2019,2020,y", "x1,x2,y", "a,b,y"])
def test_headers_that_count_are_headers(write: Write, header: str) -> None:
    records = load(
        DataSettings(data=write("t.csv", f"{header}\n3,2,1\n1,4,0\n"), label="y", no_test=True), 1, [0]
    )
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
    assert form_of_text(Path(path)) == (",", False)
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


def people(path: Path, rows: int = 80, seed: int = 0) -> Path:
    """A csv of numbers of very different sizes, some missing, words, dates and text labels."""
    stream = np.random.default_rng(seed)
    lines = ["id,age,income,ward,seen,sick"]
    for k in range(rows):
        age = stream.integers(20, 90)
        income = "" if k % 9 == 0 else f"{stream.lognormal(10):.2f}"
        lines.append(
            f"P{k:04},{age},{income},{'ABC'[k % 3]},2024-01-{1 + k % 28:02},{'yes' if age > 60 else 'no'}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_simulation_drafts_what_nothing_declares() -> None:
    data = str(people(Path("people.csv")))
    quick: dict[str, Any] = {"data": data, "label": "sick", "agents": 2, "rounds": 2, "topology": "path:2"}
    result = run(RunConfig(**quick, seed=1, out="one"))
    notes = " ".join(result.summary["notes"])
    assert "'id' (identifiers or free text), 'seen' (dates)" in notes
    assert "the encoding of 3 columns, the labels 'no', 'yes'" in notes
    assert (
        summary_of(Path("one"))["data"]["features"] == 8
    )  # age, income and missing, three wards and others, intercept
    assert run_command_line(["evaluate", "one", "--data", data]) == 0  # encoding.json says how
    private: dict[str, Any] = {"no_test": True, "no_account": True}
    with pytest.raises(RequestError, match="data check"):
        run(RunConfig(**quick, **private, out="two"))
    accepted = run(RunConfig(**quick, **private, data_dependent=True, out="three"))
    assert "P0" not in str(accepted.summary["notes"])


def test_a_private_run_takes_numbers_as_they_are(write: Write) -> None:
    data = write("n.csv", "a,b,y\n" + "".join(f"{k},{k * k},{k % 2}\n" for k in range(40)))
    quick: dict[str, Any] = {"data": data, "label": "y", "agents": 2, "rounds": 2, "topology": "path:2"}
    result = run(RunConfig(**quick, no_test=True, no_account=True, out="one"))
    assert not (result.folder / "encoding.json").exists()
    X = load(DataSettings(data=data, label="y", no_test=True), 1, [0]).shards[0][0]
    np.testing.assert_allclose(X[:, 0] / X[:, 2], np.arange(40.0), rtol=1e-15)


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
    rows: list[list[float]] = [
        [0.1, 0, 0.05, 1, 0, 1, 0, 0],
        [0, 1, 0, 0, 1, 0, 1, 0],
        [0.3, 0, 0.2, 0, 1, 0, 0, 1],
    ]
    np.testing.assert_allclose(X[:, :-1] / X[:, -1:], rows, rtol=1e-15)
    assert "p.parquet, column 'l' holds list<" in refusal(
        "p.parquet", schema=schema | {"drop": ["d"]} | {"columns": columns | {"l": NUMBER}}
    )
    assert run_command_line(["data", "draft", "p.parquet", "--label", "y", "-o", "p.toml"]) == 0
    text = Path("p.toml").read_text()
    assert '"d",  # constant' in text
    assert '"l",  # no numbers or texts\n' in text
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


def test_spellings_are_those_of_texts_in_parquet_files_and_frames(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(german())
    frame.to_parquet("g.parquet")
    plain = frame.assign(pay=[float(x.replace(".", "").replace(",", ".")) for x in frame.pay])
    plain.to_csv("plain.csv", index=False)
    for words in (
        "data draft g.parquet --label sick -o s.toml",
        "data check g.parquet --schema s.toml",
    ):
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
    with pytest.raises(RequestError, match="holds numbers beside texts of numbers") as caught:
        given.load(settings, 2 if shards else 1, [0])
    assert "decimal = ','" in str(caught.value)


def test_real_targets_in_another_spelling_are_drafted() -> None:
    texts = (*(f"{k},25" for k in range(30)), "1.500")
    codes = np.arange(31, dtype=np.int32)
    table = Table(("v", "y"), 31, lambda name: Column(texts, codes), lambda row: "", "t")
    assert draft(table, "y").schema.targets == (0.0, 1100.0)
    typed = Column(tuple(f"{k}.5" for k in range(31)), codes, typed=True)
    mixed = Table(
        ("v", "y"), 31, lambda name: Column(texts, codes) if name == "v" else typed, lambda row: "", "t"
    )
    assert draft(mixed, "y").schema.targets == (0.0, 31.0)


@pytest.mark.parametrize(
    "labels",
    [["no", None, "yes"], [0.0, math.nan, 1.0], [1.0, -1.0, None], ["0", "1", ""]],
    ids=["words", "numbers", "signs", "texts"],
)
def test_records_without_a_label_are_counted(labels: list[Any]) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": np.arange(60) ** 2 / 7, "y": labels * 20})
    settings = DataSettings(data="frame", label="y", no_test=True, data_dependent=True)
    records = Given("frame", frame).load(settings, 1, [0])
    assert "20 of 60 records have no label and are left out" in records.notes
    assert sorted(set(records.shards[0][1])) == [-1.0, 1.0]
    frame.to_csv("f.csv", index=False)
    again = load(DataSettings(data="f.csv", label="y", no_test=True, data_dependent=True), 1, [0])
    assert again.notes == records.notes
    np.testing.assert_array_equal(again.shards[0][1], records.shards[0][1])


def test_columns_that_are_all_left_out_are_named() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"id": range(60), "c": 1, "y": [0, 1] * 30})
    settings = DataSettings(data="frame", label="y", no_test=True, data_dependent=True)
    with pytest.raises(RequestError, match=r"no column is left .*'id' \(identifiers\), 'c' \(constant\)"):
        Given("frame", frame).load(settings, 1, [0])


def test_pyarrow_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    Path("p.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'admmnet[frames]'" in refusal("p.parquet", label="y")


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
    table = Table(("v",), 3, lambda name: Column(marks, codes), lambda row: "", "t")
    schema = draft(table, None).schema
    assert (schema.decimal, schema.thousands) == found
    assert [rule.column for rule in schema.rules] == ["v"]
    assert type(schema.rules[0]).__name__ == "Numeric"


@pytest.mark.parametrize("kind", ["plain", "semicolons", "no header"])
def test_three_commands_from_a_messy_file_to_a_private_model(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = people(Path("people.csv"), 120)
    text, label = path.read_text(), "sick"
    if kind == "semicolons":
        path.write_text("\ufeff" + _german(text), encoding="utf-8")
    if kind == "no header":
        path.write_text(text.partition("\n")[2])
        label = "x6"
    commands = (
        f"data draft people.csv --label {label} -o schema.toml",
        "data check people.csv --schema schema.toml",
        "run --data people.csv --schema schema.toml --no-test --no-account --agents 3 --rounds 2 -o one",
    )
    for words in commands:
        assert run_command_line(words.split()) == 0, capsys.readouterr().err
    printed = capsys.readouterr()
    assert "looked at people.csv: 120 records" in printed.out
    assert ("its cells are divided by semicolons" in printed.out) is (kind == "semicolons")
    assert ("its numbers are read as 1234,5" in printed.out) is (kind == "semicolons")
    assert ("its first line is taken for a record" in printed.out) is (kind == "no header")
    assert "whoever uses this schema on" in Path("schema.toml").read_text()
    assert summary_of(Path("one"))["data"]["features"] == 8
    assert "read from the rows" not in printed.err


def _german(text: str) -> str:
    return "\n".join(line.replace(",", ";").replace(".", ",") for line in text.splitlines()) + "\n"


def test_a_label_by_name_where_there_is_no_header(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("n.csv", "39,A,1\n41,B,0\n")
    assert run_command_line(["data", "draft", path, "--label", "y"]) == 2
    assert "the columns are x1 to x3: name one of them with --label" in capsys.readouterr().err
