"""One account over many runs: totals that go on, budgets that span them, and every way to be refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunError, read_run
from admmnet.cli import run_command_line
from admmnet.errors import BudgetError, RequestError
from admmnet.privacy.conversion import ORDERS, allowance, best_order
from admmnet.privacy.ledger import audit
from admmnet.record import format
from admmnet.rng import AgentStreams
from admmnet.running import loop
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from tests.command_runs import Admmnet
from tests.planned import nominal_rho

from .accounts import Place, opened_order


def test_totals_go_on_over_runs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a gate says yes, and so what it leaves, is chance: it is drawn here as it was with a seed."""
    monkeypatch.setattr(loop, "AgentStreams", lambda agent, seed: AgentStreams(agent, 1))
    ledgers = []
    runs: list[tuple[float, dict[str, Any]]] = [
        (1.0, {"account_order": True}),
        (2.0, {"algorithm": "ipp-admm", "gate": "above-threshold"}),
        (4.0, {"release": "output"}),
        *((6.0 + 2.0 * k, {"algorithm": name}) for k, name in enumerate(("dvp", "m-admm", "r-admm"))),
    ]
    for number, (epsilon, words) in enumerate(runs):
        result = place.run(f"run{number}", epsilon=epsilon, **words)
        ledgers.append(list(read_run(result.folder).ledgers.values()))
        for i, account in enumerate(place.totals()):
            mine = [book[i] for book in ledgers]
            assert account.rho == pytest.approx(sum(book.totals.rho for book in mine), rel=1e-12)
            np.testing.assert_allclose(account.curve, sum(book.totals.curve for book in mine), rtol=1e-12)
            assert account.epsilon_proven(1e-4) <= epsilon
            order = opened_order(place)
            used = float(account.curve[order]) / allowance(order, epsilon, 1e-4)
            assert 1.0 - 1e-9 <= used <= 1.0 + 1e-12, "what the runs before left, and no more"
            shown = result.summary["per_agent"][i]["account_epsilon_spent"]
            assert shown == account.epsilon_proven(1e-4)
        spent = max(totals.epsilon_proven(1e-4) for totals in place.totals())
        assert result.summary["privacy"]["account_epsilon_spent"] == spent
    book = audit.read(place.file(1), account=True)
    assert book.runs == 6
    assert len(book.events) == sum(len(books[1].events) for books in ledgers)
    assert book.header["budget"]["epsilon"] == 10.0


def test_the_order_is_fixed_at_the_first_opening(place: Place) -> None:
    place.run("first", epsilon=0.5, account_order=True)
    order = opened_order(place)
    best = [best_order(nominal_rho(epsilon, 1e-4) * ORDERS, 1e-4) for epsilon in (0.5, 8.0)]
    assert abs(order - best[0]) <= 2, "that of the first plan, which (P5) allows a little more noise less"
    assert abs(order - best[1]) > 20
    result = place.run("second", epsilon=8.0)
    assert opened_order(place) == order
    orders = {book.header["account_filter"]["order"] for book in read_run(result.folder).ledgers.values()}
    assert orders == {float(ORDERS[order])}


def test_a_run_with_nothing_left_is_refused(place: Place, admmnet: Admmnet) -> None:
    place.run("first")
    before = [place.file(i).read_bytes() for i in range(3)]
    for algorithm in ("pp-admm", "ipp-admm"):
        message = admmnet.refused(*place.words("second", "--algorithm", algorithm), code=4)
        assert "all of epsilon 1 is spent" in message
        assert "the account has spent epsilon" in message
        assert "nothing is left for another run; raise --epsilon" in message
    assert not (place.folder / "second").exists()
    assert [place.file(i).read_bytes() for i in range(3)] == before
    admmnet.ok(*place.words("third", "--epsilon", "2"))


def test_agents_have_accounts_with_budgets_of_their_own(place: Place) -> None:
    budgets = {"1": {"epsilon": 0.3}}
    place.run("first", budgets=budgets)
    with pytest.raises(BudgetError, match="nothing is left"):
        place.run("second", epsilon=5.0, budgets=budgets)
    place.run("third", epsilon=5.0)
    spent = [totals.epsilon_proven(1e-4) for totals in place.totals()]
    assert all(epsilon <= 5.0 for epsilon in spent)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("--delta 1e-5", "is for delta = 0.0001, this run has 1e-05: it belongs to other records"),
        ("--test-fraction 0.5", "was opened with test_fraction = None, this run has 0.5"),
        ("--data-seed 1", "was opened with data_seed = 0, this run has 1"),
        ("--split dirichlet:5", "was opened with split = 'iid', this run has 'dirichlet:5'"),
    ],
)
def test_other_records_or_another_delta_are_refused(words: str, name: str, place: Place, admmnet: Admmnet) -> None:
    place.run("first")
    before = place.file().read_bytes()
    message = admmnet.refused(*place.words("second", "--epsilon", "3", *words.split()))
    assert name in message
    assert "name another folder with --account" in message
    assert "it starts from zero, but costs of the same records in both add up: admmnet account show" in message
    assert not (place.folder / "second").exists()
    assert place.file().read_bytes() == before


