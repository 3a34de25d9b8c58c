"""One account over many runs: totals that go on, budgets that span them, and every way to be refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunError, read_run
from admmnet.cli import run_command_line
from admmnet.errors import BudgetError
from admmnet.privacy.conversion import allowance
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.rng import AgentStreams
from admmnet.running import loop
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from tests.command_runs import Admmnet

from .accounts import Place

RUNS: dict[str, list[dict[str, Any]]] = {
    "order": [
        {"account_order": True, "epsilon": 0.5},
        {"algorithm": "ipp-admm", "gate": "above-threshold"},
        {"release": "output"},
        *({"algorithm": name} for name in ("dvp", "m-admm", "r-admm", "noisy-gd")),
    ],
    "mu^2": [
        {"algorithm": "noisy-gd"},
        {},
        {"algorithm": "ipp-admm", "gate": "joining"},
        {"algorithm": "ssp", "loss": "squared", "rounds": 1},
        {"release": "output"},
    ],
}


@pytest.mark.parametrize("kind", RUNS)
def test_totals_go_on_over_runs(kind: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each uses what those before left, and no more; how often a gate says yes is drawn here as with a seed."""
    monkeypatch.setattr(loop, "AgentStreams", lambda agent, seed: AgentStreams(agent, 1))
    ledgers, opened = list[list[VerifiedLedger]](), list[str]()
    for number, words in enumerate(RUNS[kind], start=1):
        epsilon = words.get("epsilon", float(number) if kind == "mu^2" else 2.0 * (number - 1))
        result = place.run(f"run{number}", **{"epsilon": epsilon} | words)
        opened += [note for note in result.summary["notes"] if "is new and adds up mu^2" in note]
        ledgers.append(list(read_run(result.folder).ledgers.values()))
        limits = [audit.read(place.file(i), account=True).contract.account for i in range(3)]
        for i, (account, limit) in enumerate(zip(place.totals(), limits, strict=True)):
            mine = [book[i].totals for book in ledgers]
            assert account.rho == pytest.approx(sum(own.rho for own in mine), rel=1e-12)
            np.testing.assert_allclose(account.curve, sum(own.curve for own in mine), rtol=1e-12)
            assert account.mu_squared == pytest.approx(sum(own.mu_squared for own in mine), rel=1e-12)
            assert account.epsilon_proven(1e-4) <= epsilon
            assert limit is not None
            assert (limit.order is None) is (kind == "mu^2")
            used = account.at(limit.place) / limit.most_added
            assert (1.0 - 1e-9 if kind == "order" else 0.998) <= used <= 1.0 + 1e-12
            shown = result.summary["per_agent"][i]["account_epsilon_spent"]
            assert shown == audit.read(place.file(i), account=True).total()["epsilon_spent"]
        spent = max(row["account_epsilon_spent"] for row in result.summary["per_agent"])
        assert result.summary["privacy"]["account_epsilon_spent"] == spent
    book = audit.read(place.file(1), account=True)
    assert (len(book.starts), len(book.events)) == (len(ledgers), sum(len(books[1].events) for books in ledgers))
    assert book.header["budget"]["epsilon"] == epsilon
    assert len(opened) == (kind == "mu^2")


def test_what_does_not_fit_an_account_of_mu_squared_is_told(place: Place, admmnet: Admmnet) -> None:
    place.run("first", algorithm="noisy-gd")
    book, before = audit.read(place.file(), account=True), place.file().read_bytes()
    assert {type(event) for _, event, _ in book.events} == {DiscreteGaussian}
    told = admmnet.refused(*place.words("second", "--algorithm", "noisy-gd"), code=4)
    assert "nothing is left for another run; raise --epsilon to 1.4" in told
    told = admmnet.refused(*place.words("more", "--epsilon", "9", "--loss", "huber"))
    assert "adds up mu^2, which" in told
    assert "Take an algorithm with Gaussian noise" in told
    words = place.words("more", "--epsilon", "9", "--loss", "huber", "--account-order")
    assert "account_order came too late" in admmnet.refused(*words)
    assert not (place.folder / "more").exists()
    assert place.file().read_bytes() == before


def test_a_further_run_on_measured_columns_is_planned_like_a_first_one(tmp_path: Path, admmnet: Admmnet) -> None:
    """Nine features leave K of Theorem 26 little room: convexity for more than the plan then spends has no mu^2."""
    file, schema = tmp_path / "bank.csv", tmp_path / "schema.toml"
    file.write_text("age,y\n" + "".join(f"{18 + i % 70},{'yes' if i % 70 > 40 else 'no'}\n" for i in range(12_000)))
    schema.write_text('[data.schema]\nlabel = "y"\nlabels = ["no", "yes"]\nnumeric = ["age"]\n')
    words = ["run", "--data", str(file), "--schema", str(schema), "--no-test", "--account", str(tmp_path / "mine")]
    words += ["--topology", "complete:7", "--rounds", "20", "--measure-every", "20"]
    for name, target in (("first", "1"), ("second", "1.466")):
        said = admmnet.ok(*words, "--epsilon", target, "-o", tmp_path / name)
        assert "bounds of 1 and the shape of 1 column of numbers are" in said.out + said.err
    mine = read_run(tmp_path / "second").ledgers["ledger/agent-000.jsonl"].totals.epsilon_gaussian(1e-5)
    assert mine > 0.99
    assert {one["rounds"] for one in admmnet.json("account", "show", tmp_path / "mine")} == {2 * (3 + 20)}


def test_agents_have_accounts_with_budgets_of_their_own(place: Place) -> None:
    budgets = {"1": {"epsilon": 0.3}}
    place.run("first", budgets=budgets)
    with pytest.raises(BudgetError, match="nothing is left"):
        place.run("second", epsilon=5.0, budgets=budgets)
    place.run("third", epsilon=5.0)
    assert all(totals.epsilon_proven(1e-4) <= 5.0 for totals in place.totals())


def test_what_has_no_account_is_refused(place: Place, admmnet: Admmnet) -> None:
    for words in ("--method published", "--algorithm admm"):
        assert "account goes with method = 'proven'" in admmnet.refused(*place.words("run", *words.split()))
    place.account.write_text("mine")
    assert "cannot open the account" in admmnet.refused(*place.words("run"))
    place.account.unlink()
    # a request that is refused after the account was opened leaves no charge and no trouble
    assert run_command_line(place.words("run", "--no-test", "--eta", "1e-9", "--proximal", "0")) == 4
    assert "holds no account: it has no agent-*.jsonl" in admmnet.refused("account", "show", place.account)
    place.run("first", no_test=True)
    before = place.file().read_bytes()
    told = admmnet.refused(*place.words("second", "--epsilon", "3", "--no-test", "--data-seed", "1"))
    assert "was opened with data_seed = 0, this run has 1" in told
    assert not (place.folder / "second").exists()
    assert place.file().read_bytes() == before


# a run that fails, or is interrupted


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
    limit = audit.read(place.file(), account=True).contract.account
    assert limit is not None
    assert limit.place is not None
    for totals in place.totals():
        assert totals.curve[limit.place] == pytest.approx(allowance(limit.place, 1.0, 1e-4), rel=1e-9)
        assert totals.epsilon_proven(1e-4) <= 1.0
    assert kept.value.__traceback__ is not None
