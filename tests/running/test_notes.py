"""Notes before a run are said where they hold, and nowhere else: a loose delta, and what noise costs noisy-gd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import run
from admmnet.config.defaults import is_loose, own_delta
from admmnet.data import DataSettings, load
from tests.people_runs import summary_of
from tests.report_pages import words_of
from tests.run_folders import made, part_of

LOOSE, COSTLY = "above 0.1 / records", "a quarter more"


def test_a_delta_that_was_chosen_by_itself_is_not_warned_of(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 1, "split": "sizes:3:4:5", "test_fraction": 0.95}
    for name, delta, notes in (("auto", None, 0), ("loose", 1e-3, 1)):
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


@pytest.mark.parametrize(("agents", "epsilon", "said"), [(5, 0.5, True), (20, 0.5, True), (5, 2.0, False)])
def test_what_noise_is_said_to_cost_it_costs(agents: int, epsilon: float, said: bool, tmp_path: Path) -> None:
    records = load(DataSettings(test_fraction=0.97), agents, range(agents))  # few, read once for all seeds
    given: Any = {"loader": lambda *asked: records, "agents": agents, "epsilon": epsilon}
    errors, pooled = [], []
    for seed in range(300, 303 if said else 301):
        summary = run(algorithm="noisy-gd", seed=seed, out=tmp_path / str(seed), **given).summary
        assert any(COSTLY in note for note in summary["notes"]) is said
        errors.append(summary["test_error"]["consensus"])
        pooled.append(summary["references"]["pooled"])
    if said:
        assert np.mean(errors) > 1.25 * np.mean(pooled)
