"""Runs of one site on arrays, behind the estimators: rows, labels, seeds, what comes back and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from admmnet.errors import RequestError
from admmnet.estimators.tally import IN_MEMORY, Ran, rows_by, run_on
from admmnet.holder import Holder
from admmnet.methods.single_site.base import SeriesNoise
from admmnet.types import Matrix, Vector
from tests.holder.series.records import rng

PRIVATE: list[dict[str, Any]] = [
    {"algorithm": "dp-scd"},
    {"algorithm": "dp-scd", "sampling": "fixed"},
    {"algorithm": "dp-scd", "method": "published"},
    {"algorithm": "seq-dp-scd"},
    {"algorithm": "primal-dp-scd", "method": "published"},
    {"algorithm": "dp-sgd"},
    {"algorithm": "song-sgd"},
    {"algorithm": "banco"},
    {"algorithm": "banco", "noise": "gaussian"},
]
OPEN: list[dict[str, Any]] = [{"algorithm": "sdca"}, {"algorithm": "sgd"}, {"algorithm": "sgd", "batch": 20}]


def people(n: int = 200, d: int = 4) -> tuple[Matrix, Vector]:
    draw = rng(n, d)
    X = draw.standard_normal((n, d))
    return X, np.where(X @ np.arange(1.0, d + 1.0) > 0.0, 1.0, -1.0)


def fit(X: Any, y: Any, *, seed: int | None = None, **words: Any) -> Ran:
    return run_on(IN_MEMORY, seed, X=X, y=y, **words)


def prepared(X: Any, *, fit_intercept: bool) -> Any:
    """Rows as a model of two features has them."""
    Z, y = people()
    return rows_by(fit(Z[:, :2], y, algorithm="sgd", seed=0, epochs=1, no_intercept=not fit_intercept).model, X)


@pytest.mark.parametrize("intercept", [True, False])
def test_rows_have_norm_one_and_depend_on_themselves_alone(intercept: bool) -> None:
    X = np.array([[3.0, 4.0], [1e200, 1e200], [1e-200, 0.0], [5e-324, 0.0], [0.0, 0.0]])[: 5 if intercept else 4]
    rows = prepared(X, fit_intercept=intercept)
    assert rows.shape == (len(X), 3 if intercept else 2)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)
    for k in range(len(X)):
        np.testing.assert_array_equal(prepared(X[k : k + 1], fit_intercept=intercept)[0], rows[k])
    thin = prepared(sparse.csr_matrix(X), fit_intercept=intercept)
    np.testing.assert_allclose(thin, rows, rtol=1e-15)
    Holder(rows, np.ones(len(X)), unit=True)  # takes them as they are


@pytest.mark.parametrize("words", PRIVATE, ids=str)
def test_sparse_and_dense_records_give_one_model(words: dict[str, Any]) -> None:
    X, y = people()
    X[rng(9).random(X.shape) < 0.5] = 0.0
    found = [fit(rows, y, seed=3, epsilon=50.0, **words).result.theta[0] for rows in (X, sparse.csr_matrix(X))]
    # sums in another order, then rounded to a grid of 2^-20 of the noise
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-4 * np.max(np.abs(found[0])))


@pytest.mark.parametrize("words", PRIVATE, ids=str)
def test_private_fits_return_the_model_and_public_facts(words: dict[str, Any]) -> None:
    X, y = people()
    if words["algorithm"] == "primal-dp-scd":
        words = words | {"data_dependent": True}
    found = fit(X, y, seed=3, **words)
    again, other, secret = (fit(X, y, seed=seed, **words) for seed in (3, 4, None))
    assert np.array_equal(found.result.theta, again.result.theta)
    assert not np.array_equal(found.result.theta, other.result.theta)
    assert not np.array_equal(found.result.theta, secret.result.theta)
    assert found.plan.config.seeded
    assert not secret.plan.config.seeded
    # all but the model is a function of N and d: other records, same facts
    elsewhere = fit(np.ones_like(X), -y, seed=3, **words)
    assert elsewhere.privacy == found.privacy
    assert elsewhere.plan.agents[0].charges == found.plan.agents[0].charges
    spent = found.privacy["epsilon_published" if "method" in words else "epsilon_proven"]
    assert spent is None or 0.99 < spent <= 1.0 + 1e-12


@pytest.mark.parametrize("words", OPEN, ids=str)
def test_open_fits_learn_the_rule(words: dict[str, Any]) -> None:
    X, y = people()
    found = fit(X, y, seed=0, regularisation=1e-3, **words)
    assert np.mean(np.sign(rows_by(found.model, X) @ found.result.theta[0]) == y) > 0.95
    assert found.privacy["epsilon_proven"] is None
    assert found.privacy["epsilon_target"] is None


def noise_of(found: Ran) -> float:
    noise = found.plan.agents[0].noise
    assert isinstance(noise, SeriesNoise)
    assert noise.multiplier is not None
    return noise.multiplier


def test_fixed_batches_of_hidden_dual_variables_cost_what_shown_ones_do() -> None:
    X, y = people()
    cost = {
        (name, sampling): noise_of(fit(X, y, seed=0, algorithm=name, sampling=sampling, batch=10))
        for name in ("dp-scd", "dp-sgd")
        for sampling in ("poisson", "fixed")
    }
    assert cost["dp-scd", "poisson"] == cost["dp-sgd", "poisson"]
    assert cost["dp-scd", "fixed"] > cost["dp-sgd", "fixed"] > cost["dp-sgd", "poisson"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"algorithm": "dp-scd", "method": "proven", "accountant": "published"}, "goes with method"),
        ({"algorithm": "primal-dp-scd", "loss": "hinge", "method": "published"}, "loss = 'hinge'"),
        ({"algorithm": "banco", "epochs": 2}, "epochs = 2"),
        ({"algorithm": "dp-sgd", "batch": 201}, "batch = 201"),
    ],
    ids=str,
)
def test_what_no_proof_covers_is_refused_before_anything_is_drawn(words: dict[str, Any], match: str) -> None:
    X, y = people()
    with pytest.raises(RequestError, match=match):
        fit(X, y, seed=0, **words)


X20, Y20 = people(20)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.full_like(X20, np.nan), Y20, "not finite"),
        (sparse.csr_matrix(np.full_like(X20, np.inf)), Y20, "not finite"),
        (X20, Y20[:, None], r"y\.ravel\(\) has it"),
        (X20, 2.0 * Y20, "labels must be -1/\\+1 or 0/1"),
    ],
)
def test_records_that_are_none_are_refused(X: Any, y: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        fit(X, y, algorithm="dp-sgd", seed=0)


def test_columns_scaled_by_private_records_must_be_accepted() -> None:
    X, y = people()
    words: dict[str, Any] = {"algorithm": "primal-dp-scd", "method": "published"}
    with pytest.raises(RequestError, match="which no ledger covers"):
        fit(X, y, **words)
    assert fit(X, y, data_dependent=True, **words).result.theta.shape == (1, X.shape[1] + 1)


def test_an_empty_row_has_the_score_0() -> None:
    X, y = people()
    found = fit(X, y, algorithm="dp-sgd", no_intercept=True, seed=0)
    np.testing.assert_array_equal(rows_by(found.model, np.zeros((2, X.shape[1]))) @ found.result.theta[0], [0.0, 0.0])


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix])
def test_rows_that_a_caller_gives_are_not_written_to(make: Any) -> None:
    X, y = people()
    given = make(X)
    fit(given, y, algorithm="dp-sgd", seed=0)
    np.testing.assert_array_equal(given.toarray() if sparse.issparse(given) else given, X)


def test_entries_that_a_sparse_row_has_twice_are_added_up() -> None:
    X, y = people()
    found = fit(X, y, algorithm="dp-sgd", no_intercept=True, seed=0)
    places = np.array([0, 0, 1]), np.array([0, 3])
    twice = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), *places), shape=(1, X.shape[1]))
    row = np.zeros((1, X.shape[1]))
    row[0, :2] = 3.0, 4.0
    np.testing.assert_allclose(rows_by(found.model, twice), rows_by(found.model, row), rtol=1e-15)
    assert twice.data.tolist() == [1.0, 2.0, 4.0]
