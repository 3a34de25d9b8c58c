"""Private fits of one process that share rows: hashes, sums, bounds of memory, warnings, accounts in folders."""

from __future__ import annotations

import math
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import cross_val_score

from admmnet import BudgetError, NetworkClassifier, PrivacyWarning, RequestError
from admmnet.estimators import tally
from admmnet.estimators.fit import fit
from admmnet.estimators.single_site import DPSGDClassifier, DPSGDRegressor, SDCAClassifier
from admmnet.estimators.tally import Sum, Tally
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import Event, Gaussian, Laplace, SubsampledGaussian, Unprotected
from admmnet.privacy.ledger import audit
from admmnet.record.format import epsilon
from admmnet.types import Matrix, Vector

GAUSS = Gaussian(1.0, 5.0)


def people(n: int = 300) -> tuple[Matrix, Vector]:
    X = np.random.default_rng(3).standard_normal((n, 3))
    return X, np.where(X[:, 0] > 0.0, 1.0, -1.0)


def cost(*events: Event, delta: float = 1e-5, adjacency: str = "replace-one", account: str = "a") -> Sum:
    return Sum.of([Totals.of([(event, 1) for event in events], "proven")], delta, adjacency, account)


def read(*events: Event, delta: float = 1e-5) -> float:
    return Totals.of([(event, 1) for event in events], "proven").epsilon_proven(delta)