def test_another_agents_account_is_refused(place: Place) -> None:
    place.run("first")
    place.file(0).write_bytes(place.file(2).read_bytes())
    with pytest.raises(RequestError, match="is for agent = 2, this run has 0"):
        place.run("second", epsilon=3.0)


def test_accounts_go_with_proven_methods(place: Place, admmnet: Admmnet) -> None:
    for words in (("--method", "published"), ("--algorithm", "admm")):
        assert "account goes with method = 'proven'" in admmnet.refused(*place.words("run", *words))
    assert not place.account.exists()


# a run that fails


def test_a_run_that_fails_has_its_charges_in_the_account(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = LocalSolver.solve, 0

    def solve(self: LocalSolver, *args: Any) -> Solution:
        nonlocal calls
        calls += 1
        if calls == 5:  # the second solve in the second round
            raise RunError("the cable is cut")
        return real(self, *args)

    monkeypatch.setattr(LocalSolver, "solve", solve)
    with pytest.raises(RunError, match="agent 2, round 1: the cable is cut") as kept:
        place.run("first", seed=None, simulate=True, account_order=True)
    monkeypatch.undo()
    books = list(read_run(place.folder / "first").ledgers.values())
    for account, book in zip(place.totals(), books, strict=True):
        assert account.rho >= book.totals.rho * (1 - 1e-12)
        # the agent that failed had been charged for the round, and so had all that were asked with it
        assert {round for round, _, _ in book.events} == {0, 1}
    # the lock is free and a second run gets what is left
    place.run("second", seed=None, simulate=True)
    order = opened_order(place)
    for totals in place.totals():
        assert float(totals.curve[order]) == pytest.approx(allowance(order, 1.0, 1e-4), rel=1e-9)
    for totals in place.totals():
        assert totals.epsilon_proven(1e-4) <= 1.0
    assert kept.value.__traceback__ is not None


# people


def test_account_show(place: Place, admmnet: Admmnet) -> None:
    place.run("first", epsilon=1.0)
    place.run("second", epsilon=2.0)
    rows = [line.split() for line in admmnet.ok("account", "show", place.account).out.splitlines()]
    rows = [row for row in rows if row and row[0].isdecimal()]
    spent = [totals.epsilon_proven(1e-4) for totals in place.totals()]
    assert [row[:2] for row in rows] == [["0", "65"], ["1", "65"], ["2", "65"]]
    for row, epsilon in zip(rows, spent, strict=True):
        assert row[-2:] == ["2", "runs"]
        assert row[5] == format.epsilon(epsilon)
        assert row[7:9] == ["2", "0.0001"]

    entries = admmnet.json("account", "show", place.account)
    assert [entry["total"]["epsilon_spent"] for entry in entries] == spent
    assert [entry["header"]["agent"] for entry in entries] == [0, 1, 2]
    assert [entry["count"] for entry in entries] == [2 * 3 * 2] * 3  # runs, rounds, events of a release
    assert [entry["runs"] for entry in entries] == [2] * 3


def test_account_show_of_nothing(tmp_path: Path, admmnet: Admmnet) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        assert f"{folder} holds no account: it has no agent-*.jsonl" in admmnet.refused("account", "show", folder)


def test_an_account_that_was_opened_and_never_used(place: Place, admmnet: Admmnet) -> None:
    """A request that is refused after the account was opened leaves no charge and no trouble."""
    assert run_command_line(place.words("run", "--eta", "1e-9", "--proximal", "0")) == 4
    assert "holds no account" in admmnet.refused("account", "show", place.account)
    admmnet.ok(*place.words("run"))


def test_a_folder_that_cannot_be_made(place: Place, admmnet: Admmnet) -> None:
    place.account.write_text("mine")
    assert "cannot open the account" in admmnet.refused(*place.words("run"))
    assert place.account.read_text() == "mine"
