"""The estimators pass scikit-learn's own checks; rows, seeds, private fits and privacy_ are as documented.

`ADMMNET_CHECKS=all` makes the checks of all estimators (launch/nightly.sh), else of one of each kind.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from admmnet import NetworkClassifier, NetworkRegressor, run
from admmnet.errors import RequestError
from admmnet.estimators.single_site import (
    BANCOClassifier,
    DPSCDClassifier,
    DPSCDRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    PlainSGDClassifier,
    SDCAClassifier,
    SDCARegressor,
    SongSGDClassifier,
)
from admmnet.estimators.tally import IN_MEMORY, Ran, rows_by, run_on
from admmnet.holder import Holder
from admmnet.methods.single_site.base import SeriesNoise
from admmnet.types import Matrix, Vector

ALL = [
    SDCAClassifier(random_state=0),
    DPSCDClassifier(random_state=0, epsilon=50.0),
    DPSGDClassifier(random_state=0, epsilon=50.0),
    SongSGDClassifier(random_state=0, epsilon=50.0),
    BANCOClassifier(random_state=0, epsilon=50.0),
    DPSCDRegressor(random_state=0, epsilon=50.0),
    DPSGDRegressor(random_state=0, epsilon=50.0),
    PlainSGDClassifier(random_state=0),
    SDCARegressor(random_state=0),
    NetworkClassifier(random_state=0, epsilon=50.0, agents=2),
    NetworkRegressor(random_state=0, epsilon=50.0, agents=2),
]
CHECKED = ALL if os.environ.get("ADMMNET_CHECKS") == "all" else [ALL[1], ALL[10]]


@parametrize_with_checks(CHECKED)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def people(n: int = 200, d: int = 4) -> tuple[Matrix, Vector]:
    draw = np.random.default_rng([n, d])
    X = draw.standard_normal((n, d))
    return X, np.where(X @ np.arange(1.0, d + 1.0) > 0.0, 1.0, -1.0)


X, Y = people()
WORDS = np.where(Y > 0.0, "yes", "no")


@pytest.mark.parametrize("estimator", [*ALL[:5], ALL[7]], ids=lambda e: type(e).__name__)
def test_labels_scores_and_probabilities(estimator: Any) -> None:
    model = clone(estimator).fit(X, WORDS)
    assert set(model.predict(X)) <= {"no", "yes"}
    # a linear rule: the sign of the score is that of coef_ and intercept_
    plane = X @ model.coef_[0] + model.intercept_[0]
    assert np.array_equal(model.predict(X) == "yes", plane > 0.0)
    both = model.predict_proba(X)
    np.testing.assert_allclose(both.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(both[:, 1], 1.0 / (1.0 + np.exp(-model.decision_function(X))), rtol=1e-9)


def test_a_model_learns_and_is_that_of_a_run(tmp_path: Path) -> None:
    model = DPSCDClassifier(epsilon=8.0, random_state=1).fit(X, WORDS)
    assert model.score(X, WORDS) > 0.8
    assert 0.99 * 8.0 < model.privacy_["epsilon_proven"] <= 8.0
    assert model.privacy_["adjacency"] == "zero-out"
    given: dict[str, Any] = {"epsilon": 1.0, "loss": "logistic", "batch": 100, "learning_rate": 2.0}
    model = DPSGDClassifier(random_state=3, **given).fit(X, WORDS)
    found = run(X=X, y=Y, algorithm="dp-sgd", seed=3, no_test=True, no_account=True, out=str(tmp_path / "run"), **given)
    assert np.array_equal(model.theta_, found.theta[0])
    assert model.privacy_ == {**found.summary["privacy"], "process": None}


def test_targets_are_cut_off_at_their_public_range() -> None:
    y = 100.0 + 10.0 * np.tanh(X[:, 3])
    model = DPSCDRegressor(target_range=(90.0, 110.0), epsilon=20.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.3
    wild, cut = y.copy(), y.copy()
    wild[0], cut[0] = 1e9, 110.0
    assert np.array_equal(*(clone(model).fit(X, values).coef_ for values in (wild, cut)))


def test_the_open_regressor_is_ridge_regression_on_scaled_rows() -> None:
    y = 40.0 + X[:, 0] - 0.5 * X[:, 3]
    model = SDCARegressor(regularisation=0.01, target_range=(20.0, 60.0), random_state=0).fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    ridge = Ridge(alpha=0.01 * len(X), fit_intercept=False, tol=1e-12).fit(rows, (y - 40.0) / 20.0)
    np.testing.assert_allclose(model.theta_, ridge.coef_, atol=1e-2)
    np.testing.assert_allclose(model.predict(X), 40.0 + 20.0 * rows @ model.theta_, rtol=1e-12)
    assert model.privacy_["epsilon_proven"] is None


def test_other_labels_are_refused_and_hinge_scores_are_no_probabilities() -> None:
    for labels, words in ((np.arange(200) % 3, "Only binary"), (np.zeros(200), "one class")):
        with pytest.raises(ValueError, match=words):
            DPSCDClassifier().fit(X, labels)
    assert not hasattr(SDCAClassifier(loss="hinge", random_state=0, epochs=2).fit(X, Y), "predict_proba")
    assert hasattr(SDCAClassifier(), "predict_proba")


# runs of one site behind them

PRIVATE: list[dict[str, Any]] = [
    {"algorithm": "dp-scd"},
    {"algorithm": "dp-scd", "sampling": "fixed"},
    {"algorithm": "dp-scd", "method": "published"},
    {"algorithm": "seq-dp-scd"},
    {"algorithm": "primal-dp-scd", "method": "published", "data_dependent": True},
    {"algorithm": "dp-sgd"},
    {"algorithm": "song-sgd"},
    {"algorithm": "banco"},
    {"algorithm": "banco", "noise": "gaussian"},
]


def fit(X: Any, y: Any, *, seed: int | None = None, **words: Any) -> Ran:
    return run_on(IN_MEMORY, seed, X=X, y=y, **words)


@pytest.mark.parametrize("words", PRIVATE, ids=str)
def test_private_fits_return_the_model_and_public_facts(words: dict[str, Any]) -> None:
    thin = np.where(np.random.default_rng(9).random(X.shape) < 0.5, 0.0, X)
    found, again, other = (fit(thin, Y, seed=seed, **words) for seed in (3, 3, 4))
    assert np.array_equal(found.result.theta, again.result.theta)
    assert not np.array_equal(found.result.theta, other.result.theta)
    # sums in another order, then rounded to a grid of 2^-20 of the noise
    scale = float(np.max(np.abs(found.result.theta)))
    csr = fit(sparse.csr_matrix(thin), Y, seed=3, **words)
    np.testing.assert_allclose(found.result.theta, csr.result.theta, rtol=1e-3, atol=1e-4 * scale)
    secret = fit(thin, Y, **words)
    assert not np.array_equal(found.result.theta, secret.result.theta)
    assert (found.plan.config.seeded, secret.plan.config.seeded) == (True, False)
    # all but the model is a function of N and d: other records, same facts
    elsewhere = fit(np.ones_like(X), -Y, seed=3, **words)
    assert elsewhere.privacy == found.privacy
    assert elsewhere.plan.agents[0].charges == found.plan.agents[0].charges
    spent = found.privacy["epsilon_published" if "method" in words else "epsilon_proven"]
    assert spent is None or 0.99 < spent <= 1.0 + 1e-12


@pytest.mark.parametrize("words", [{"algorithm": "sdca"}, {"algorithm": "sgd"}, {"algorithm": "sgd", "batch": 20}])
def test_open_fits_learn_the_rule(words: dict[str, Any]) -> None:
    found = fit(X, Y, seed=0, regularisation=1e-3, **words)
    assert np.mean(np.sign(rows_by(found.model, X) @ found.result.theta[0]) == Y) > 0.95
    assert (found.privacy["epsilon_proven"], found.privacy["epsilon_target"]) == (None, None)


def test_fixed_batches_of_hidden_dual_variables_cost_what_shown_ones_do() -> None:
    cost = {}
    for name in ("dp-scd", "dp-sgd"):
        for sampling in ("poisson", "fixed"):
            found = fit(X, Y, seed=0, algorithm=name, sampling=sampling, batch=10)
            noise = found.plan.agents[0].noise
            assert isinstance(noise, SeriesNoise)
            cost[name, sampling] = float(noise.multiplier or 0.0)
    assert cost["dp-scd", "poisson"] == cost["dp-sgd", "poisson"]
    assert cost["dp-scd", "fixed"] > cost["dp-sgd", "fixed"] > cost["dp-sgd", "poisson"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"algorithm": "dp-scd", "method": "proven", "accountant": "published"}, "goes with method"),
        ({"algorithm": "primal-dp-scd", "loss": "hinge", "method": "published"}, "loss = 'hinge'"),
        ({"algorithm": "primal-dp-scd", "method": "published"}, "which no ledger covers"),
        ({"algorithm": "banco", "epochs": 2}, "epochs = 2"),
        ({"algorithm": "dp-sgd", "batch": 201}, "batch = 201"),
    ],
    ids=str,
)
def test_what_no_proof_covers_is_refused_before_anything_is_drawn(words: dict[str, Any], match: str) -> None:
    with pytest.raises(RequestError, match=match):
        fit(X, Y, **words)


@pytest.mark.parametrize("intercept", [True, False])
def test_rows_have_norm_one_and_depend_on_themselves_alone(intercept: bool) -> None:
    model = fit(X[:, :2], Y, algorithm="sgd", seed=0, epochs=1, no_intercept=not intercept).model
    given = np.array([[3.0, 4.0], [1e200, 1e200], [1e-200, 0.0], [5e-324, 0.0], [0.0, 0.0]])
    rows = rows_by(model, given)
    assert rows.shape == (5, 3 if intercept else 2)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 1, intercept], rtol=1e-12)
    for k in range(5):
        np.testing.assert_array_equal(rows_by(model, given[k : k + 1])[0], rows[k])
    kept = sparse.csr_matrix(given)
    before = kept.copy()
    np.testing.assert_allclose(rows_by(model, kept), rows, rtol=1e-15)
    assert (kept != before).nnz == 0  # rows that a caller gives are not written to
    twice = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    np.testing.assert_allclose(rows_by(model, twice)[0], rows[0], rtol=1e-15)
    assert twice.data.tolist() == [1.0, 2.0, 4.0]
    Holder(rows[:4], np.ones(4), unit=True)  # takes them as they are
