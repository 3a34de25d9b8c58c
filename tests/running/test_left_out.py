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
from admmnet.privacy.ledger.audit import read
from tests.command_runs import Admmnet

SCHEMA: dict[str, Any] = {
    "label": "won",
    "labels": ["no", "yes"],
    "leave_out": [""],
    "columns": {"a": {"kind": "numeric", "low": -3, "high": 3}},
}
RUN: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 2, "no_test": True, "delta": 1e-5}
PRIVATE: dict[str, Any] = {"private": True, "no_account": True}
REFUSED = "records have labels that leave_out names, and leaving them out would reveal how many there are"


def frame(missing: int) -> pd.DataFrame:
    a = np.random.default_rng(0).standard_normal(90)
    won = np.where(a > 0, "yes", "no").astype(object)
    won[:missing] = None
    return pd.DataFrame({"a": a, "won": won})


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
    accepted = run(**asked, **PRIVATE, data_dependent=True, out=tmp_path / "accepted")
    simulated = run(**asked, seed=0, out=tmp_path / "simulated")
    for result in (accepted, simulated):
        assert sum(entry["records"] for entry in result.summary["per_agent"]) == 86
        header = result.ledgers[0].header
        assert header["preprocessing"] == "data-dependent"
        assert any("that was read from the rows, and no budget covers it" in note for note in result.summary["notes"])


def test_without_such_records_nothing_is_refused(tmp_path: Path) -> None:
    result = run(data=frame(0), agents=3, schema=SCHEMA, **RUN, **PRIVATE, out=tmp_path / "run")
    assert result.ledgers[0].header["preprocessing"] == "public-bounds"
    left = frame(30)
    with pytest.raises(RequestError, match=REFUSED):  # none is left of agent 0's, or few: the same words
        run(data=left, agents=3, schema=SCHEMA, **RUN, **PRIVATE, out=tmp_path / "other")


def test_a_draft_says_so(tmp_path: Path) -> None:
    path = tmp_path / "sample.csv"
    frame(4).to_csv(path, index=False)
    table = read_table(path, parse_schema({}))
    text = write_draft(draft(table, "won"))
    assert 'leave_out = [\n    "",\n]' in text
    assert "a private run refuses them" in text
    schema = tmp_path / "schema.toml"
    schema.write_text(text)
    assert read_schema(schema)["schema"]["leave_out"] == [""]


def write_table(folder: Path) -> str:
    stream = np.random.default_rng(5)
    rows = [
        f"{colour},{size:.3f},{'yes' if size > 0.4 else 'no'}"
        for colour, size in zip(stream.choice(["red", "blue", "green"], 90), stream.random(90), strict=True)
    ]
    path = folder / "table.csv"
    path.write_text("\n".join(["colour,size,bought", *rows]) + "\n")
    return str(path)


DECLARED = """
[data.schema]
label = "bought"
labels = ["no", "yes"]

[data.schema.columns.colour]
kind = "categorical"
categories = ["red", "blue", "green"]

[data.schema.columns.size]
kind = "numeric"
low = 0
high = 1
"""


UNDECLARED = {
    "categories": DECLARED.replace('categories = ["red", "blue", "green"]', ""),
    "bounds": DECLARED.replace("low = 0\nhigh = 1", ""),
    "labels": DECLARED.replace('labels = ["no", "yes"]', "") + '[data]\npositive = "yes"\n',
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_a_discovered_encoding_needs_consent(what: str, tmp_path: Path, admmnet: Admmnet) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(UNDECLARED[what])
    words = ["run", str(config), "--data", write_table(tmp_path), "--rounds", "2", "--topology", "ring:3"]
    words += ["--no-test", "--no-account", "--encode", "declared"]
    told = admmnet.refused(*words, "-o", tmp_path / "refused")
    assert "would be discovered from the private records" in told
    assert "with --encode private, or accept it with --data-dependent" in told
    assert not (tmp_path / "refused").exists()

    admmnet.ok(*words, "--data-dependent", "-o", str(tmp_path / "accepted"))
    # a simulation tells more than an encoding anyway
    admmnet.ok(*words, "--seed", "1", "-o", str(tmp_path / "seeded"))
    for name in ("accepted", "seeded"):
        books = [read(path) for path in sorted((tmp_path / name / "ledger").iterdir())]
        assert [book.header["preprocessing"] for book in books] == ["data-dependent"] * 3
    assert "data_dependent = true" in (tmp_path / "accepted" / "config.toml").read_text()


def test_more_agents_than_files_are_told_how_many_there_are(tmp_path: Path, admmnet: Admmnet) -> None:
    for agent in range(3):
        (tmp_path / f"{agent}.csv").write_text("a,y\n0.5,1\n0.25,-1\n")
    schema = tmp_path / "s.toml"
    schema.write_text('label = "y"\nlabels = ["-1", "1"]\n[columns.a]\nkind = "numeric"\nlow = 0\nhigh = 1\n')
    words = ("run", "--data", tmp_path / "{agent}.csv", "--schema", schema, "--no-test", "--no-account")
    told = admmnet.refused(*words, "--out", tmp_path / "run")
    assert f"{tmp_path / '3.csv'} does not exist, and the run has 5 agents (5 where nothing says how many)" in told
    assert "give --agents 3" in told


def test_a_bad_value_in_an_agents_own_file_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet
) -> None:
    monkeypatch.chdir(tmp_path)
    for agent in range(2):
        (tmp_path / f"{agent}.csv").write_text("a,y\n0.5,1\n0.25,-1\n" + ("HIV+,1\n" if agent else "0.75,1\n"))
    (tmp_path / "test.csv").write_text("a,y\n0.5,1\n0.25,-1\n")
    (tmp_path / "run.toml").write_text(
        '[data]\ndata = "{agent}.csv"\ntest = "test.csv"\n[data.schema]\nlabel = "y"\nlabels = ["-1", "1"]\n'
        '[data.schema.columns.a]\nkind = "numeric"\nlow = 0\nhigh = 1\n'
    )
    words = ["run", "run.toml", "--agents", "2", "--out", "out", "--no-account"]
    told = admmnet.refused(*words)
    assert "1.csv is not as declared: `admmnet data check 1.csv`" in told
    assert "HIV" not in told
    assert "HIV+" in admmnet.refused(*words, "--simulate")
