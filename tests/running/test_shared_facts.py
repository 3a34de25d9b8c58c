"""Agents with the same facts share loss and contract, so that costs and radii are worked out once for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig, run
from admmnet.data import Records
from admmnet.graph.simple import Graph
from admmnet.methods import METHODS
from admmnet.methods.base import Facts
from admmnet.running.plan import Plan

AGENTS, SIZES = 210, 70
"""Three agents of every size; more sizes than a small cache holds."""


def records(*_: Any) -> Records:
    rng, counts = np.random.default_rng(0), {i: 2 + i % SIZES for i in range(AGENTS)}
    shards = {
        i: (np.eye(3)[rng.integers(3, size=n)], np.where(rng.random(n) < 0.5, 1.0, -1.0)) for i, n in counts.items()
    }
    return Records("made", shards, counts, *shards[0], ("a", "b", "c"), "public-bounds")


def test_equal_agents_share_loss_and_contract(tmp_path: Path) -> None:
    seen: list[Plan] = []
    settings: Any = {"algorithm": "pp-admm", "topology": f"ring:{AGENTS}", "epsilon": 3.0, "rounds": 1, "seed": 0}
    run(**settings, out=str(tmp_path / "run"), loss_width=0.3, loader=records, on_start=seen.append)
    (plan,) = seen
    assert plan.loss is plan.loss == plan.method.loss
    assert all(plan.contracts[i] is plan.contracts[i + SIZES] for i in range(2 * SIZES))


def test_records_of_a_total_are_added_up_once() -> None:
    class Counted(dict[int, int]):
        asked = 0

        def __getitem__(self, i: int) -> int:
            Counted.asked += 1
            return super().__getitem__(i)

    counts = Counted(enumerate([5, 7, 9]))
    settings = RunConfig(algorithm="noisy-gd", agents=3, epsilon=1.0, delta=1e-6, seed=0)
    method: Any = METHODS["noisy-gd"](settings.sections.method, Facts(Graph(3), counts, 4, dict.fromkeys(counts, 0.1)))
    everybody, Counted.asked = (0, 1, 2), 0
    assert [method.records_of(everybody) for _ in range(4)] == [21] * 4
    assert Counted.asked == 3
    assert [method.records_of(some) for some in ((0, 2), everybody)] == [14, 21]
