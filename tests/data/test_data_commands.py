"""A schema in a file: `--schema` of the commands, and `admmnet data`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from admmnet.config.toml import load_config, read_schema
from tests.command_runs import Admmnet

COLUMNS: dict[str, Any] = {"a": {"kind": "numeric", "low": 0, "high": 40}}
SCHEMA: dict[str, Any] = {"label": "y", "labels": ["no", "yes"], "drop": ["b"], "columns": COLUMNS}
BARE = "label = 'y'\nlabels = ['no', 'yes']\ndrop = ['b']\n[columns.a]\nkind = 'numeric'\nlow = 0\nhigh = 40\n"
QUICK = ("--rounds", "2", "--seed", "1", "--quiet")


@pytest.fixture(autouse=True)
def _files(_here: None) -> None:
    lines = (f"{k % 40},{k},{'yes' if k % 40 > 20 else 'no'}\n" for k in range(120))
    Path("t.csv").write_text("a,b,y\n" + "".join(lines))
    Path("bare.toml").write_text(BARE)
    inside = BARE.replace("[columns", "[data.schema.columns").replace("label =", "[data.schema]\nlabel =")
    Path("run.toml").write_text("[data]\npositive = 'no'\n" + inside)
    Path("encoding.json").write_text(json.dumps(SCHEMA))


@pytest.mark.parametrize(("file", "more"), [("bare.toml", {}), ("run.toml", {"positive": "no"}), ("encoding.json", {})])
def test_the_three_kinds_of_schema_files(file: str, more: dict[str, str]) -> None:
    assert read_schema(Path(file)) == {"schema": SCHEMA, **more}


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_other_files_are_refused(text: str, admmnet: Admmnet) -> None:
    Path("other.json").write_text(text)
    assert "other.json" in admmnet.refused("data", "check", "t.csv", "--schema", "other.json")


def test_every_command_that_trains_takes_a_schema(admmnet: Admmnet) -> None:
    words = ["--data", "t.csv", "--schema", "run.toml", "--agents", "3", *QUICK]
    admmnet.ok("run", *words, "-o", "one")
    assert load_config("one/config.toml").schema == SCHEMA
    assert load_config("one/config.toml").positive == "no"
    admmnet.ok("run", *words, "--positive", "yes", "-o", "two")
    assert load_config("two/config.toml").positive == "yes"  # flags override the file
    alone = ["--data", "t.csv", "--schema", "bare.toml", "--epochs", "1", "--seed", "1", "--quiet"]
    admmnet.ok("baseline", "dp-scd", *alone, "-o", "three")
    grid = ["--algorithms", "pp-admm", "--epsilons", "1", "--seeds", "0:1", "--rounds", "2", "--simulate"]
    words = ["--data", "t.csv", "--schema", "bare.toml", "--agents", "3", "--quiet", "-o", "grid"]
    admmnet.ok("compare", *grid, *words)
    admmnet.ok("calibrate", "--records", "50", "--schema", "bare.toml")
    assert "gone.toml" in admmnet.refused("run", "--data", "t.csv", "--schema", "gone.toml")