def test_equal_rows_have_equal_hashes(fresh_tally: Tally) -> None:
    X = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -3.0], [0.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
    twice = sparse.coo_matrix(([1.0, 0.5], ([0, 0], [1, 1])), shape=(1, 3))
    explicit = sparse.csr_matrix((np.array([0.0, 1.5]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    backwards = sparse.csr_matrix((np.array([-3.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    usual = fresh_tally._hashes(X)
    assert len(set(usual.tolist())) == 4
    for same in (X.tolist(), np.asfortranarray(X), np.where(X == 0.0, -0.0, X), sparse.csr_matrix(X),
                 sparse.csc_array(X)):  # fmt: skip
        np.testing.assert_array_equal(fresh_tally._hashes(same), usual)
    assert fresh_tally._hashes(twice)[0] == fresh_tally._hashes(explicit)[0] == usual[0]
    assert fresh_tally._hashes(backwards)[0] == usual[1]
    nearly = X.copy()
    nearly[3, 2] = np.nextafter(0.3, 1.0)
    assert fresh_tally._hashes(nearly)[3] != usual[3]
    others = Tally()._hashes(X)
    assert not set(others[[0, 1, 3]]) & set(usual)  # another key; rows of zeros have one hash


def test_similar_rows_have_different_hashes(fresh_tally: Tally) -> None:
    """Whole numbers, powers of two, exchanged columns and signs: floats whose last bits are mostly 0."""
    values = np.array([0.0, 1.0, -1.0, 2.0, 0.5])
    X = np.stack(np.meshgrid(*[values] * 7), axis=-1).reshape(-1, 7)
    hashes = fresh_tally._hashes(X)
    assert len(np.unique(hashes)) == len(X)  # by chance not so with probability 2e-10
    for bits in (hashes % 2**8, hashes >> np.uint64(56)):  # 255 degrees of freedom, above 400 by chance: 2e-8
        counts = np.bincount(bits.astype(int), minlength=256)
        assert np.sum((counts - len(X) / 256) ** 2) / (len(X) / 256) < 400.0


def test_pieces_of_a_table_hash_as_the_whole(fresh_tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = people(50)
    whole = fresh_tally._hashes(X)
    monkeypatch.setattr(tally, "_ENTRIES", 21)  # seven rows
    np.testing.assert_array_equal(fresh_tally._hashes(X), whole)


def test_every_row_adds_up_its_own_fits(fresh_tally: Tally) -> None:
    """Against the plain way: a list of events a row, over random subsets, in any order."""
    rng = np.random.default_rng(5)
    X, _ = people(40)
    kinds: list[Event] = [GAUSS, Gaussian(1.0, 9.0), Laplace(1.0, 20.0)]
    spent: list[list[Event]] = [[] for _ in X]
    for _ in range(12):
        part, event = rng.permutation(40)[: rng.integers(1, 40)], kinds[rng.integers(3)]
        for row in part:
            spent[row].append(event)
        shared = fresh_tally.add(X[part], cost(event))
        most = max((spent[row] for row in part), key=lambda events: read(*events))
        assert shared.epsilon == pytest.approx(read(*most), rel=1e-12)
        assert shared.fits == len(most)
    assert len(fresh_tally._rows) == len({tuple(row) for row, events in zip(X, spent, strict=True) if events})
    # rows with the same fits share a sum, whatever the order was
    assert len(fresh_tally._sums) <= 1 + len({tuple(sorted(map(repr, events))) for events in spent})


def test_accounts_are_those_of_the_row_that_has_spent_most(fresh_tally: Tally) -> None:
    X, _ = people(4)
    fresh_tally.add(X[:1], cost(GAUSS, account="a"))
    assert fresh_tally.add(X, cost(GAUSS, account="b")).accounts == {"a", "b"}


def test_a_row_that_stands_twice_is_counted_once(fresh_tally: Tally) -> None:
    X, _ = people(4)
    assert fresh_tally.add(np.vstack([X, X]), cost(GAUSS)).fits == 1
    assert fresh_tally.add(X[:1], cost(GAUSS)).fits == 2


def test_agents_of_one_fit_are_bounded_by_the_largest_of_each_figure() -> None:
    one, two = (Totals.of([(event, 1)], "proven") for event in (GAUSS, Laplace(1.0, 2.0)))
    both = Sum.of([one, two], 1e-5, "replace-one", "a").totals
    assert (both.curve == np.maximum(one.curve, two.curve)).all()
    assert both.mu_squared == math.inf
    assert both.epsilon_proven(1e-5) >= max(one.epsilon_proven(1e-5), two.epsilon_proven(1e-5))


def test_deltas_and_relations_of_several_fits(fresh_tally: Tally) -> None:
    """All is read at the largest delta; replace-one bounds hold for zero-out, not the other way round."""
    X, _ = people(4)
    fresh_tally.add(X[:2], cost(GAUSS, delta=1e-3))
    shared = fresh_tally.add(X, cost(GAUSS, delta=1e-6))
    assert (shared.fits, shared.delta, shared.adjacency) == (2, 1e-3, "replace-one")
    assert shared.epsilon == pytest.approx(read(GAUSS, GAUSS, delta=1e-3))
    assert fresh_tally.add(X[3:], cost(GAUSS, delta=1e-6)).delta == 1e-6
    assert fresh_tally.add(X, cost(GAUSS, adjacency="zero-out")).adjacency == "zero-out"
    assert math.isinf(fresh_tally.add(X, cost(Unprotected())).epsilon)


@pytest.mark.parametrize(("bound", "value"), [("ROWS", 30), ("SUMS", 3)])
def test_memory_is_bounded_and_no_row_gets_cheaper(
    fresh_tally: Tally, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    exact, rng = Tally(), np.random.default_rng(1)
    X, _ = people(60)
    monkeypatch.setattr(tally, bound, value)
    for k in range(8):
        part, event = X[rng.permutation(60)[:10]], Gaussian(1.0, 4.0 + k)
        with monkeypatch.context() as unbounded:
            unbounded.setattr(tally, bound, 10**9)
            least = exact.add(part, cost(event))
        found = fresh_tally.add(part, cost(event))
        assert found.epsilon >= least.epsilon * (1.0 - 1e-12)
        assert found.fits >= least.fits
        assert len(fresh_tally._rows) <= tally.ROWS
        assert len(fresh_tally._sums) <= tally.SUMS
    assert len(exact._rows) > 30
    assert len(exact._sums) > 3


def test_single_site_fits_add_up(fresh_tally: Tally) -> None:
    X, y = people()
    one = fit(X, y, algorithm="dp-sgd", epsilon=0.5)
    assert one.privacy["process"] == {
        "fits": 1,
        "epsilon": one.privacy["epsilon_proven"],
        "delta": one.privacy["delta"],
        "adjacency": "zero-out",
    }
    event = one.plan.charges[0][0]
    assert isinstance(event, SubsampledGaussian)
    with pytest.warns(PrivacyWarning) as told:
        two = fit(sparse.csr_matrix(X), -y, algorithm="dp-sgd", epsilon=0.5)  # other labels, the same people
    together = read(event, event)
    assert two.privacy["process"]["epsilon"] == pytest.approx(together)
    assert str(told[0].message).startswith(f"2 fits on shared rows: epsilon {epsilon(together)} together (delta 1e-05,")
    fit(X + 1.0, y, algorithm="dp-sgd", epsilon=0.5)  # other rows


def test_simulations_and_methods_without_privacy_have_no_tally(fresh_tally: Tally) -> None:
    X, y = people()
    for _ in range(2):
        assert DPSGDClassifier(random_state=0).fit(X, y).privacy_["process"] is None
        assert NetworkClassifier(random_state=0, rounds=2).fit(X, y).privacy_["process"] is None
        assert SDCAClassifier().fit(X, y).privacy_["process"] is None
    with pytest.raises(RequestError):
        NetworkClassifier(epsilon=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        NetworkClassifier().fit(np.where(X > 1.0, np.nan, X), y)
    assert len(fresh_tally._rows) == 0


def test_a_fit_that_fails_has_spent(fresh_tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that raise after a charge, of a network and of one site."""
    from admmnet.methods.noisy_gd import NoisyGD
    from admmnet.methods.single_site.base import SingleSite

    def failing(*_: Any) -> None:
        raise RuntimeError("step")

    X, y = people()
    monkeypatch.setattr(NoisyGD, "receive", failing)
    monkeypatch.setattr(SingleSite, "absorb", failing)
    for model in (NetworkClassifier(), DPSGDClassifier()):
        monkeypatch.setattr(tally, "PROCESS", Tally())
        with pytest.raises(RuntimeError, match="step"):
            model.fit(X, y)
        assert len(tally.PROCESS._rows) == len(X)
    with pytest.raises(RuntimeError), pytest.warns(PrivacyWarning, match="2 fits"):
        DPSGDClassifier().fit(X, y)


def test_fits_that_no_proof_covers_have_no_epsilon() -> None:
    X, y = people()
    words: dict[str, Any] = {"algorithm": "primal-dp-scd", "method": "published", "data_dependent": True}
    assert fit(X, y, **words).privacy["process"]["epsilon"] is None
    with pytest.warns(PrivacyWarning, match="2 fits on shared rows: epsilon infinite together"):
        fit(X, y, algorithm="dp-sgd")


def test_what_a_model_keeps_when_it_is_saved_does_not_depend_on_earlier_fits() -> None:
    X, y = people()
    model = DPSGDClassifier().fit(X, y)
    assert model.privacy_["process"]["fits"] == 1
    saved = pickle.loads(pickle.dumps(model))
    assert saved.privacy_ == {**model.privacy_, "process": None}
    assert model.privacy_["process"]["fits"] == 1
    np.testing.assert_array_equal(saved.predict(X), model.predict(X))
    assert pickle.loads(pickle.dumps(clone(model))).account == "process"


@pytest.mark.parametrize("account", [None, 3, True])
def test_an_account_is_a_folder_or_the_process(account: Any) -> None:
    X, y = people()
    for model in (NetworkClassifier(account=account), DPSGDClassifier(account=account)):
        with pytest.raises(RequestError, match=f"account = {account} is not allowed: it must be a folder, or"):
            model.fit(X, y)


def test_an_account_in_a_folder_adds_up_single_site_fits(tmp_path: Path) -> None:
    X, y = people()
    folder = tmp_path / "account"
    one = DPSGDClassifier(account=folder, epsilon=0.5).fit(X, y)
    assert one.privacy_["account"] == str(folder)
    assert one.privacy_["epsilon_proven"] <= 0.5
    assert one.score(X, y) > 0.5
    (steps,) = [event for _, event, _ in audit.read(folder / "agent-000.jsonl", account=True).events]
    assert one.privacy_["steps"] == steps.steps  # type: ignore[union-attr]
    with warnings.catch_warnings():  # the account adds them up: nothing to warn of
        warnings.simplefilter("error")
        two = DPSGDClassifier(account=str(folder), epsilon=1.5).fit(X, y)
    assert two.privacy_["process"]["fits"] == 2
    assert one.privacy_["account_epsilon_spent"] < two.privacy_["account_epsilon_spent"] <= 1.5
    with (
        pytest.warns(PrivacyWarning, match="no model from this fit with account = .*all of epsilon 1.5 is spent"),
        pytest.raises(BudgetError, match="raise --epsilon"),
    ):
        DPSGDClassifier(account=folder, epsilon=1.5).fit(X, y)
    with pytest.warns(PrivacyWarning, match="3 fits on shared rows"):  # this one stands in no account
        DPSGDClassifier(epsilon=0.5).fit(X, y)
    with pytest.warns(PrivacyWarning, match="4 fits on shared rows"):  # and the folder does not know it
        DPSGDClassifier(account=folder, epsilon=2.5).fit(X, y)


def test_regression_and_simulations_have_folders_too(tmp_path: Path) -> None:
    X, _ = people()
    y = np.tanh(X[:, 0])
    for seed in (None, 3):
        model = DPSGDRegressor(account=tmp_path / str(seed), epsilon=20.0, random_state=seed).fit(X, y)
        assert model.privacy_["seeded"] == (seed is not None)
        assert model.predict(X).shape == (len(X),)
    same = DPSGDRegressor(epsilon=20.0, random_state=3, accountant="proven").fit(X, y)
    assert set(same.privacy_) == set(model.privacy_)
    with pytest.raises(RequestError, match="account goes with"), pytest.warns(PrivacyWarning):
        fit(X, np.sign(y), algorithm="sdca", account=tmp_path / "sdca")


@pytest.mark.parametrize("model", [NetworkClassifier(rounds=2), DPSGDClassifier()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("records", [300, 301])
def test_folds_in_one_account_are_told_before_they_become_nan(model: Any, records: int, tmp_path: Path) -> None:
    X, y = people(records)
    model = clone(model).set_params(account=tmp_path / "account")
    with pytest.warns() as told:
        scores = cross_val_score(model, X, y)
    assert np.isnan(scores).tolist() == [False, True, True, True, True]
    kinds = [one.category for one in told]
    assert kinds == [PrivacyWarning] * 4 + [FitFailedWarning]
    words = str(told[0].message)
    assert str(tmp_path / "account") in words
    assert "folds of a cross validation are other records than the whole: account='process' counts them" in words
    with pytest.warns(PrivacyWarning), pytest.raises((RequestError, BudgetError)):
        cross_val_score(model, X, y, error_score="raise")


def test_a_fit_syncs_its_account_and_no_ledger_of_its_passing_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    NetworkClassifier(agents=3, rounds=4, epsilon=1.0, account=tmp_path / "mine").fit(*people())
    assert len([name for name in synced if name.startswith(str(tmp_path)) and name.endswith(".jsonl")]) >= 3 * 4
    assert not [name for name in synced if "/ledger/" in name]
