"""What a private run would read from its records: labels that leave_out names, encodings that nothing declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admmnet import RequestError, run
from admmnet.config.toml import read_schema
from admmnet.data.draft import draft, write_draft
from admmnet.data.schema import parse_schema
from admmnet.data.sources import read_table
from tests.command_runs import Admmnet

SCHEMA: dict[str, Any] = {
    "label": "won",
    "labels": ["no", "yes"],
    "leave_out": [""],
    "columns": {
        "a": {"kind": "numeric", "low": -3, "high": 3},
        "hat": {"kind": "categorical", "categories": ["u", "v"]},
    },
}
RUN: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 2, "no_test": True, "delta": 1e-5, "epsilon": 5.0}
RUN |= {"encode": "declared"}
PRIVATE: dict[str, Any] = {"private": True, "no_account": True}
REFUSED = "records have labels that leave_out names, and leaving them out would reveal how many there are"


def frame(missing: int) -> pd.DataFrame:
    a = np.random.default_rng(0).standard_normal(90)
    won = np.where(a > 0, "yes", "no").astype(object)
    won[:missing] = None
    return pd.DataFrame({"a": a, "hat": ["u", "v", "v"] * 30, "won": won})


def given(way: str, missing: int, folder: Path) -> dict[str, Any]:
    rows = frame(missing)
    if way == "frame":
        return {"data": rows, "agents": 3}
    if way == "shards":
        return {"shards": [rows[:30], rows[30:60], rows[60:]]}
    if way == "file":
        rows.to_csv(folder / "all.csv", index=False)
        return {"data": folder / "all.csv", "agents": 3}
    for i in range(3):
        rows[30 * i : 30 * (i + 1)].to_csv(folder / f"{i}.csv", index=False)
    return {"data": str(folder / "{agent}.csv"), "agents": 3}


@pytest.mark.parametrize("way", ["frame", "shards", "file", "files"])
def test_a_private_run_counts_every_record(way: str, tmp_path: Path) -> None:
    asked = given(way, 4, tmp_path) | {"schema": SCHEMA, **RUN}
    with pytest.raises(RequestError, match=REFUSED):
        run(**asked, **PRIVATE, out=tmp_path / "refused")
    for name, mode in (("accepted", PRIVATE | {"data_dependent": True}), ("simulated", {"seed": 0})):
        result = run(**asked, **mode, out=tmp_path / name)
        assert sum(entry["records"] for entry in result.summary["per_agent"]) == 86
        assert result.ledgers[0].header["preprocessing"] == "data-dependent"
        assert any("that was read from the rows, and no budget covers it" in note for note in result.summary["notes"])


def test_without_such_records_nothing_is_refused(tmp_path: Path) -> None:
    result = run(data=frame(0), agents=3, schema=SCHEMA, **RUN, **PRIVATE, out=tmp_path / "run")
    assert result.ledgers[0].header["preprocessing"] == "public-bounds"
    with pytest.raises(RequestError, match=REFUSED):  # none is left of agent 0's, or few: the same words
        run(data=frame(30), agents=3, schema=SCHEMA, **RUN, **PRIVATE, out=tmp_path / "other")


COLUMNS: dict[str, Any] = SCHEMA["columns"]
UNDECLARED: dict[str, dict[str, Any]] = {
    "categories": {"schema": {**SCHEMA, "leave_out": [], "columns": COLUMNS | {"hat": {"kind": "categorical"}}}},
    "bounds": {"schema": {**SCHEMA, "leave_out": [], "columns": COLUMNS | {"a": {"kind": "numeric"}}}},
    "labels": {"schema": {"label": "won", "columns": COLUMNS}, "positive": "yes"},
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_a_discovered_encoding_needs_consent(what: str, tmp_path: Path) -> None:
    asked = given("file", 0, tmp_path) | RUN | UNDECLARED[what]
    with pytest.raises(RequestError, match=r"would be discovered from the private records.*--data-dependent"):
        run(**asked, **PRIVATE, out=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    for name, mode in (("accepted", PRIVATE | {"data_dependent": True}), ("simulated", {"seed": 0})):
        result = run(**asked, **mode, out=tmp_path / name)
        assert {book.header["preprocessing"] for book in result.ledgers} == {"data-dependent"}
    assert "data_dependent = true" in (tmp_path / "accepted" / "config.toml").read_text()


def test_a_draft_says_so(tmp_path: Path) -> None:
    path, schema = tmp_path / "sample.csv", tmp_path / "schema.toml"
    frame(4).to_csv(path, index=False)
    schema.write_text(write_draft(draft(read_table(path, parse_schema({})), "won")))
    assert read_schema(schema)["schema"]["leave_out"] == [""]
    assert "a private run refuses them" in schema.read_text()


ONE = 'label = "y"\nlabels = ["-1", "1"]\n[columns.a]\nkind = "numeric"\nlow = 0\nhigh = 1\n'


def test_files_of_agents_that_lack_one_or_hold_a_bad_value(tmp_path: Path, admmnet: Admmnet) -> None:
    """The value is shown in simulations alone."""
    for agent in range(3):
        (tmp_path / f"{agent}.csv").write_text("a,y\n0.5,1\n0.25,-1\n" + "HIV+,1\n" * (agent == 1))
    (tmp_path / "schema.toml").write_text(ONE)
    words: list[object] = ["run", "--data", tmp_path / "{agent}.csv", "--schema", tmp_path / "schema.toml"]
    words += ["--no-test", "--no-account", "--out", tmp_path / "run"]
    told = admmnet.refused(*words)
    assert f"{tmp_path / '3.csv'} does not exist, and the run has 5 agents (5 where nothing says how many)" in told
    assert "give --agents 3" in told
    told = admmnet.refused(*words, "--agents", 2)
    assert "1.csv is not as declared: `admmnet data check" in told
    assert "HIV" not in told
    assert "HIV+" in admmnet.refused(*words, "--agents", 2, "--simulate")
