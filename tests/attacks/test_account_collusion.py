"""All collude, over several masked runs of an account: what that costs keeps a promise that the first run fixed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from admmnet import RequestError, run
from admmnet.privacy.contract import Contract
from admmnet.privacy.filters import Spend
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.checks import contract_of
from admmnet.privacy.ledger.form import HeaderLine, RunLine

from .doors import private

DELTA = 1e-5


def settings(folder: Path, colluders: int, out: str, **others: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"algorithm": "noisy-gd", "trust": "masked", "colluders": colluders, "rounds": 5}
    given |= {"topology": "complete:5", "account": str(folder / "account"), "out": str(folder / out)}
    return private(folder, **given | others)


def together(folder: Path) -> float:
    """Epsilon of all runs of agent 0's account to those who know all masks."""
    totals = audit.read(folder / "account" / "agent-000.jsonl", account=True).totals
    found = Contract.reading(DELTA).spent(totals, alone=True)
    assert found is not None
    return found


def test_a_run_with_more_parts_is_refused(tmp_path: Path) -> None:
    first = run(**settings(tmp_path, 3, "first", epsilon=0.5))
    with pytest.raises(RequestError, match="at most 2 agents that do not collude, this run has 5"):
        run(**settings(tmp_path, 0, "second", epsilon=1.0))
    run(**settings(tmp_path, 3, "third", epsilon=0.8))
    last = run(**settings(tmp_path, 3, "fourth", epsilon=1.0))
    promised = last.summary["privacy"]["account_epsilon_if_all_collude_proven"]
    assert first.summary["privacy"]["account_epsilon_if_all_collude_proven"] < promised < math.inf
    assert 0.9 * promised < together(tmp_path) <= promised
    assert last.summary["privacy"]["account_epsilon_if_all_collude"] == pytest.approx(together(tmp_path))


def test_without_the_limit_the_first_run_promises_too_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(**settings(tmp_path, 3, "first", epsilon=0.5))
    promised = Spend(1.0, DELTA, None, 1e-12, 2).most(alone=True).epsilon
    filter = Spend.raised

    def raised(self: Spend, epsilon: float) -> Spend:
        found = filter(self, epsilon)
        return Spend(found.epsilon, found.delta, found.order, found.kappa, 5)

    monkeypatch.setattr(Spend, "raised", raised)
    monkeypatch.setattr("admmnet.privacy.ledger.checks.run_contract", _trusting)
    run(**settings(tmp_path, 0, "second", epsilon=1.0))
    assert together(tmp_path) > 1.2 * promised
    assert first.summary["privacy"]["account_epsilon_if_all_collude_proven"] < promised


def _trusting(line: RunLine, before: HeaderLine) -> Contract:
    return contract_of(line, account=True)
