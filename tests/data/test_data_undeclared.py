"""Files of which nothing is declared: what a simulation drafts, and what a private run makes of a schema."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.cli import run_command_line
from admmnet.data import DataSettings, load
from admmnet.data.given import Given
from admmnet.errors import RequestError
from tests.data.conftest import Write, refusal
from tests.people_runs import summary_of

pytestmark = pytest.mark.usefixtures("_here")


def people(path: Path, rows: int = 80, seed: int = 0) -> Path:
    """A csv of numbers of very different sizes, some missing, words, dates and text labels."""
    stream = np.random.default_rng(seed)
    lines = ["id,age,income,ward,seen,sick"]
    for k in range(rows):
        age = stream.integers(20, 90)
        income = "" if k % 9 == 0 else f"{stream.lognormal(10):.2f}"
        lines.append(f"P{k:04},{age},{income},{'ABC'[k % 3]},2024-01-{1 + k % 28:02},{'yes' if age > 60 else 'no'}")
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
    kept = json.loads((result.folder / "encoding.json").read_text())
    assert {name: column["scale"] for name, column in kept["columns"].items()} == {"a": "none", "b": "none"}
    X = load(DataSettings(data=data, label="y", no_test=True), 1, [0]).shards[0][0]
    np.testing.assert_allclose(X[:, 0] / X[:, 2], np.arange(40.0), rtol=1e-15)


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


@pytest.mark.parametrize("kind", ["plain", "semicolons", "no header"])
def test_three_commands_from_a_messy_file_to_a_private_model(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "Using this schema on" in Path("schema.toml").read_text()
    assert summary_of(Path("one"))["data"]["features"] == 8
    assert "read from the rows" not in printed.err


def _german(text: str) -> str:
    return "\n".join(line.replace(",", ";").replace(".", ",") for line in text.splitlines()) + "\n"


def test_a_label_by_name_where_there_is_no_header(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("n.csv", "39,A,1\n41,B,0\n")
    assert run_command_line(["data", "draft", path, "--label", "y"]) == 2
    assert "the columns are named x1 to x3: choose one with --label" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("x-{agent}.csv", "name one file that is a public sample, without {agent}"),
        ("census", "has a public encoding of its own: see `admmnet data check census`"),
        ("t.npz", "has no named columns"),
        ("gone.csv", "gone.csv does not exist"),
        ("t.csv --label z", "t.csv has no column 'z'; it has 'a', 'y'"),
        ("empty.csv", "empty.csv, line 1: the header holds no name for column 1"),
    ],
)
def test_other_samples_are_refused(words: str, told: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("t.csv", "a,y\n1,0\n")
    write("empty.csv", "\na,y\n-0.6,1")
    assert run_command_line(["data", "draft", *words.split()]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_an_empty_first_line_is_a_fault_without_a_header_too(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path, schema = write("n.csv", "\n1,2,yes\n3,4,no"), write("s.toml", 'label = "x3"\nheader = false\n')
    assert run_command_line(["data", "check", path, "--schema", schema]) == 1
    assert "n.csv, line 1 is empty: remove it" in capsys.readouterr().out
