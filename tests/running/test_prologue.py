"""Sums before the first round in whole runs: charged, seen in the ledger, and all records encoded by their totals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunResult, read_run, run
from admmnet.data import Records
from admmnet.data.records import TargetRange
from admmnet.errors import RunError
from admmnet.privacy.events import DiscreteGaussian
from admmnet.record.encoding import Found
from admmnet.running.loading import Loader
from admmnet.running.prologue import _same
from admmnet.transport.local import LocalWorld
from tests.running.raw_runs import loader, raw_config


def of_kind(kind: str) -> Loader:
    """Loader of the same records, perhaps with targets -1 and 1, or first and last of three classes, for labels."""

    def load(*given: Any) -> Records:
        found = loader(*given)
        if kind == "real":
            return replace(found, target=TargetRange(-1.0, 1.0, 0.0))
        if kind == "binary":
            return found
        shards = {i: (X, y + 1.0) for i, (X, y) in found.shards.items()}
        return replace(found, shards=shards, y_test=found.y_test + 1.0, labels=("a", "b", "c"))

    return load


def go(out: Path, kind: str = "binary", **others: Any) -> RunResult:
    return run(raw_config(out, **others), loader=of_kind(kind))


MASKED: dict[str, Any] = {"trust": "masked", "colluders": 1}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("binary", {"algorithm": name}) for name in ("noisy-gd", "pp-admm", "ipp-admm", "ssp")},
    "sampled dp-dsgd": ("binary", {"algorithm": "dp-dsgd", "clip_norm": 0.5, "sample_rate": 0.2, "rounds": 60}),
    "masked": ("binary", MASKED),
    "classes": ("classes", {"algorithm": "noisy-gd", "rounds": 20}),
    "classes, masked": ("classes", {"algorithm": "ssp", **MASKED}),
    "real": ("real", {"algorithm": "noisy-gd", "rounds": 20, **MASKED}),
    "real, ssp": ("real", {"algorithm": "ssp"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_column_of_any_size_is_learned_from(tmp_path: Path, name: str) -> None:
    kind, settings = RUNS[name]
    result = go(tmp_path / "run", kind, **settings)
    assert result.summary["test_error"]["consensus"] < (0.7 if kind == "real" else 0.25)
    for ledger in read_run(tmp_path / "run").ledgers.values():
        assert [round for round, _, _ in ledger.events][:4] == [-3, -2, -1, 0]
        assert (ledger.header["stages"], ledger.header["preprocessing"]) == (["bounds", "shape", "whiten"], "private")
        stages = [event for round, event, _ in ledger.events if round < 0]
        parts = [(event.agents, event.colluders) for event in stages if isinstance(event, DiscreteGaussian)]
        assert parts == ([(3, 1)] * 3 if "trust" in settings else [(1, 0)] * 3)
    assert result.summary["privacy"]["epsilon_spent"] <= 4.0 * (1.0 + 1e-9)
    notes = " ".join(result.summary["notes"])
    assert "encoding: bounds of 2 and the shape of 3 columns of numbers are measured" in notes


def test_an_agent_that_is_away_in_the_first_round_makes_stages_void(tmp_path: Path) -> None:
    result = go(tmp_path / "run", offline="1:0-1")
    charged = [[round for round, _, _ in book.events] for book in read_run(tmp_path / "run").ledgers.values()]
    assert (charged[0][:5], charged[1][0]) == ([-3, -2, -1, 0, 1], 2)
    assert result.summary["test_error"]["consensus"] < 0.5


def test_columns_that_noise_drowns_are_put_on_a_public_curve(tmp_path: Path) -> None:
    assert go(tmp_path / "run", epsilon=0.05).summary["test_error"]["consensus"] < 0.6


def test_who_was_given_another_total_is_named() -> None:
    class World(LocalWorld):
        """Five processes, of which one, and one that is away, have not what the others have."""

        size = 5

        def gather(self, value: Any, topic: str = "ready") -> list[Any]:
            return [value, value, "cd" * 32, None, value]

    with pytest.raises(RunError, match="agent 2 received another total before the first round than most"):
        _same(World(), Found(stages=("bounds",)))
