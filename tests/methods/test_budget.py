"""Budgets of methods that exchange vectors: kept, used, and refused for good where they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.privacy.budget import Charges, Totals
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.privacy.events import NoRecords
from admmnet.running.plan import contract_of

from .recording import SIZE, charges
from .recording import play as recorded
from .replays import Proven

play = partial(recorded, rounds=7, epsilon=8.0)
GATED: dict[str, Any] = {"algorithm": "ipp-admm", "gate_share": 0.5, "gate_threshold": -1e8}


def ending_after(releases: float, questions: float = 0.0) -> Callable[..., Contract]:
    """``contract_of`` that affords so many releases, and questions of a gate, whose event is the last one planned."""

    def ended(config: Any, charges: Charges, target: Target, agents: int, **_: Any) -> Contract:
        contract = contract_of(config, charges, target, agents)
        assert contract.filter is not None
        often = [count if isinstance(event, NoRecords) else releases for event, count in charges]
        if questions:
            often[-1] = questions
        order = contract.filter.place
        cost = [Totals.of([(event, 1)], contract.form).at(order) for event, _ in charges]
        return replace(contract, filter=structs.replace(contract.filter, limit=float(np.dot(often, cost))))

    return ended


def test_every_agent_keeps_its_own_budget(problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 4, "epsilon": 2.0, "eta": 0.1, "delta": 1e-4}
    words |= {"budgets": {"1": {"epsilon": 0.5}, "3": {"delta": 1e-6}}, "loss": "logistic", "beta": 1e-8}
    result, plan, said = recorded(problem, tmp_path / "run", **words)
    replay = Proven(problem, plan)
    replay.check(said, replay.close)
    headers = [book.header["budget"] for book in read_run(tmp_path / "run").ledgers.values()]
    promised = [(own["epsilon"], own["delta"]) for own in headers]
    assert promised == [(2.0, 1e-4), (0.5, 1e-4), (2.0, 1e-4), (2.0, 1e-6), (2.0, 1e-4)]
    sigma = [book[0][1].sigma for book in charges(tmp_path / "run")]
    assert sigma[1] > 3 * sigma[2]
    assert 1.05 * sigma[2] < sigma[3] < sigma[1]
    for entry, (epsilon, _) in zip(result.summary["per_agent"], promised, strict=True):
        assert 0.98 * epsilon <= entry["epsilon_proven"] <= epsilon


@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_a_run_spends_no_more_than_it_promised(gate: str, problem: Path, tmp_path: Path) -> None:
    summary = play(problem, tmp_path / "run", **GATED, gate=gate, max_releases=7, epsilon=1.0)[0].summary
    for entry in summary["per_agent"]:
        assert 0.98 <= entry["epsilon_proven"] <= 1.0
        assert entry["epsilon_spent"] == pytest.approx(entry["epsilon_proven"], rel=1e-9)
    assert summary["privacy"]["epsilon_published"] is None


# a budget that ends before the rounds


@pytest.mark.parametrize("name", ["dvp", "m-admm", "r-admm", "pp-admm", "off", "gaussian", "above-threshold", "never"])
def test_a_budget_that_ends_early_refuses_for_good(
    name: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a release more than two of them: a gate's third question is refused, although it alone would fit."""
    gated = name in ("gaussian", "above-threshold")
    words: dict[str, Any] = GATED | {"epsilon": 120.0, "gate": name} if gated else {"algorithm": name}
    words = {"off": {"algorithm": "ipp-admm", "gate": name}, "never": {"algorithm": "r-admm"}}.get(name, words)
    releases, end = {"r-admm": (2.5, 4), "never": (0.5, 0)}.get(name, (2.5, 2))  # of r-admm a third would be in round 4
    monkeypatch.setattr("admmnet.running.plan.contract_of", ending_after(releases, 3.0 * gated))
    result, _, said = play(problem, tmp_path / "run", **words)
    for round, spoken in enumerate(said):
        assert all((vector is not None) == (round < end) for vector in spoken.values()), round
    assert [(entry["refused_at"], entry["releases"]) for entry in result.summary["per_agent"]] == [(end, end)] * 5
    assert [{round for round, _ in book} for book in charges(tmp_path / "run")] == [set(range(end))] * 5
    np.testing.assert_array_equal(result.theta, [said[end - 1][i] for i in range(5)] if end else np.zeros((5, SIZE)))
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0
