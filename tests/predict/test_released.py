"""`admmnet data check --run`: what a run has measured of its records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from admmnet import run
from admmnet.predict.released import released
from tests.command_runs import Admmnet
from tests.running.raw_runs import ENCODING, loader, raw_config


def test_columns_as_they_were_measured(tmp_path: Path, admmnet: Admmnet) -> None:
    folder = run(raw_config(tmp_path / "one", rounds=1), loader=loader).folder
    facts = released(folder)
    assert (facts["mode"], facts["encoding_from"]) == ("simulation", None)
    assert facts["stages"] == ["bounds", "shape", "whiten"]
    assert [entry["kind"] for entry in facts["columns"]] == ["number", "words", "number", "number"]
    assert sum(entry["features"] for entry in facts["columns"]) + 1 == ENCODING.width == facts["whitening"]["features"]
    first, _, _, last = facts["columns"]
    assert first["low"] < 1e3 < first["high"]
    quantiles = list(first["quantiles"].values())
    assert quantiles == sorted(quantiles)
    assert last["quantiles"]["0.5"] == pytest.approx(0.5, abs=0.05)
    text = admmnet.ok("data", "check", "--run", folder).out
    assert "nothing is protected" in text
    assert re.search("^stages: +bounds, shape, whiten$", text, re.MULTILINE)
    assert admmnet.json("data", "check", "--run", folder) == facts
    noisy = run(raw_config(tmp_path / "noisy", rounds=1, epsilon=0.02), loader=loader).folder
    assert any(entry["low"] is None for entry in released(noisy)["columns"] if entry["kind"] == "number")
    assert "drowned by noise, or not measured" in admmnet.ok("data", "check", "--run", noisy).out
    plain = run(raw_config(tmp_path / "plain", data="census", encode="declared", whiten="off", rounds=1)).folder
    for words, match in (
        (["--json"], "--json goes with --run"),
        (["adult", "--run", "."], "adult does not go with --run: leave it out"),
        (["--run", ".", "--balance"], "--balance does not go with --run"),
        (["--run", "nowhere"], "nowhere is no run folder"),
        (["--run", plain], "has measured nothing of its records"),
    ):
        assert match in admmnet.refused("data", "check", *words)
