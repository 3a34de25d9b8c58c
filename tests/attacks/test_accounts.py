"""Accounts and changed starts that are made to spend more than was promised: each time the first promise stands.

All collude over several masked runs of an account; a run goes on after another has raised its account's epsilon;
somebody plans changed starts (docs/proofs.md, Theorem 31).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run, run
from admmnet.errors import AdmmnetError, RequestError
from admmnet.privacy.budget import empty
from admmnet.privacy.contract import Contract
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger
from admmnet.record.reader import check_account
from tests.interrupted_runs import Place
from tests.people_runs import write_people
from tests.privacy.ledgers import Change, chained, parsed, put

from .doors import private

DELTA = 1e-5

# all collude


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


# a run that goes on


def kappas(account: audit.VerifiedLedger) -> list[float]:
    filters = [start.filter for start in account.starts]
    assert all(one is not None and one.order is None for one in filters)
    return [one.kappa for one in filters if one is not None]


WORDS: dict[str, Any] = {"seed": None, "account": "account", "algorithm": "noisy-gd"}


def raised_meanwhile(place: Place) -> Path:
    """Folder of a run at epsilon 3 that was cut, after which another one of its account had epsilon 6."""
    folder = place.interrupted("cut", 4, epsilon=3.0, **WORDS)
    place.whole("other", epsilon=6.0, rounds=2, **WORDS)
    return folder


def test_its_header_stays_and_the_account_is_guarded_as_strictly(place: Place) -> None:
    folder = raised_meanwhile(place)
    before = {file.name: file.read_bytes() for file in (folder / "ledger").iterdir()}
    place.resume(folder)
    accounts = {}
    for name, book in read_run(folder).ledgers.items():
        path = place.folder / "account" / Path(name).name
        accounts[path.name] = account = audit.read(path, account=True)
        assert (folder / name).read_bytes().startswith(before[path.name])
        first, other, again = kappas(account)
        assert first > other == again, "a resumed run does not widen what the other one has narrowed"
        assert account.totals.epsilon_proven(1e-4) <= 6.0
        assert book.header["account_filter"]["kappa"] == first
    check_account(place.folder / "account", accounts, folder)


ANOTHER = "begins with another header than this run's"
FORGED_HEADERS: list[tuple[Change, str]] = [
    (put(0, "account_filter", kappa=0.0), ANOTHER),
    (put(0, "account_filter", parts=3), ANOTHER),
    (lambda lines: lines[0]["account_filter"].update(kappa=kappa_of(lines) * math.exp(-3.0)), ANOTHER),
    (put(0, "budget", epsilon=6.0), "line 1: its filter lets through more than the budget's epsilon"),
    (put(0, "budget", epsilon=2.9), "line 1: its filter lets through more than the budget's epsilon"),
]


def test_a_forged_header_is_refused(place: Place) -> None:
    folder = raised_meanwhile(place)
    path = folder / "ledger" / "agent-001.jsonl"
    data = path.read_bytes()
    for change, told in FORGED_HEADERS:
        lines = parsed(data)
        change(lines)
        path.write_bytes(chained(lines))
        with pytest.raises(AdmmnetError, match=rf"agent-001\.jsonl:? {told}"):
            place.resume(folder)
    path.write_bytes(data)
    place.resume(folder)


def kappa_of(lines: list[dict[str, Any]]) -> float:
    return float(lines[0]["account_filter"]["kappa"])


# changed starts

OFTEN = ",".join(f"0:{round}" for round in range(0, 12, 2))
"""Every round begins a start."""


def attacked(folder: Path, **settings: Any) -> Any:
    people = write_people(folder / "people.npz", 200, width=3)
    common: dict[str, Any] = {"data": str(people), "algorithm": "pp-admm", "topology": "ring:4", "rounds": 12}
    common |= {"simulate": True} if "account" in settings else {"seed": 3}
    return run(**common, epsilon=2.0, offline=OFTEN, out=folder / "run", **settings)


def test_plans_that_forget_what_is_spent_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start plans to spend all of the budget: the limit of the run refuses, for good, and ledgers verify."""
    monkeypatch.setattr(Ledger, "before", lambda self, round: empty("proven"))
    summary = attacked(tmp_path).summary
    for entry in summary["per_agent"]:
        assert 1.0 < entry["epsilon_spent"] <= 2.0 * (1.0 + 1e-9)
        assert entry["refused_at"] is not None
    assert len(read_run(tmp_path / "run").ledgers) == 4


def test_every_agent_has_spent_its_budget_and_no_more(tmp_path: Path) -> None:
    """What a start was planned on top of is what the ledger held then."""
    summary = attacked(tmp_path, account=str(tmp_path / "account")).summary
    for entry in summary["per_agent"]:
        assert 1.98 < entry["epsilon_spent"] <= entry["account_epsilon_spent"] <= 2.0
        assert entry["refused_at"] is None
    assert [entry["releases"] for entry in summary["per_agent"]] == [6, 12, 12, 12]
    book = audit.read(tmp_path / "run" / "ledger" / "agent-001.jsonl")
    assert [start.round for start in book.changed] == list(range(12))
