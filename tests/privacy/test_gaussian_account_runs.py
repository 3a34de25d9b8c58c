"""Runs of noisy-gd and ssp with accounts: opened without an order, continued, resumed; on one of an order."""

from __future__ import annotations

from pathlib import Path

import pytest

from admmnet import RequestError, read_run
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger import audit
from tests import interrupted_runs
from tests.command_runs import Admmnet
from tests.interrupted_runs import write_people

from .accounts import Place


def test_an_account_goes_on_with_sums_alone(place: Place, admmnet: Admmnet) -> None:
    first = place.run("first", algorithm="noisy-gd", epsilon=1.0, rounds=5)
    book = audit.read(place.file(), account=True)
    assert book.header["account_filter"]["order"] is None
    assert {type(event) for _, event, _ in book.events} == {DiscreteGaussian}
    assert book.totals.epsilon_proven(1e-4) == pytest.approx(1.0, rel=2e-4)
    assert book.totals.epsilon_proven(1e-4) <= 1.0
    assert {book.header["account_filter"]["order"] for book in read_run(first.folder).ledgers.values()} == {None}
    assert "nothing is left for another run; raise --epsilon to 1.4" in admmnet.refused(
        *place.words("second", "--algorithm", "noisy-gd"), code=4
    )
    held = ("--algorithm", "ipp-admm", "--gate", "above-threshold", "--epsilon", "3")
    message = admmnet.refused(*place.words("third", *held))
    assert "adds up mu^2, which above-threshold of 'ipp-admm' has none of here" in message
    assert "Take an algorithm with Gaussian noise (noisy-gd, ssp; pp-admm and ipp-admm" in message
    assert "account_order came too late" in admmnet.refused(*place.words("third", *held, "--account-order"))
    assert not (place.folder / "third").exists()
    place.run("fourth", algorithm="ssp", loss="squared", epsilon=2.0, rounds=1)
    book = audit.read(place.file(), account=True)
    assert book.runs == 2
    assert book.totals.epsilon_proven(1e-4) == pytest.approx(2.0, rel=2e-4)
    assert book.totals.epsilon_proven(1e-4) <= 2.0


def test_sums_and_minimisers_add_up_mu_squared_on_one_account(place: Place) -> None:
    """What is left is used to the last; three runs come to no more than one of all their events."""
    totals = 0.0
    runs = [{"algorithm": "noisy-gd"}, {"algorithm": "pp-admm"}, {"algorithm": "ipp-admm", "gate": "joining"}]
    for epsilon, settings in enumerate(runs, start=1):
        result = place.run(str(epsilon), epsilon=float(epsilon), **settings)
        opened = [note for note in result.summary["notes"] if "is new and adds up mu^2" in note]
        assert len(opened) == (epsilon == 1)
        assert all(note.endswith("--account-order opens one for all") for note in opened)
        totals += read_run(result.folder).ledgers["ledger/agent-000.jsonl"].totals.mu_squared
        book = audit.read(place.file(), account=True)
        assert book.totals.mu_squared == pytest.approx(totals, rel=1e-12)
        assert book.contract.spent(book.totals) == pytest.approx(epsilon, rel=5e-4)
        assert book.totals.epsilon_gaussian(1e-4) <= epsilon


@pytest.mark.parametrize("epsilon", ["1.466", "2"])
def test_a_further_run_on_measured_columns_is_planned_like_a_first_one(
    epsilon: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    """Nine features leave K of Theorem 26 little room: convexity for more than the plan then spends has no mu^2."""
    file, schema = tmp_path / "bank.csv", tmp_path / "schema.toml"
    file.write_text("age,y\n" + "".join(f"{18 + i % 70},{'yes' if i % 70 > 40 else 'no'}\n" for i in range(12_000)))
    schema.write_text('[data.schema]\nlabel = "y"\nlabels = ["no", "yes"]\nnumeric = ["age"]\n')
    words = ["run", "--data", str(file), "--schema", str(schema), "--no-test", "--account", str(tmp_path / "mine")]
    words += ["--topology", "complete:7", "--rounds", "20", "--measure-every", "20"]
    for name, target in (("first", "1"), ("second", epsilon)):
        said = admmnet.ok(*words, "--epsilon", target, "-o", tmp_path / name)
        assert "bounds of 1 and the shape of 1 column of numbers are" in said.out + said.err
    mine = read_run(tmp_path / "second").ledgers["ledger/agent-000.jsonl"].totals.epsilon_gaussian(1e-5)
    assert mine > 0.99 * (float(epsilon) - 0.466)
    assert {one["rounds"] for one in admmnet.json("account", "show", tmp_path / "mine")} == {2 * (3 + 20)}


@pytest.mark.parametrize("epsilon", [11.0, 20.0, 40.0])
def test_an_account_is_opened_at_any_epsilon(place: Place, epsilon: float) -> None:
    place.run("first", algorithm="noisy-gd", epsilon=epsilon, rounds=5)
    spent = audit.read(place.file(), account=True).totals.epsilon_proven(1e-4)
    assert 0.7 * epsilon < spent <= epsilon


@pytest.mark.parametrize("epsilon", [5.0, 8.0, 12.0])
def test_an_account_is_raised_to_any_epsilon(place: Place, epsilon: float) -> None:
    """Its share for discrete noise was fixed at epsilon 1, and falls with a larger one."""
    place.run("first", algorithm="noisy-gd", epsilon=1.0, rounds=5)
    place.run("second", algorithm="noisy-gd", epsilon=epsilon, rounds=5)
    spent = audit.read(place.file(), account=True).totals.epsilon_proven(1e-4)
    assert 0.7 * epsilon < spent <= epsilon


def test_an_account_of_an_order_takes_sums(place: Place) -> None:
    place.run("first", epsilon=1.0, account_order=True)
    order = audit.read(place.file(), account=True).header["account_filter"]["order"]
    assert order in ORDERS
    place.run("second", algorithm="noisy-gd", epsilon=2.0, rounds=5)
    book = audit.read(place.file(), account=True)
    assert book.header["account_filter"]["order"] == order
    assert book.totals.epsilon_proven(1e-4) <= 2.0
    assert any(isinstance(event, DiscreteGaussian) for _, event, _ in book.events)
    place.run("third", epsilon=3.0)


def test_a_private_run_goes_on_within_its_budget(tmp_path: Path) -> None:
    place = interrupted_runs.Place(tmp_path)
    write_people(place.data)
    folder = place.interrupted("cut", 4, algorithm="noisy-gd", account="account", seed=None, private=True)
    path = tmp_path / "account" / "agent-001.jsonl"
    before = len(audit.read(path, account=True).events)
    place.resume(folder)
    book = audit.read(path, account=True)
    assert (before, len(book.events)) == (5, interrupted_runs.ROUNDS)
    assert book.totals.epsilon_proven(1e-4) <= 5.0
    other = {"algorithm": "ipp-admm", "gate": "above-threshold", "private": True, "epsilon": 9.0}
    with pytest.raises(RequestError, match=r"adds up mu\^2, which above-threshold"):
        place.whole("other", account="account", seed=None, **other)
