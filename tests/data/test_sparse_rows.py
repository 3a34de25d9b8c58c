"""Sparse rows in memory are encoded as dense ones are, whatever their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from admmnet.data import DataSettings
from admmnet.data.given import Given
from admmnet.errors import RequestError

PLAIN = np.where(np.random.default_rng(0).random((50, 80)) < 0.03, 1.5, 0.0)
PLAIN[:, 0] = 1.0
y = np.where(np.arange(50) % 2, 1, -1)


def encoded(X: Any, **settings: Any) -> Any:
    """Rows of one agent that gets all."""
    given = Given("arrays", (X, y[: X.shape[0]]), sparse=True)
    rows: Any = given.load(DataSettings(data="arrays", no_test=True, **settings), 1, [0]).shards[0][0]
    assert sparse.issparse(rows) == sparse.issparse(X)
    return rows.toarray() if sparse.issparse(rows) else rows


@pytest.mark.parametrize("no_intercept", [False, True])
def test_large_and_small_numbers(no_intercept: bool) -> None:
    X = PLAIN.copy()
    X[0, 0], X[1, 1], X[2, 2], X[2, 3] = 1e200, 3e160, -1e308, 1e308
    X[3] *= 1e-170
    dense = encoded(X, no_intercept=no_intercept)
    np.testing.assert_allclose(encoded(sparse.csr_array(X), no_intercept=no_intercept), dense, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1.0, rtol=1e-14)


def test_a_row_of_zeros_is_refused_alike() -> None:
    X = PLAIN.copy()
    X[7] = 0.0
    for rows in (X, sparse.csr_array(X)):
        with pytest.raises(RequestError, match=r"row 7 .*every feature is zero"):
            encoded(rows, no_intercept=True)


def test_a_file_of_test_records_has_the_features_of_the_rows_in_memory(tmp_path: Path) -> None:
    path = str(tmp_path / "t.npz")
    np.savez(path, X=PLAIN[:, :79], y=y)
    given = Given("arrays", (sparse.csr_array(PLAIN), y), sparse=True)
    with pytest.raises(RequestError, match=r"t\.npz: X has 79 columns, expected 80"):
        given.load(DataSettings(data="arrays", test=path), 1, [0])
    np.savez(path, X=PLAIN[:20], y=y[:20])
    assert given.load(DataSettings(data="arrays", test=path), 1, [0]).X_test.shape == (20, 81)


def test_entries_that_come_twice_are_added_as_floats() -> None:
    once = np.zeros((50, 80))
    once[np.arange(50), np.arange(50)] = 200.0
    at = np.repeat(np.arange(50), 2)
    twice = sparse.coo_array((np.full(100, 100, np.int8), (at, at)), shape=(50, 80))
    np.testing.assert_array_equal(encoded(twice), encoded(once))


def test_what_a_matrix_says_of_its_order_is_not_believed() -> None:
    X = sparse.csr_array((np.tile([0.6, 0.6], 50), np.tile([0, 0], 50), np.arange(0, 101, 2)), shape=(50, 80))
    X.has_canonical_format = True
    with pytest.raises(RequestError, match="longer than 1"):  # 1.2, not the root of 2 x 0.36
        encoded(X, normalise="none", no_intercept=True)


@pytest.mark.parametrize("index", [-3, 400])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_damaged_indices_are_refused(index: int, form: str) -> None:
    X = sparse.csr_array(PLAIN).asformat(form)
    X.indices[3] = index
    with pytest.raises(RequestError, match="damaged sparse matrix"):
        encoded(X)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_scaled_in_float32_are_taken(make: Any) -> None:
    X = (PLAIN / np.linalg.norm(PLAIN, axis=1)[:, None]).astype(np.float32)
    assert np.linalg.norm(X.astype(float), axis=1).max() > 1.0 + 1e-9
    found = encoded(make(X), normalise="none", no_intercept=True)
    assert np.linalg.norm(found, axis=1).max() <= 1.0 + 1e-12
    np.testing.assert_allclose(found, X, rtol=1e-6)
    with pytest.raises(RequestError, match="longer than 1"):
        encoded(make(X * 1.00001), normalise="none", no_intercept=True)
