"""`admmnet data clean`: a file as people write it becomes one that its schema accepts."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from admmnet.data.clean import BLANKS, BOUND, POINT, UNSURE, clean_file
from admmnet.data.settings import DataSettings
from tests.command_runs import Admmnet

pytestmark = pytest.mark.usefixtures("_here")

SCHEMA = """
[data.schema]
label = "sick"
labels = ["no", "yes"]
drop = ["id"]
[data.schema.columns.age]
kind = "numeric"
low = 0
high = 100
[data.schema.columns.crp]
kind = "numeric"
low = 0
high = 100
missing = "indicator"
[data.schema.columns.ward]
kind = "categorical"
categories = ["A", "New York"]
"""
MESSY = """age;crp;ward;id;sick
34;"1,5";A ; x;yes
 41;<30;A;y;no
50;> 5,5;A;z;
61;1 234,5;A;w;no
63;7;New   York;w;yes
64;;A;w;no
"""
CLEAN = """age,crp,ward,id,sick
34,1.5,A, x,yes
41,30,A,y,no
61,1234.5,A,w,no
63,7,New York,w,yes
64,,A,w,no
"""


@pytest.fixture(autouse=True)
def _schema(_here: None) -> None:
    Path("s.toml").write_text(SCHEMA)


def test_a_messy_file_becomes_one_that_the_schema_accepts(admmnet: Admmnet) -> None:
    Path("m.csv").write_text(MESSY)
    found = admmnet("data", "check", "m.csv", "--schema", "s.toml", "--separator", ";")
    assert found.code == 1
    for text in ("'1,5'", "'<30'", "''"):  # each is named, with the command that mends it
        (line,) = (line for line in found.out.splitlines() if text in line)
        assert "`admmnet data clean`" in line
    told = admmnet.ok("data", "clean", "m.csv", "--schema", "s.toml", "--separator", ";", "-o", "c.csv").out
    assert Path("c.csv").read_text() == CLEAN
    assert told.splitlines() == [
        "m.csv; the lines below quote records, so keep them on this machine:",
        f"  {BLANKS}: 4 values",
        "    age: line 3: ' 41' -> '41'",
        "    crp: line 5: '1 234,5' -> '1234.5'",
        "    ward: line 2: 'A ' -> 'A'; line 6: 'New   York' -> 'New York'",
        f"  {POINT}: 2 values",
        "    crp: line 2: '1,5' -> '1.5'; line 5: '1 234,5' -> '1234.5'",
        f"  {BOUND}: 1 value",
        "    crp: line 3: '<30' -> '30'",
        "  left out, for they have no label: 1 record, line 4",
        "    this number depends on the records: keep it to yourself if they are private",
        "c.csv: 5 records; now: admmnet data check c.csv --schema s.toml",
    ]
    assert "5 records of 5 features, no fault" in admmnet.ok("data", "check", "c.csv", "--schema", "s.toml").out
    again = admmnet.ok("data", "clean", "c.csv", "--schema", "s.toml", "-o", "d.csv").out
    assert again.splitlines()[0] == "c.csv: nothing to change"
    assert len(again.splitlines()) == 2
    assert Path("d.csv").read_text() == CLEAN


def test_a_file_without_the_label_column_has_new_rows(admmnet: Admmnet) -> None:
    Path("n.csv").write_text("age;crp;ward;id\n34;1,5;A;x\n 41;<30;A;y\n42;2;B;z\n")
    printed = admmnet("data", "clean", "n.csv", "--schema", "s.toml", "--separator", ";", "-o", "c.csv")
    assert (printed.code, "line 4, column 'ward': undeclared category 'B'" in printed.out) == (1, True)
    assert "c.csv: 2 records; new rows, without the label column 'sick': for `admmnet predict`" in printed.out
    assert Path("c.csv").read_text() == "age,crp,ward,id\n34,1.5,A,x\n41,30,A,y\n"


def test_records_with_other_faults_are_left_out_and_listed(admmnet: Admmnet) -> None:
    Path("m.csv").write_text(CLEAN + "1,2\n70,abc,A,w,no\n71,1,B,w,maybe\n")
    printed = admmnet("data", "clean", "m.csv", "--schema", "s.toml", "-o", "c.csv")
    assert printed.code == 1
    assert "3 records with other faults, listed above, are not in c.csv" in printed.err
    for words in ("line 7: 2 values", "line 8, column 'crp': 'abc'", "line 9, column 'sick'", "line 9, column 'ward'"):
        assert f"m.csv, {words}" in printed.out
    assert Path("c.csv").read_text() == CLEAN


@pytest.mark.parametrize(
    ("cells", "made"),
    [
        (["1,5", "1,234"], ["1.5", "1.234"]),
        (["1,234", "22,500"], None),  # perhaps thousands: a person must say
        (["1.234,5", "0,1"], ["1234.5", "0.1"]),
        (["≤ -0,5", ">=7"], ["-0.5", "7"]),
        (["1 2", "3"], None),
        (["2020 123", "1.5 123"], None),  # two numbers
        (["1 234\u00a0567", "-120\r080"], None),
        (["1 234 567,5", "< 120\u202f080"], ["1234567.5", "120080"]),
        (["- 2", "1\u00a0000"], ["-2", "1000"]),
        (["NA", "2024-01-01"], None),
    ],
)
def test_rules_of_numbers(cells: list[str], made: list[str] | None) -> None:
    Path("n.tsv").write_text("x\ty\n" + "".join(f"{cell}\t{k}\n" for k, cell in enumerate(cells)))
    settings = DataSettings(data="n.tsv", schema={"label": "y", "columns": {"x": {"kind": "numeric", "scale": "none"}}})
    told = clean_file(settings, Path("out"), Path("o.csv"))
    if made is None:
        assert told.bad == (1 if "3" in cells else 2)
        assert not told.changed
        return
    assert not told.faults
    assert [line.split(",")[0] for line in Path("out").read_text().splitlines()[1:]] == made


def test_a_point_that_may_stand_between_thousands_is_a_fault() -> None:
    Path("m.csv").write_text('x;y\n"1.234,5";0\n2.345;1\n<-12.000;0\n0,7;1\n2.5;1\n')
    schema = {"label": "y", "columns": {"x": {"kind": "numeric", "low": 0, "high": 20000}}}
    told = clean_file(DataSettings(data="m.csv", separator=";", schema=schema), Path("out"), Path("o.csv"))
    assert Path("out").read_text() == "x,y\n1234.5,0\n0.7,1\n2.5,1\n"
    places = [f"m.csv, line {line}, column 'x': {text!r} {UNSURE}" for line, text in ((3, "2.345"), (4, "<-12.000"))]
    assert (told.bad, told.count, list(told.faults)) == (2, 2, places)


def test_a_carriage_return_is_written_in_quotes(admmnet: Admmnet) -> None:
    text = CLEAN.replace(", x,", ',"x\ry",').encode()
    Path("m.csv").write_bytes(text)
    admmnet.ok("data", "clean", "m.csv", "--schema", "s.toml", "-o", "c.csv")
    with Path("c.csv").open(newline="") as file:
        assert next(row for row in csv.reader(file) if "x\ry" in row)[:2] == ["34", "1.5"]


def test_where_nothing_can_be_mended_nothing_is_written(admmnet: Admmnet) -> None:
    Path("m.csv").write_text("age,crp,other,sick\n1,2,3,no\n1,2,3,yes\n")
    words = ("data", "clean", "m.csv", "--schema", "s.toml")
    printed = admmnet(*words, "-o", "c.csv")
    assert printed.code == 1
    assert "does not declare 'other'" in printed.out
    assert "nothing is written" in printed.err
    assert sorted(path.name for path in Path().iterdir()) == ["m.csv", "s.toml"]
    assert "-o m.csv exists" in admmnet.refused(*words, "-o", "m.csv")
    assert "a .csv or .tsv file" in admmnet.refused(*words, "-o", "c.parquet")
    assert "has a public encoding of its own" in admmnet.refused(
        "data", "clean", "census", "--schema", "s.toml", "-o", "c.csv"
    )


def test_text_is_a_fault_where_columns_are_measured(admmnet: Admmnet) -> None:
    Path("k.toml").write_text('[data.schema]\nlabel = "y"\nlabels = ["0", "1"]\nnumeric = ["x"]\n')
    Path("m.csv").write_text("x,y\n<30,1\n2,0\n")
    found = admmnet("data", "check", "m.csv", "--schema", "k.toml")
    assert (found.code, "'<30' is no number but a limit; `admmnet data clean`" in found.out) == (1, True)
    admmnet.ok("data", "clean", "m.csv", "--schema", "k.toml", "-o", "c.csv")
    assert Path("c.csv").read_text() == "x,y\n30,1\n2,0\n"
