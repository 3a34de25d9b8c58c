"""Notes before a run are said where they hold, and nowhere else: a loose delta, and what noise costs noisy-gd."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.config.defaults import is_loose, own_delta
from admmnet.data import DataSettings, Records, load
from admmnet.running import notes as at_start
from tests.people_runs import summary_of
from tests.report_pages import words_of
from tests.run_folders import made, part_of

LOOSE, COSTLY = "above 0.1 / records", "a quarter more"


def test_a_delta_that_was_chosen_by_itself_is_not_warned_of(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 2, "split": "sizes:3:4:5"}
    for name, delta, notes in (("auto", None, 0), ("loose", 1e-4, 1)):
        folder = made(tmp_path / name, topology="ring:3", delta=delta, **quick)
        assert sum(LOOSE in note for note in summary_of(folder)["notes"]) == notes
        assert words_of(folder).count("Delta is above") == notes
        assert words_of(part_of(folder, tmp_path / f"{name}-2", agent=2, agents=3)).count("Delta is above") == notes
    assert own_delta([11666, 11667]) > 0.1 / 11667  # what a note was made of


def test_one_small_agent_does_not_excuse_the_delta_of_large_ones() -> None:
    own = own_delta((50, 10**6))
    assert not is_loose(own, 50, own)
    assert is_loose(own, 10**6, own)  # ten whole records
    assert is_loose(2e-3 + 1e-9, 50, own)
    assert not is_loose(2e-3, 50, own)


def test_the_smallest_agent_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked for at every agent it took half of the set-up of 10,000 agents, and 90 s of that of 100,000."""
    asked: list[int] = []

    def counted(counts: Collection[int]) -> float:
        asked.append(len(counts))
        return own_delta(counts)

    monkeypatch.setattr(at_start, "own_delta", counted)
    part = np.zeros((4, 2)), np.ones(4)
    data = Records("made", {}, dict.fromkeys(range(50), 4), *part, ("a", "b"), "public-bounds")
    config = RunConfig(algorithm="pp-admm", epsilon=1.0, delta=1e-5, seed=0)
    at_start.notes_of(config.sections.method, data, simulation=True, seeded=True)
    assert asked == [50]


def census(agents: int) -> dict[str, Any]:
    """Few records of it, read once for all seeds."""
    records = load(DataSettings(test_fraction=0.97), agents, range(agents))
    return {"loader": lambda *asked: records}


def breast_cancer() -> dict[str, Any]:
    """Records of the ten lines of docs/library.md."""
    X, y = pytest.importorskip("sklearn.datasets").load_breast_cancer(return_X_y=True)
    X = (X - X[:150].mean(axis=0)) / X[:150].std(axis=0)
    return {"X": X[150:], "y": y[150:], "test": (X[:150], y[:150])}


@pytest.mark.parametrize(
    ("large", "agents", "epsilon", "said"),
    [(False, 5, 1.0, True), (False, 5, 2.0, False), (True, 5, 0.5, True), (True, 20, 0.5, True), (True, 5, 2.0, False)],
)
def test_what_noise_is_said_to_cost_it_costs(
    large: bool, agents: int, epsilon: float, said: bool, tmp_path: Path
) -> None:
    given = {**(census(agents) if large else breast_cancer()), "agents": agents, "epsilon": epsilon}
    errors, pooled = [], []
    for seed in range(300, 304 if said else 301):
        summary = run(algorithm="noisy-gd", seed=seed, out=tmp_path / str(seed), **given).summary
        assert any(COSTLY in note for note in summary["notes"]) is said
        errors.append(summary["test_error"]["consensus"])
        pooled.append(summary["references"]["pooled"])
    if said:
        assert np.mean(errors) > 1.25 * np.mean(pooled)
