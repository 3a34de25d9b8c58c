"""The short programs of docs/library.md and results.md do what the pages say of them; a tracker has a stand-in."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from admmnet import read_run
from tests.doc_pages import ROOT, blocks, fenced, section

pytestmark = pytest.mark.usefixtures("_here")
ARRAYS, SHARDS, FRAME = blocks(ROOT / "docs" / "library.md", "python")[:3]
STOPPING, MLFLOW = fenced(section("results.md", "Track a run"), "python")


def summary_of(*code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join(code), names)
    found: dict[str, Any] = names["result"].summary
    return found


def test_a_private_model_of_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    summary = summary_of(ARRAYS)
    assert (summary["mode"], summary["agents"], summary["data"]["test"]) == ("private", 5, 150)
    assert summary["privacy"]["epsilon_proven"] <= 1.0
    majority = summary["references"]["larger_class"]  # 0.447; 20 runs had 0.12 on average, deviation 0.04: 8 of these
    assert summary["test_error"]["consensus"] < majority
    spent = dict(line.split() for line in capsys.readouterr().out.splitlines()[-5:])
    assert list(spent) == ["0", "1", "2", "3", "4"]
    assert all(float(epsilon) <= 1.0 for epsilon in spent.values())
    assert len(read_run("runs/clinics").ledgers) == len(list(Path("accounts/clinics").glob("agent-*.jsonl"))) == 5


def test_a_model_of_a_frame_and_of_shards() -> None:
    summary = summary_of(FRAME)
    assert (summary["mode"], summary["data"]["name"]) == ("simulation", "frame")
    assert summary["test_error"]["consensus"] < 0.5 * summary["references"]["larger_class"]
    summary = summary_of(ARRAYS, SHARDS)
    assert [entry["records"] for entry in summary["per_agent"]] == [150, 80, 189]
    assert summary["topology"] == "edges:0-1,1-2"


def test_a_run_that_a_program_stops(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(STOPPING, "results.md", "exec"), {})
    *lines, last = capsys.readouterr().out.splitlines()
    rounds, stopped = last.split()
    assert (len(lines), stopped) == (int(rounds), "True")
    (folder,) = Path("runs").iterdir()
    assert 0.5 < max(book.totals.epsilon_proven(1e-5) for book in read_run(folder).ledgers.values()) < 0.6


def test_a_tracker_has_every_round_and_the_figures_of_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    figures, kept, module = dict[tuple[str, int], float](), list[object](), ModuleType("mlflow")
    module.__dict__.update(
        start_run=lambda run_name: nullcontext(),
        log_params=lambda params: kept.append(sorted(params)),
        log_metrics=lambda metrics, step: figures.update({(name, step): value for name, value in metrics.items()}),
        log_artifact=lambda local_path: kept.append(Path(local_path).is_file()),
        log_artifacts=lambda local_dir, artifact_path=None: kept.append(Path(local_dir).is_dir()),
    )
    monkeypatch.setitem(sys.modules, "mlflow", module)
    exec(compile(MLFLOW, "results.md", "exec"), {})
    assert kept == [["algorithm", "epsilon", "rounds", "seed"], True, True]
    (folder,) = Path("runs").iterdir()
    summary = read_run(folder).summary
    assert summary is not None
    own = {f"{name}/{agent}" for name in ("epsilon", "releases") for agent in range(5)}
    names = {"test_error", "train_loss", "epsilon", "releases", "away"} | own
    assert set(figures) == {(name, step) for name in names for step in range(20)}
    assert figures["epsilon", 19] == summary["privacy"]["epsilon_spent"]
    assert figures["releases", 19] == sum(entry["releases"] for entry in summary["per_agent"])
