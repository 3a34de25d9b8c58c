"""Sums before the first round in whole runs: charged, seen in the ledger, and all records encoded by their totals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, RunResult, run
from admmnet.data import DataSettings, Records
from admmnet.errors import RequestError
from admmnet.holder.encoding import Encoding, Number, RawRows, Words
from admmnet.privacy.events import DiscreteGaussian
from admmnet.record.reader import read_run
from admmnet.running.checkpoint.resume import resumed_config
from admmnet.types import Vector
from tests.people_runs import Stop, stopping

N, EACH = 3, 800
ENCODING = Encoding((Number(), Words(3), Number(), Number(1.0, 0.0, 1.0, tuple(k / 32 for k in range(33)))))


def raw(agent: int, n: int = EACH) -> tuple[RawRows, Vector]:
    """Records whose label follows from the logarithm of a number of any size."""
    rng = np.random.default_rng(agent)
    size = rng.normal(0.0, 1.0, n)
    numbers = np.column_stack([1e3 * np.exp(2.0 * size), rng.normal(-5.0, 2.0, n), rng.random(n)])
    numbers[rng.random((n, 3)) < 0.02] = np.nan
    y = np.where(size + rng.normal(0.0, 0.4, n) > 0.0, 1.0, -1.0)
    return RawRows(numbers, rng.integers(0, 3, (n, 1)), ENCODING.width), y


def loader(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    test, labels = raw(99)
    names = tuple(f"x{k}" for k in range(ENCODING.width))
    shards: dict[int, Any] = {i: raw(i) for i in mine}
    counts = dict.fromkeys(range(agents), EACH)
    return Records("raw", shards, counts, test, labels, names, "public-bounds", raw=ENCODING)  # type: ignore[arg-type]


def go(out: Path, on_round: Any = None, **others: Any) -> RunResult:
    settings: dict[str, Any] = {"algorithm": "noisy-gd", "epsilon": 4.0, "delta": 1e-4, "seed": 3, **others}
    config = RunConfig(agents=N, topology=f"ring:{N}", encode="private", whiten="on", out=str(out), **settings)
    return run(config, loader=loader, on_round=on_round)


def error(result: RunResult) -> float:
    found = result.summary["test_error"]["consensus"]
    assert found is not None
    return float(found)


@pytest.mark.parametrize("algorithm", ["noisy-gd", "pp-admm", "ipp-admm", "dp-dsgd", "ssp"])
def test_a_column_of_any_size_is_learned_from(tmp_path: Path, algorithm: str) -> None:
    result = go(tmp_path / "run", algorithm=algorithm)
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


def test_a_private_run_with_stages_cannot_go_on(tmp_path: Path) -> None:
    """Asked again, they would cost again, and tell of another encoding."""
    how: dict[str, Any] = {"seed": None, "rounds": 6, "checkpoint_every": 1, "simulate": True}
    with pytest.raises(Stop):
        go(tmp_path / "run", on_round=stopping(2), **how)
    before = {path: path.read_bytes() for path in (tmp_path / "run/ledger").iterdir()}
    with pytest.raises(RequestError, match="encoded by sums before the first round"):
        run(resumed_config(tmp_path / "run"), loader=loader)
    assert {path: path.read_bytes() for path in (tmp_path / "run/ledger").iterdir()} == before


def test_seeds_give_the_same_run(tmp_path: Path) -> None:
    one, two = (go(tmp_path / name).theta for name in ("a", "b"))
    assert np.array_equal(one, two)
