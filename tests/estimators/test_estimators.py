"""The estimators pass scikit-learn's own checks; seeds, private fits and privacy_ are as documented.

`ADMMNET_CHECKS=all` makes the checks of all estimators (launch/nightly.sh), else of one of each kind.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
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


def people(n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 6))
    return X, np.where(X @ np.arange(1.0, 7.0) + rng.standard_normal(n) > 0.0, "yes", "no")


@pytest.mark.parametrize("estimator", [*ALL[:5], ALL[7]], ids=lambda e: type(e).__name__)
def test_labels_scores_and_probabilities(estimator: Any) -> None:
    X, y = people()
    model = clone(estimator).fit(X, y)
    assert set(model.predict(X)) <= {"no", "yes"}
    # a linear rule: the sign of the score is that of coef_ and intercept_
    plane = X @ model.coef_[0] + model.intercept_[0]
    assert np.array_equal(model.predict(X) == "yes", plane > 0.0)
    both = model.predict_proba(X)
    np.testing.assert_allclose(both.sum(axis=1), 1.0, rtol=1e-12)
    assert np.array_equal(both[:, 1] > 0.5, model.decision_function(X) > 0.0)


def test_a_model_learns_and_its_privacy_is_told() -> None:
    X, y = people()
    model = DPSCDClassifier(epsilon=2.0, random_state=1, batch=100).fit(X, y)
    assert model.score(X, y) > 0.8
    assert 0.99 * 2.0 < model.privacy_["epsilon_proven"] <= 2.0
    assert model.privacy_["adjacency"] == "zero-out"
    again = DPSCDClassifier(epsilon=2.0, random_state=1, batch=100).fit(X, y)
    assert np.array_equal(model.coef_, again.coef_)
    other = DPSCDClassifier(epsilon=2.0, random_state=2, batch=100).fit(X, y)
    assert not np.array_equal(model.coef_, other.coef_)


def test_the_estimator_is_a_run(tmp_path: Path) -> None:
    X, y = people()
    given: dict[str, Any] = {"epsilon": 1.0, "loss": "logistic", "batch": 100, "learning_rate": 2.0}
    model = DPSGDClassifier(random_state=3, **given).fit(X, y)
    labels = np.where(y == "yes", 1.0, -1.0)
    out = str(tmp_path / "run")
    found = run(X=X, y=labels, algorithm="dp-sgd", seed=3, no_test=True, no_account=True, out=out, **given)
    assert np.array_equal(model.theta_, found.theta[0])
    assert model.privacy_ == {**found.summary["privacy"], "process": None}


def test_targets_are_cut_off_at_their_public_range() -> None:
    X, _ = people()
    y = 100.0 + 10.0 * np.tanh(X[:, 5])
    model = DPSCDRegressor(target_range=(90.0, 110.0), epsilon=20.0, random_state=0, batch=100).fit(X, y)
    assert model.score(X, y) > 0.3
    wild = y.copy()
    wild[0] = 1e9
    cut = y.copy()
    cut[0] = 110.0
    same = [clone(model).fit(X, values).coef_ for values in (wild, cut)]
    assert np.array_equal(*same)


def test_three_classes_and_one_are_refused() -> None:
    X, _ = people(30)
    with pytest.raises(ValueError, match="Only binary"):
        DPSCDClassifier().fit(X, np.arange(30) % 3)
    with pytest.raises(ValueError, match="one class"):
        DPSCDClassifier().fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="target_range"):
        DPSCDRegressor(target_range=(1.0, 1.0)).fit(X, X[:, 0])


def test_hinge_scores_are_no_probabilities() -> None:
    X, y = people(200)
    assert not hasattr(SDCAClassifier(loss="hinge", random_state=0).fit(X, y), "predict_proba")
    assert hasattr(SDCAClassifier(), "predict_proba")


def test_the_open_regressor_is_ridge_regression_on_scaled_rows() -> None:
    from sklearn.linear_model import Ridge

    X, _ = people(300)
    y = 0.1 * X[:, 0] - 0.05 * X[:, 3]
    model = SDCARegressor(regularisation=0.01, random_state=0).fit(X, y)
    rows = np.column_stack([X, np.ones(300)])
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    ridge = Ridge(alpha=0.01 * len(X), fit_intercept=False, tol=1e-12).fit(rows, y)
    np.testing.assert_allclose(model.theta_, ridge.coef_, atol=1e-2)
    np.testing.assert_allclose(model.predict(X), rows @ model.theta_, rtol=1e-12)
    assert model.privacy_["epsilon_proven"] is None
