"""`admmnet data check`: all faults of one file, for its owner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.data import DataSettings
from admmnet.data.check import check_file
from admmnet.errors import DataError, RequestError

CSV = "a,b,y\n1,2,yes\nAlice,3,no\n4,nan,maybe\n5,6\nAlice,7,yes\n"
LIBSVM = "1 1:2 3:4\n-1 1:x 2:3\nbad line\n7 1:2\n-1 2:inf\n"


@pytest.fixture(autouse=True)
def _files(_here: None) -> None:
    Path("t.csv").write_text(CSV)
    Path("quoted.csv").write_text(CSV.replace("Alice,3", '"Alice",3'))
    Path("t.libsvm").write_text(LIBSVM)
    np.savez("t.npz", X=np.array([[1, 2], [np.nan, np.inf], [3, 4]]), y=["1", "HIV-positive", "-1"])
    np.savez("good.npz", X=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], y=[1, -1, 1])
    np.savez("zero.npz", X=[[1.0, 2.0], [0.0, 0.0]], y=[1, -1])


def faults(**settings: object) -> list[str]:
    found = check_file(DataSettings(**settings))  # type: ignore[arg-type]
    assert found.source is None
    assert found.count == len(found.faults)
    return list(found.faults)


@pytest.mark.parametrize("name", ["t.csv", "quoted.csv"])
def test_every_fault_of_a_csv_file(name: str) -> None:
    found = faults(data=name, label="y", positive="yes")
    starts = [
        ", line 5: 2 values, expected 3",
        ", line 4, column 'y': undeclared label 'maybe'; the labels are 'no' and 'yes'",
        ", line 3, column 'a': 'Alice' is no number",
        ", line 4, column 'b': 'nan' is not finite",
    ]
    assert len(found) == len(starts)
    for fault, start in zip(found, starts, strict=True):
        assert fault.startswith(name + start)
    assert found[2].endswith("(2 rows have it)")


def test_a_declared_schema_is_checked_rule_by_rule() -> None:
    columns = {
        "a": {"kind": "numeric", "low": 0, "high": 9},
        "b": {"kind": "categorical", "categories": ["2", "3", "6", "7"]},
    }
    found = faults(data="t.csv", schema={"label": "y", "labels": ["no", "yes"], "columns": columns})
    assert [fault.partition(": ")[2][:20] for fault in found] == [
        "2 values, expected 3",
        "undeclared label 'ma",
        "'Alice' is no number",
        "undeclared category ",
    ]


def test_a_missing_label_column_is_the_one_fault() -> None:
    assert [fault.partition(": ")[2] for fault in faults(data="t.csv")] == [
        "2 values, expected 3; mend or remove the line",
        "name the label column with --label NAME; the header has a, b, y",
    ]
    assert "t.csv has no column 'z'; it has 'a', 'b', 'y'" in faults(data="t.csv", label="z")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("t.npz", ["row 2, column 'x1'", "row 2, column 'x2'", "row 2, column 'y'"]),
        ("t.libsvm", ["line 3", "line 2, index 1", "line 5, index 2", "line 4, column 'label'"]),
    ],
)
def test_every_fault_of_other_files(name: str, places: list[str]) -> None:
    assert [fault.partition(": ")[0] for fault in faults(data=name)] == [f"{name}, {place}" for place in places]


def test_the_last_step_of_a_run_is_taken_too() -> None:
    assert check_file(DataSettings(data="zero.npz")).source is not None
    (fault,) = faults(data="zero.npz", no_intercept=True)
    assert fault.startswith("zero.npz, row 2: every feature is zero")


def test_many_faults_are_counted_and_not_all_kept() -> None:
    Path("many.csv").write_text("a,y\n" + "".join(f"x{k},1\n" for k in range(1500)))
    found = check_file(DataSettings(data="many.csv", label="y"))
    assert (len(found.faults), found.count) == (DataError.KEPT, 1500)


def test_an_agents_pattern_is_no_file() -> None:
    with pytest.raises(RequestError, match="name the file of one agent"):
        check_file(DataSettings(data="{agent}.csv"))


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("good.npz", 0, "3 records of 2 features, no fault"),
        ("good.npz --balance", 0, "label '+1' (+1): 2 records"),
        ("census", 0, "48,842 records"),
        ("t.npz", 1, "HIV-positive"),
        ("t.npz", 1, "keep them on this machine"),
        ("t.npz --most 1", 1, "and 2 more"),
        ("t.csv --schema schema.toml", 1, "'Alice' is no number"),
        ("t.csv --schema run.toml", 1, "'Alice' is no number"),
        ("t.csv --schema encoding.json", 1, "'Alice' is no number"),
        ("gone.csv", 2, ""),
        ("t.csv --schema gone.toml", 2, ""),
        ("t.csv --features 3", 2, ""),
    ],
)
def test_the_command(words: str, code: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    schema = 'label = "y"\nlabels = ["no", "yes"]\n'
    Path("schema.toml").write_text(schema)
    Path("run.toml").write_text('[data]\nlabel = "y"\n[data.schema]\n' + schema + "[algorithm]\nrounds = 3\n")
    Path("encoding.json").write_text('{"label": "y", "labels": ["no", "yes"]}')
    assert run_command_line(["data", "check", *words.split()]) == code
    printed = capsys.readouterr()
    assert told in printed.out
    assert (printed.err == "") == (code == 0)
    assert "HIV" not in printed.err
