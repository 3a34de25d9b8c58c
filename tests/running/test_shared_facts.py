"""Agents with the same facts share loss and contract, so that costs and radii are worked out once for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from admmnet import run
from admmnet.data import Records
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
