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
from admmnet.estimators.tally import IN_MEMORY, rows_by, run_on
from admmnet.holder import Holder
from admmnet.running.plan import Plan
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


PP = NetworkClassifier(algorithm="pp-admm", random_state=0, epsilon=50.0, agents=2)


@pytest.mark.parametrize("estimator", [*ALL[:5], ALL[7], ALL[9], PP], ids=lambda e: type(e).__name__)
def test_labels_scores_and_probabilities(estimator: Any) -> None:
    model = clone(estimator).fit(X, WORDS)
    assert set(model.predict(X)) <= {"no", "yes"}
    assert (model.coef_.shape, getattr(model, "loss_", "logistic")) == ((1, 4), "logistic")
    # a linear rule: the sign of the score is that of coef_ and intercept_
    plane = X @ model.coef_[0] + model.intercept_[0]
    assert np.array_equal(model.predict(X) == "yes", plane > 0.0)
    both = model.predict_proba(X)
    np.testing.assert_allclose(both.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(both[:, 1], 1.0 / (1.0 + np.exp(-model.decision_function(X))), rtol=1e-9)


def test_a_model_learns_and_is_that_of_a_run(tmp_path: Path) -> None:
    assert DPSCDClassifier(epsilon=8.0, random_state=1).fit(X, WORDS).score(X, WORDS) > 0.8
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


# runs of one site behind them


def fit(*, seed: int | None = None, negated: bool = False, **words: Any) -> tuple[Matrix, dict[str, Any], Plan]:
    plans, rows = list[Plan](), np.ones_like(X) if negated else X
    found = run_on(IN_MEMORY, seed, X=rows, y=-Y if negated else Y, on_start=plans.append, **words)
    return found.theta, found.summary["privacy"], plans[0]


@pytest.mark.parametrize(
    "words",
    [
        {"algorithm": "dp-scd"},
        {"algorithm": "primal-dp-scd", "method": "published", "data_dependent": True},
        {"algorithm": "song-sgd"},
        {"algorithm": "banco", "noise": "gaussian"},
    ],
    ids=str,
)
def test_private_fits_return_the_model_and_public_facts(words: dict[str, Any]) -> None:
    found, again, other, secret = (fit(seed=seed, **words) for seed in (3, 3, 4, None))
    assert np.array_equal(found[0], again[0])
    assert not any(np.array_equal(found[0], one[0]) for one in (other, secret))
    assert (found[2].config.seeded, secret[2].config.seeded) == (True, False)
    # all but the model is a function of N and d: other records, same facts
    _, privacy, plan = fit(seed=3, negated=True, **words)
    assert privacy == found[1]
    assert plan.agents[0].charges == found[2].agents[0].charges
    spent = privacy["epsilon_published" if "method" in words else "epsilon_proven"]
    assert 0.99 < spent <= 1.0 + 1e-12


def test_new_rows_have_norm_one_and_a_caller_s_own_stay_as_they_are() -> None:
    model = run_on(IN_MEMORY, 0, X=X[:, :2], y=Y, algorithm="sgd", epochs=1, no_intercept=True).model
    given = np.array([[3.0, 4.0], [1e200, 1e200], [5e-324, 0.0], [0.0, 0.0]])
    rows, kept = rows_by(model, given), sparse.csr_matrix(given)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.5**0.5] * 2, [1.0, 0.0], [0.0, 0.0]], rtol=1e-12)
    np.testing.assert_allclose(rows_by(model, kept), rows, rtol=1e-15)
    assert (kept != sparse.csr_matrix(given)).nnz == 0
    twice = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    np.testing.assert_allclose(rows_by(model, twice)[0], rows[0], rtol=1e-15)
    assert twice.data.tolist() == [1.0, 2.0, 4.0]
    Holder(rows[:3], np.ones(3), unit=True)  # takes them as they are
