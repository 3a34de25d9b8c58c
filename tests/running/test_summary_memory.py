"""The summary of very many agents: no second copy of their figures, and equal ones once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import run
from admmnet.holder import Door, Holder
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import get_loss
from admmnet.transport.local import LocalWorld
from tests.people_runs import small, write_people


def test_one_process_makes_no_copy_of_its_agents_figures_and_equal_ones_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def gather(world: LocalWorld, value: Any) -> list[Any]:
        told.append(value)
        return [json.loads(json.dumps(value))]

    monkeypatch.setattr(LocalWorld, "gather", gather)
    people = write_people(tmp_path / "people.npz")
    entries = run(small(people, tmp_path / "run", topology="ring:3", no_test=True, seed=0)).summary["per_agent"]
    assert not [value for value in told if isinstance(value, dict) and "digests" in value]
    assert entries[0]["epsilon_spent"] is not None
    assert len({id(entry["epsilon_spent"]) for entry in entries}) == 1


def test_agents_without_marks_share_that_they_have_none() -> None:
    holder, loss = Holder(np.eye(2), np.ones(2)), get_loss("logistic")
    ledger = MemoryLedger(Contract())
    doors = [Door(holder, 0, loss, ledger, AgentStreams(i, 0)) for i in (0, 1)]
    doors[0].marks |= {"one"}
    assert not doors[1].marks
    assert doors[1].marks is Door(holder, 0, loss, ledger, AgentStreams(2, 0)).marks
