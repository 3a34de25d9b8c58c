"""Somebody plans changed starts to spend more than the budget: docs/proofs.md, Theorem 31."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admmnet import run
from admmnet.errors import CheckFailed, RunError
from admmnet.forms import encode
from admmnet.privacy.budget import Totals, empty
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.privacy.events import Gaussian
from admmnet.privacy.filters import Count
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger
from admmnet.privacy.ledger.lines import digest
from admmnet.record.reader import read_run
from tests.people_runs import write_people

OFTEN = ",".join(f"0:{round}" for round in range(0, 12, 2))
"""Every round begins a start."""


def attacked(folder: Path, **settings: Any) -> Any:
    people = write_people(folder / "people.npz", 200, width=3)
    common: dict[str, Any] = {
        "data": str(people),
        "algorithm": "pp-admm",
        "topology": "ring:4",
        "rounds": 12,
        "epsilon": 2.0,
        **({"simulate": True} if "account" in settings else {"seed": 3}),
    }
    return run(**common, offline=OFTEN, out=folder / "run", **settings)


def test_plans_that_forget_what_is_spent_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start plans to spend all of the budget: the limit of the run refuses, for good, and ledgers verify."""
    monkeypatch.setattr(Ledger, "before", lambda self, round: empty("proven"))
    summary = attacked(tmp_path).summary
    for entry in summary["per_agent"]:
        assert entry["epsilon_spent"] <= 2.0 * (1.0 + 1e-9)
        assert entry["refused_at"] is not None
    spent = {i: book.totals for i, book in read_run(tmp_path / "run").ledgers.items()}
    assert min(entry["epsilon_spent"] for entry in summary["per_agent"]) > 1.0
    assert len(spent) == 4


def test_every_agent_has_spent_its_budget_and_no_more(tmp_path: Path) -> None:
    summary = attacked(tmp_path, account=str(tmp_path / "account")).summary
    for entry in summary["per_agent"]:
        assert 1.98 < entry["epsilon_spent"] <= entry["account_epsilon_spent"] <= 2.0
        assert entry["refused_at"] is None
    assert [entry["releases"] for entry in summary["per_agent"]] == [6, 12, 12, 12]


def test_slots_cannot_be_exchanged_without_a_limit() -> None:
    ledger = MemoryLedger(Contract.reading(1e-5))
    with pytest.raises(RunError, match="no limit for the whole run"):
        ledger.renew(Count(((Gaussian(1.0, 1e-3), 100),)))


Lines = list[dict[str, Any]]


def last_start(lines: Lines) -> int:
    return max(place for place, line in enumerate(lines) if line["kind"] == "start")


def cheaper(lines: Lines) -> None:
    """Its slots are said to have more noise than was drawn."""
    for row in lines[last_start(lines)]["filter"]["planned"]:
        row[1]["sigma"] *= 2.0


FORGED: dict[str, tuple[Callable[[Lines], Any], str]] = {
    "no limit": (lambda lines: lines[0].pop("run_filter"), "delta_clipping is"),
    "no start": (lambda lines: lines.pop(last_start(lines)), "no planned event covers|more of it is charged"),
    "earlier": (lambda lines: lines[last_start(lines)].update(round=0), "is no start of round 0"),
    "cheaper slots": (cheaper, "no planned event covers"),
    "a larger limit": (lambda lines: lines[0]["run_filter"].update(order=1.5, kappa=1e-3), "kappa|lets through"),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_starts_are_found(kind: str, tmp_path: Path) -> None:
    attacked(tmp_path)
    path = tmp_path / "run" / "ledger" / "agent-001.jsonl"
    audit.read(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    forge, told = FORGED[kind]
    forge(lines)
    text, before = b"", ""
    for line in lines:
        line |= {"previous": before} if before else {}
        data = encode(line)
        text, before = text + data + b"\n", digest(data)
    path.write_bytes(text)
    with pytest.raises(CheckFailed, match=told):
        audit.read(path)


def test_totals_of_before_are_those_of_the_file(tmp_path: Path) -> None:
    """What a start was planned on top of is what the ledger held then."""
    attacked(tmp_path)
    book = audit.read(tmp_path / "run" / "ledger" / "agent-001.jsonl")
    assert [start.round for start in book.changed] == list(range(12))
    for start in book.changed:
        assert start.events == sum(round < start.round for round, _, _ in book.events)
        own = Totals.of(((event, 1) for _, event, _ in book.events[: start.events]), "proven")
        assert own.rho < book.totals.rho
