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
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger import audit
from admmnet.record import format
from admmnet.rng import AgentStreams
from admmnet.running import loop
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from tests import interrupted_runs
from tests.command_runs import Admmnet
from tests.planned import nominal_rho

from .accounts import Place, opened_order


def test_totals_go_on_over_runs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a gate says yes, and so what it leaves, is chance: it is drawn here as it was with a seed."""
    monkeypatch.setattr(loop, "AgentStreams", lambda agent, seed: AgentStreams(agent, 1))
    ledgers = []
    runs: list[tuple[float, dict[str, Any]]] = [
        (0.5, {"account_order": True}),
        (2.0, {"algorithm": "ipp-admm", "gate": "above-threshold"}),
        (4.0, {"release": "output"}),
        *((6.0 + 2.0 * k, {"algorithm": name}) for k, name in enumerate(("dvp", "m-admm", "r-admm", "noisy-gd"))),
    ]
    for number, (epsilon, words) in enumerate(runs):
        result = place.run(f"run{number}", epsilon=epsilon, **words)
        ledgers.append(list(read_run(result.folder).ledgers.values()))
        order = opened_order(place)
        orders = {book.header["account_filter"]["order"] for book in ledgers[-1]}
        assert orders == {float(ORDERS[order])}
        for i, account in enumerate(place.totals()):
            mine = [book[i] for book in ledgers]
            assert account.rho == pytest.approx(sum(book.totals.rho for book in mine), rel=1e-12)
            np.testing.assert_allclose(account.curve, sum(book.totals.curve for book in mine), rtol=1e-12)
            assert account.epsilon_proven(1e-4) <= epsilon
            used = float(account.curve[order]) / allowance(order, epsilon, 1e-4)
            assert 1.0 - 1e-9 <= used <= 1.0 + 1e-12, "what the runs before left, and no more"
            shown = result.summary["per_agent"][i]["account_epsilon_spent"]
            assert shown == account.epsilon_proven(1e-4)
        spent = max(totals.epsilon_proven(1e-4) for totals in place.totals())
        assert result.summary["privacy"]["account_epsilon_spent"] == spent
    best = [best_order(nominal_rho(epsilon, 1e-4) * ORDERS, 1e-4) for epsilon in (0.5, 8.0)]
    assert abs(order - best[0]) <= 2, "that of the first plan, which (P5) allows a little more noise less"
    assert abs(order - best[1]) > 20
    book = audit.read(place.file(1), account=True)
    assert (book.runs, len(book.events)) == (7, sum(len(books[1].events) for books in ledgers))
    assert book.header["budget"]["epsilon"] == 12.0


def test_mu_squared_adds_up_over_runs_of_gaussian_noise(place: Place, admmnet: Admmnet) -> None:
    """What is left is used to the last; several runs come to no more than one of all their events."""
    totals, opened = 0.0, []
    runs: list[dict[str, Any]] = [
        {"algorithm": "noisy-gd"},
        {"algorithm": "pp-admm"},
        {"algorithm": "ipp-admm", "gate": "joining"},
        {"algorithm": "ssp", "loss": "squared", "rounds": 1},
        {"algorithm": "pp-admm", "release": "output"},
    ]
    for epsilon, settings in enumerate(runs, start=1):
        result = place.run(str(epsilon), epsilon=float(epsilon), **settings)
        opened += [note for note in result.summary["notes"] if "is new and adds up mu^2" in note]
        totals += read_run(result.folder).ledgers["ledger/agent-000.jsonl"].totals.mu_squared
        book = audit.read(place.file(), account=True)
        assert book.totals.mu_squared == pytest.approx(totals, rel=1e-12)
        assert book.contract.spent(book.totals) == pytest.approx(epsilon, rel=5e-4)
        assert book.totals.epsilon_gaussian(1e-4) <= epsilon
        if epsilon == 1:
            assert {type(event) for _, event, _ in book.events} == {DiscreteGaussian}
            assert book.header["account_filter"]["order"] is None
            told = admmnet.refused(*place.words("second", "--algorithm", "noisy-gd"), code=4)
            assert "nothing is left for another run; raise --epsilon to 1.4" in told
    assert len(opened) == 1
    before = place.file().read_bytes()
    told = admmnet.refused(*place.words("more", "--epsilon", "9", "--loss", "huber"))
    assert "adds up mu^2, which" in told
    assert "Take an algorithm with Gaussian noise" in told
    assert "account_order came too late" in admmnet.refused(
        *place.words("more", "--epsilon", "9", "--loss", "huber", "--account-order")
    )
    assert not (place.folder / "more").exists()
    assert place.file().read_bytes() == before


@pytest.mark.parametrize(("first", "epsilon"), [(40.0, None), (1.0, 12.0)])
def test_an_account_is_opened_at_any_epsilon_and_raised_to_any(
    first: float, epsilon: float | None, place: Place
) -> None:
    """Its share for discrete noise was fixed at the first epsilon, and falls with a larger one."""
    for target in (first, epsilon):
        if target is not None:
            place.run(str(target), algorithm="noisy-gd", epsilon=target, rounds=5)
            spent = audit.read(place.file(), account=True).totals.epsilon_proven(1e-4)
            assert 0.7 * target < spent <= target


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


def test_other_records_modes_and_methods_are_refused(place: Place, admmnet: Admmnet) -> None:
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
    for words, told in (
        ("--no-test --delta 1e-5", "is for delta = 0.0001, this run has 1e-05: it belongs to other records"),
        ("--no-test --data-seed 1", "was opened with data_seed = 0, this run has 1"),
        ("--no-test --split dirichlet:5", "was opened with split = 'iid', this run has 'dirichlet:5'"),
        ("--test-fraction 0.5", "was opened with"),
    ):
        message = admmnet.refused(*place.words("second", "--epsilon", "3", *words.split()))
        assert told in message
        assert "name another folder with --account" in message
    with pytest.raises(RequestError, match="was opened with mode = 'simulation', this run has 'private'"):
        place.run("second", epsilon=3.0, simulate=False, no_test=True)
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
    order = opened_order(place)
    for totals in place.totals():
        assert float(totals.curve[order]) == pytest.approx(allowance(order, 1.0, 1e-4), rel=1e-9)
        assert totals.epsilon_proven(1e-4) <= 1.0
    assert kept.value.__traceback__ is not None


def test_a_private_run_goes_on_within_its_budget(tmp_path: Path) -> None:
    place = interrupted_runs.Place(tmp_path)
    interrupted_runs.write_people(place.data)
    folder = place.interrupted("cut", 4, algorithm="noisy-gd", account="account", seed=None, private=True)
    path = tmp_path / "account" / "agent-001.jsonl"
    before = len(audit.read(path, account=True).events)
    place.resume(folder)
    book = audit.read(path, account=True)
    assert (before, len(book.events)) == (5, interrupted_runs.ROUNDS)
    assert book.totals.epsilon_proven(1e-4) <= 5.0


# people


def test_account_show(place: Place, admmnet: Admmnet) -> None:
    for name, epsilon in (("first", 1.0), ("second", 2.0)):
        place.run(name, epsilon=epsilon)
    rows = [line.split() for line in admmnet.ok("account", "show", place.account).out.splitlines()]
    rows = [row for row in rows if row and row[0].isdecimal()]
    spent = [totals.epsilon_proven(1e-4) for totals in place.totals()]
    assert [row[:2] for row in rows] == [["0", "65"], ["1", "65"], ["2", "65"]]
    for row, epsilon in zip(rows, spent, strict=True):
        assert (row[5], row[7:9], row[-2:]) == (format.epsilon(epsilon), ["2", "0.0001"], ["2", "runs"])
    entries = admmnet.json("account", "show", place.account)
    assert [entry["total"]["epsilon_spent"] for entry in entries] == spent
    assert [(entry["header"]["agent"], entry["runs"]) for entry in entries] == [(0, 2), (1, 2), (2, 2)]
    assert [entry["count"] for entry in entries] == [2 * 3 * 2] * 3  # runs, rounds, events of a release
