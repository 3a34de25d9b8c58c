"""The short programs of docs/library.md do what the page says of them, in as many lines as it boasts of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run
from tests.doc_pages import ROOT, blocks

FOUND = blocks(ROOT / "docs" / "library.md", "python")
ARRAYS, SHARDS, FRAME = FOUND[:3]


def lines(block: str) -> int:
    return sum(bool(line.strip()) for line in block.splitlines())


def ran(*code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join(code), names)
    return names


def test_ten_lines_make_a_private_model_of_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(ARRAYS) <= 10
    monkeypatch.chdir(tmp_path)
    summary = ran(ARRAYS)["result"].summary
    assert (summary["mode"], summary["agents"], summary["data"]["test"]) == ("private", 5, 150)
    assert summary["privacy"]["epsilon_proven"] <= 1.0
    majority = summary["references"]["larger_class"]  # 0.447; 20 runs had 0.12 on average, deviation 0.04: 8 of these
    assert summary["test_error"]["consensus"] < majority
    said = capsys.readouterr().out
    assert "private, secret noise: only noisy results left each agent" in said
    last = [line.split() for line in said.splitlines()[-5:]]
    assert [agent for agent, _ in last] == ["0", "1", "2", "3", "4"]
    assert all(float(epsilon) <= 1.0 for _, epsilon in last)
    assert len(read_run("runs/clinics").ledgers) == 5
    assert len(list(Path("accounts/clinics").glob("agent-*.jsonl"))) == 5


def test_six_lines_make_a_model_of_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(FRAME) <= 6
    monkeypatch.chdir(tmp_path)
    summary = ran(FRAME)["result"].summary
    assert (summary["mode"], summary["data"]["name"]) == ("simulation", "frame")
    assert summary["test_error"]["consensus"] < 0.5 * summary["references"]["larger_class"]


def test_shards_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    summary = ran(ARRAYS, SHARDS)["result"].summary
    assert [entry["records"] for entry in summary["per_agent"]] == [150, 80, 189]
    assert summary["topology"] == "edges:0-1,1-2"
