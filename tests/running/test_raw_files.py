"""Runs on files whose schema names kinds alone: what auto measures, what it leaves, and what a run says of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.cli import run_command_line
from admmnet.errors import RequestError
from admmnet.record.reader import read_run
from tests.doc_pages import ROOT, blocks

pytestmark = pytest.mark.usefixtures("_here")
SCHEMA: dict[str, Any] = {"label": "sick", "labels": ["no", "yes"], "numeric": ["pay", "age"], "categorical": ["ward"]}
N = 3000


def people(path: Path, rows: int = N, seed: int = 0) -> str:
    """A csv with incomes of any size, some missing, which decide the label."""
    rng = np.random.default_rng(seed)
    size, noise = rng.normal(size=rows), rng.normal(size=rows)
    lines = ["pay,age,ward,sick"]
    for k in range(rows):
        pay = "?" if k % 40 == 0 else f"{1e4 * np.exp(2.0 * size[k]):.2f}"
        lines.append(f"{pay},{rng.integers(20, 90)},{'ABC'[k % 3]},{'yes' if size[k] + 0.3 * noise[k] > 0 else 'no'}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def go(data: str, **others: Any) -> Any:
    quick: dict[str, Any] = {"agents": 2, "rounds": 4, "topology": "path:2", "epsilon": 4.0, "delta": 1e-4}
    return run(RunConfig(**{"data": data, "schema": SCHEMA, "algorithm": "noisy-gd", **quick, **others}))


@pytest.mark.parametrize("algorithm", ["noisy-gd", "pp-admm"])
def test_a_private_file_without_bounds_is_learned_from(algorithm: str) -> None:
    private: dict[str, Any] = {"test": people(Path("test.csv"), 500, 1), "no_account": True}
    result = go(people(Path("mine.csv")), algorithm=algorithm, out="one", **private)
    assert result.summary["test_error"]["consensus"] < 0.2
    notes = " ".join(result.summary["notes"])
    assert "encoding: bounds of 2 and the shape of 2 columns of numbers are measured, " in notes
    assert "whitening: " in notes
    for ledger in read_run("one").ledgers.values():
        assert (ledger.header["preprocessing"], ledger.header["stages"][:2]) == ("private", ["bounds", "shape"])


def test_agents_with_files_of_their_own_measure_together() -> None:
    for agent in (0, 1):
        people(Path(f"site-{agent}.csv"), seed=agent)
    result = go("site-{agent}.csv", test=people(Path("test.csv"), 500, 7), no_account=True, out="one")
    assert result.summary["test_error"]["consensus"] < 0.2


def test_few_records_stay_on_public_curves_and_the_run_says_why() -> None:
    result = go(people(Path("few.csv"), 60), no_test=True, no_account=True, out="one")
    assert "encoding: nothing is measured, as noise would drown 2 columns" in " ".join(result.summary["notes"])
    assert all(ledger.header.get("stages", []) == [] for ledger in read_run("one").ledgers.values())


def test_where_auto_was_not_tried_the_schema_must_say_all() -> None:
    data = people(Path("mine.csv"), 100)
    for how in ({"algorithm": "r-admm"}, {"encode": "declared"}):
        with pytest.raises(RequestError, match="measure it with --encode private"):
            go(data, no_test=True, no_account=True, **how)


BOUNDED: dict[str, Any] = {"kind": "numeric", "low": 0, "high": 99}
WHOLE = {**SCHEMA, "numeric": [], "categorical": [], "columns": {"age": BOUNDED}, "drop": ["pay", "ward"]}


def test_columns_with_bounds_are_measured_where_noise_does_not_drown_them() -> None:
    many, few = people(Path("many.csv")), people(Path("few.csv"), 20)
    private: dict[str, Any] = {"schema": WHOLE, "no_test": True, "no_account": True}
    result = go(many, out="many", **private)
    assert result.summary["data"]["features"] == 9
    assert "the shape of 1 column of numbers is measured" in " ".join(result.summary["notes"])
    result = go(few, out="few", account="few-account", **{**private, "no_account": False})
    assert result.summary["data"]["features"] == 2
    assert "encoding: nothing is measured, as noise would drown 1 column of" in " ".join(result.summary["notes"])
    assert all("stages" not in ledger.header for ledger in read_run("few").ledgers.values())


@pytest.mark.parametrize(
    "others",
    [
        {"algorithm": "r-admm"},
        {"encode": "declared"},
        {"schema": {**WHOLE, "columns": {"age": {**BOUNDED, "scale": "log"}}}},
    ],
)
def test_other_columns_with_bounds_are_encoded_as_declared(others: dict[str, Any]) -> None:
    result = go(people(Path("mine.csv")), **{"schema": WHOLE, "seed": 1, "out": "one", **others})
    assert result.summary["data"]["features"] == 2
    assert "encoding:" not in " ".join(result.summary["notes"])


def test_the_check_says_what_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    Path("schema.json").write_text(json.dumps(WHOLE))
    assert run_command_line(["data", "check", people(Path("mine.csv"), 50), "--schema", "schema.json"]) == 0
    text = capsys.readouterr().out
    assert "column 'age': shape between 0 and 99 is measured by a noisy sum, 8 features" in text
    assert "else they keep their bounds, a feature each" in text
    assert "where noise does not drown them" in text


def test_a_simulation_and_all_of_its_yardsticks_use_one_encoding() -> None:
    result = go(people(Path("mine.csv"), 1500), seed=1, out="one", encode="private", whiten="on")
    assert result.summary["references"]["pooled"] < 0.2
    assert result.summary["data"]["features"] == 8 + 8 + 16 + 1


def test_frames_whose_kinds_are_said() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(people(Path("mine.csv")), na_values="?")
    schema = {"labels": ["no", "yes"]}
    result = run(
        data=frame,
        label="sick",
        schema=schema,
        kinds="dtype",
        algorithm="noisy-gd",
        agents=2,
        rounds=4,
        seed=1,
        out="one",
    )
    assert result.summary["data"]["features"] == 33
    with pytest.raises(RequestError, match="kinds = 'text': it must be 'dtype'"):
        run(data=frame, label="sick", kinds="text", algorithm="noisy-gd")
    with pytest.raises(RequestError, match="of a file the schema names kinds"):
        run(data="mine.csv", kinds="dtype", algorithm="noisy-gd")


def test_the_commands_that_the_page_on_data_begins_with() -> None:
    people(Path("raw.csv"), 400)
    lines = Path("raw.csv").read_text().splitlines()
    rows = [f"{k}," + line.replace("pay,age", "cost,age").replace("sick", "readmitted") for k, line in enumerate(lines)]
    Path("patients.csv").write_text("\n".join([rows[0].replace("0,", "id,", 1), *rows[1:]]) + "\n")
    Path("new.csv").write_text("\n".join([rows[0].replace("0,", "id,", 1), *rows[1:9]]) + "\n")
    page = ROOT / "docs" / "data.md"
    Path("kinds.toml").write_text(blocks(page, "toml")[0])
    commands = [shlex.split(line, comments=True) for line in blocks(page, "text")[0].splitlines()]
    assert [words[1] for words in commands] == ["data", "run", "predict"]
    for words in commands:
        assert run_command_line(words[1:]) == 0
    assert len(Path("predictions.csv").read_text().splitlines()) == 9
