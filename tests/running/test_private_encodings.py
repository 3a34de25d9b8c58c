"""Encodings discovered from private records need consent, and an agent's own values are not shown to others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admmnet.privacy.ledger.audit import read
from tests.command_runs import Admmnet


def write_table(folder: Path) -> str:
    stream = np.random.default_rng(5)
    rows = [
        f"{colour},{size:.3f},{'yes' if size > 0.4 else 'no'}"
        for colour, size in zip(stream.choice(["red", "blue", "green"], 90), stream.random(90), strict=True)
    ]
    path = folder / "table.csv"
    path.write_text("\n".join(["colour,size,bought", *rows]) + "\n")
    return str(path)


SCHEMA = """
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
    "categories": SCHEMA.replace('categories = ["red", "blue", "green"]', ""),
    "bounds": SCHEMA.replace("low = 0\nhigh = 1", ""),
    "labels": SCHEMA.replace('labels = ["no", "yes"]', "") + '[data]\npositive = "yes"\n',
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_a_discovered_encoding_needs_consent(what: str, tmp_path: Path, admmnet: Admmnet) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(UNDECLARED[what])
    words = ["run", str(config), "--data", write_table(tmp_path), "--rounds", "2", "--topology", "ring:3"]
    words += ["--no-test", "--no-account"]
    told = admmnet.refused(*words, "-o", tmp_path / "refused")
    assert "would be discovered from the private records" in told
    assert "declare it in [data.schema], or accept it with --data-dependent" in told
    assert not (tmp_path / "refused").exists()

    admmnet.ok(*words, "--data-dependent", "-o", str(tmp_path / "accepted"))
    # a simulation tells more than an encoding anyway
    admmnet.ok(*words, "--seed", "1", "-o", str(tmp_path / "seeded"))
    for name in ("accepted", "seeded"):
        books = [read(path) for path in sorted((tmp_path / name / "ledger").iterdir())]
        assert [book.header["preprocessing"] for book in books] == ["data-dependent"] * 3
    assert "data_dependent = true" in (tmp_path / "accepted" / "config.toml").read_text()


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
