"""Private fits of one process, added up: sums, warnings and where they point, accounts in folders."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import cross_val_score

from admmnet import BudgetError, NetworkClassifier, PrivacyWarning, RequestError
from admmnet.estimators import tally
from admmnet.estimators.single_site import DPSGDClassifier, DPSGDRegressor, SDCAClassifier
from admmnet.estimators.tally import IN_MEMORY, Tally, run_on
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import Event, Gaussian, Laplace, SubsampledGaussian, Unprotected
from admmnet.privacy.ledger import audit
from admmnet.record.format import epsilon
from admmnet.running.plan import Plan
from tests.estimators.test_estimators import people

GAUSS = Gaussian(1.0, 5.0)


X, Y = people(300, 3)


def fit(X: Any, y: Any, **words: Any) -> dict[str, Any]:
    found: dict[str, Any] = run_on(IN_MEMORY, None, X=X, y=y, **words).summary["privacy"]
    return found


def read(*events: Event, delta: float = 1e-5) -> float:
    return Totals.of([(event, 1) for event in events], "proven").epsilon_proven(delta)


def add(tally: Tally, *events: Event, delta: float = 1e-5, adjacency: str = "replace-one", account: str = "a") -> Any:
    return tally.add([Totals.of([(event, 1) for event in events], "proven")], delta, adjacency, account)


def test_all_fits_are_composed(fresh_tally: Tally) -> None:
    """Against the plain way, a list of events."""
    rng, spent = np.random.default_rng(5), list[Event]()
    kinds: list[Event] = [GAUSS, Gaussian(1.0, 9.0), Laplace(1.0, 20.0)]
    for fits in range(1, 13):
        spent.append(kinds[rng.integers(3)])
        found = add(fresh_tally, spent[-1])
        assert found["epsilon"] == pytest.approx(read(*spent), rel=1e-12)
        assert found["fits"] == fits


def test_agents_of_one_fit_are_bounded_by_the_largest_of_each_figure(fresh_tally: Tally) -> None:
    one, two = (Totals.of([(event, 1)], "proven") for event in (GAUSS, Laplace(1.0, 2.0)))
    found = fresh_tally.add([one, two], 1e-5, "replace-one", "a")
    assert (fresh_tally.totals.curve == np.maximum(one.curve, two.curve)).all()
    assert fresh_tally.totals.mu_squared == max(one.mu_squared, two.mu_squared)
    assert found is not None
    assert found["epsilon"] >= max(one.epsilon_proven(1e-5), two.epsilon_proven(1e-5))


def test_deltas_and_relations_of_several_fits(fresh_tally: Tally) -> None:
    """All is read at the smallest delta; replace-one bounds hold for zero-out, not the other way round."""
    add(fresh_tally, GAUSS, delta=1e-3)
    found = add(fresh_tally, GAUSS, delta=1e-6)
    assert (found["fits"], found["delta"], found["adjacency"]) == (2, 1e-6, "replace-one")
    assert found["epsilon"] == pytest.approx(read(GAUSS, GAUSS, delta=1e-6))
    assert add(fresh_tally, GAUSS, delta=1e-3)["delta"] == 1e-6
    assert add(fresh_tally, GAUSS, adjacency="zero-out")["adjacency"] == "zero-out"
    assert add(fresh_tally, GAUSS)["adjacency"] == "zero-out"
    assert add(fresh_tally, Unprotected())["epsilon"] is None


def test_a_warning_stands_at_the_line_that_asks_for_the_fit() -> None:
    model = DPSGDClassifier()
    model.fit(X, Y)
    searches: list[Any] = [
        lambda: model.fit(X, Y),
        lambda: cross_val_score(model, X, Y),
        lambda: run_on(IN_MEMORY, None, X=X, y=Y, algorithm="dp-sgd"),
    ]
    for search in searches:
        with pytest.warns(PrivacyWarning) as told:
            search()
        assert {(one.filename, one.lineno) for one in told} == {(__file__, search.__code__.co_firstlineno)}


def test_single_site_fits_add_up(fresh_tally: Tally) -> None:
    plans: list[Plan] = []
    one = fit(X, Y, algorithm="dp-sgd", epsilon=0.5, on_start=plans.append)
    event = plans[0].agents[0].charges[0][0]
    assert isinstance(event, SubsampledGaussian)
    first = {"fits": 1, "epsilon": read(event), "delta": one["delta"], "adjacency": "zero-out"}
    assert one["process"] == first
    for fits, other in ((2, sparse.csr_matrix(X)), (3, X + 1.0)):  # other rows are added up as well: too much is safe
        with pytest.warns(PrivacyWarning) as told:
            more = fit(other, -Y, algorithm="dp-sgd", epsilon=0.5)
        together = read(*[event] * fits)
        assert more["process"]["epsilon"] == pytest.approx(together)
        words = f"{fits} private fits of this process: epsilon {epsilon(together)} together (delta 1e-05, zero-out)"
        assert [str(one.message).partition(" where")[0] for one in told] == [words]


def test_simulations_and_methods_without_privacy_have_no_tally(fresh_tally: Tally) -> None:
    for _ in range(2):
        assert DPSGDClassifier(random_state=0).fit(X, Y).privacy_["process"] is None
        assert NetworkClassifier(random_state=0, rounds=2).fit(X, Y).privacy_["process"] is None
        assert SDCAClassifier().fit(X, Y).privacy_["process"] is None
    with pytest.raises(RequestError):
        NetworkClassifier(epsilon=-1.0).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        NetworkClassifier().fit(np.where(X > 1.0, np.nan, X), Y)
    assert fresh_tally.fits == 0


def test_a_fit_that_fails_has_spent(fresh_tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that raise after a charge, of a network and of one site."""
    from admmnet.methods.noisy_sums import NoisyGD
    from admmnet.methods.single_site.base import SingleSite

    def failing(*_: Any) -> None:
        raise RuntimeError("step")

    monkeypatch.setattr(NoisyGD, "receive", failing)
    monkeypatch.setattr(SingleSite, "update", failing)
    for model in (NetworkClassifier(), DPSGDClassifier()):
        monkeypatch.setattr(tally, "PROCESS", Tally())
        with pytest.raises(RuntimeError, match="step"):
            model.fit(X, Y)
        assert tally.PROCESS.fits == 1
    with pytest.raises(RuntimeError), pytest.warns(PrivacyWarning, match="2 private fits"):
        DPSGDClassifier().fit(X, Y)


