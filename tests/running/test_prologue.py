"""Sums before the first round in whole runs: charged, seen in the ledger, and all records encoded by their totals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunResult, run
from admmnet.data import Records
from admmnet.data.records import TargetRange
from admmnet.privacy.events import DiscreteGaussian
from admmnet.record.reader import read_run
from admmnet.running.loading import Loader
from tests.running.raw_runs import loader, raw_config


def go(out: Path, **others: Any) -> RunResult:
    return run(raw_config(out, **others), loader=loader)


def error(result: RunResult) -> float:
    found = result.summary["test_error"]["consensus"]
    assert found is not None
    return float(found)


METHODS: dict[str, dict[str, Any]] = {
    **{name: {"algorithm": name} for name in ("noisy-gd", "pp-admm", "ipp-admm", "dp-dsgd", "ssp")},
    "sampled dp-dsgd": {"algorithm": "dp-dsgd", "clip_norm": 0.5, "sample_rate": 0.2},
}


@pytest.mark.parametrize("name", METHODS)
def test_a_column_of_any_size_is_learned_from(tmp_path: Path, name: str) -> None:
    result = go(tmp_path / "run", **METHODS[name])
    assert error(result) < 0.25
    book = read_run(tmp_path / "run").ledgers
    for ledger in book.values():
        rounds = [round for round, _, _ in ledger.events]
        assert rounds[:4] == [-3, -2, -1, 0]
        assert (ledger.header["stages"], ledger.header["preprocessing"]) == (["bounds", "shape", "whiten"], "private")
        assert ledger.header["filter"]["planned"][0][0] == "discrete-gaussian"
    assert result.summary["privacy"]["epsilon_spent"] <= 4.0 * (1.0 + 1e-9)
    notes = " ".join(result.summary["notes"])
    assert "encoding: bounds of 2 and the shape of 3 columns of numbers are measured" in notes


def of_kind(kind: str) -> Loader:
    """Loader of the same records with targets -1 and 1, or the first and last of three classes, for labels."""

    def load(*given: Any) -> Records:
        found = loader(*given)
        if kind == "real":
            return replace(found, target=TargetRange(-1.0, 1.0, 0.0))
        shards = {i: (X, y + 1.0) for i, (X, y) in found.shards.items()}
        return replace(found, shards=shards, y_test=found.y_test + 1.0, labels=("a", "b", "c"))

    return load


@pytest.mark.parametrize("trust", [{}, {"trust": "masked", "colluders": 1}])
@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp"])
@pytest.mark.parametrize("kind", ["real", "classes"])
def test_classes_and_targets_are_learned_from(tmp_path: Path, kind: str, algorithm: str, trust: dict[str, Any]) -> None:
    more = {"rounds": 20} if algorithm == "noisy-gd" else {}
    result = run(raw_config(tmp_path / "run", algorithm=algorithm, **trust, **more), loader=of_kind(kind))
    assert error(result) < {"real": 0.7, "classes": 0.25}[kind]
    for ledger in read_run(tmp_path / "run").ledgers.values():
        assert ledger.header["stages"] == ["bounds", "shape", "whiten"]


def test_masked_stages_go_before_masked_rounds(tmp_path: Path) -> None:
    result = go(tmp_path / "run", trust="masked", colluders=1)
    assert error(result) < 0.25
    for ledger in read_run(tmp_path / "run").ledgers.values():
        events = [event for round, event, _ in ledger.events if round < 0]
        assert [(event.agents, event.colluders) for event in events if isinstance(event, DiscreteGaussian)] == [
            (3, 1)
        ] * 3


def test_an_agent_that_is_away_in_the_first_round_makes_stages_void(tmp_path: Path) -> None:
    result = go(tmp_path / "run", offline="1:0-1")
    books = {book.header["agent"]: book for book in read_run(tmp_path / "run").ledgers.values()}
    charged = {i: [round for round, _, _ in book.events] for i, book in books.items()}
    assert charged[0][:5] == [-3, -2, -1, 0, 1]
    assert charged[1][0] == 2
    assert error(result) < 0.5


def test_columns_that_noise_drowns_are_put_on_a_public_curve(tmp_path: Path) -> None:
    result = go(tmp_path / "run", epsilon=0.05)
    assert error(result) < 0.6


def test_seeds_give_the_same_run(tmp_path: Path) -> None:
    one, two = (go(tmp_path / name).theta for name in ("a", "b"))
    assert np.array_equal(one, two)