def test_fits_that_no_proof_covers_have_no_epsilon() -> None:
    words: dict[str, Any] = {"algorithm": "primal-dp-scd", "method": "published", "data_dependent": True}
    assert fit(X, Y, **words)["process"]["epsilon"] is None
    with pytest.warns(PrivacyWarning, match="2 private fits of this process: epsilon infinite together"):
        fit(X, Y, algorithm="dp-sgd")


def test_what_a_model_keeps_when_it_is_saved_does_not_depend_on_earlier_fits() -> None:
    model = DPSGDClassifier().fit(X, Y)
    saved = pickle.loads(pickle.dumps(model))
    assert saved.privacy_ == {**model.privacy_, "process": None}
    assert model.privacy_["process"]["fits"] == 1
    np.testing.assert_array_equal(saved.predict(X), model.predict(X))
    assert pickle.loads(pickle.dumps(clone(model))).account == "process"


def test_an_account_in_a_folder_adds_up_single_site_fits(tmp_path: Path) -> None:
    folder = tmp_path / "account"
    one = DPSGDClassifier(account=folder, epsilon=0.5).fit(X, Y)
    assert one.privacy_["account"] == str(folder)
    assert one.privacy_["epsilon_proven"] <= 0.5
    (steps,) = [event for _, event, _ in audit.read(folder / "agent-000.jsonl", account=True).events]
    assert isinstance(steps, SubsampledGaussian)
    with warnings.catch_warnings():  # the account adds them up: nothing to warn of
        warnings.simplefilter("error")
        two = DPSGDClassifier(account=str(folder), epsilon=1.5).fit(X, Y)
    assert two.privacy_["process"]["fits"] == 2
    assert one.privacy_["account_epsilon_spent"] < two.privacy_["account_epsilon_spent"] <= 1.5
    with (
        pytest.warns(PrivacyWarning, match="no model from this fit with account = .*all of epsilon 1.5 is spent"),
        pytest.raises(BudgetError, match="raise --epsilon"),
    ):
        DPSGDClassifier(account=folder, epsilon=1.5).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="3 private fits of this process"):  # this one stands in no account
        DPSGDClassifier(epsilon=0.5).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="4 private fits of this process"):  # and the folder does not know it
        DPSGDClassifier(account=folder, epsilon=2.5).fit(X, Y)


def test_what_does_not_go_with_an_account(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="exclude each other: whoever has the seed"), pytest.warns(PrivacyWarning):
        DPSGDRegressor(account=tmp_path, epsilon=20.0, random_state=3).fit(X, Y)
    with pytest.raises(RequestError, match="account = None is not allowed: it must be a folder, or"):
        DPSGDRegressor(account=None).fit(X, Y)
    with pytest.raises(RequestError, match="account goes with"), pytest.warns(PrivacyWarning):
        run_on(tmp_path, None, X=X, y=Y, algorithm="sdca")


@pytest.mark.parametrize(("model", "records"), [(NetworkClassifier(rounds=2), 300), (DPSGDClassifier(), 301)])
def test_folds_in_one_account_are_told_before_they_become_nan(model: Any, records: int, tmp_path: Path) -> None:
    given = people(records, 3)
    model = clone(model).set_params(account=tmp_path / "account")
    with pytest.warns() as told:
        scores = cross_val_score(model, *given)
    assert np.isnan(scores).tolist() == [False, True, True, True, True]
    kinds = [one.category for one in told]
    assert kinds == [PrivacyWarning] * 4 + [FitFailedWarning]
    words = str(told[0].message)
    assert str(tmp_path / "account") in words
    assert "folds of a cross validation are other records than the whole: account='process' counts them" in words
    with pytest.warns(PrivacyWarning), pytest.raises((RequestError, BudgetError)):
        cross_val_score(model, *given, error_score="raise")


def test_a_fit_syncs_its_account_and_no_ledger_of_its_passing_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    NetworkClassifier(agents=3, rounds=4, epsilon=1.0, account=tmp_path / "mine").fit(X, Y)
    assert len([name for name in synced if name.startswith(str(tmp_path)) and name.endswith(".jsonl")]) >= 3 * 4
    assert not [name for name in synced if "/ledger/" in name]
