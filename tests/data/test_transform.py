"""Projection, scales, norms and sparse rows: what they do, in which order, and what they read from the records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import kstest

from admmnet.data import DataSettings, load
from admmnet.data import rows as transform
from admmnet.data.given import Given, overlap
from admmnet.data.loading import load_new
from admmnet.data.rows import draw
from admmnet.errors import RequestError
from admmnet.solvers.certificate import WIDE
from admmnet.types import Matrix
from tests.data.conftest import Write, every, refusal
from tests.wide_files import write_wide

RNG = np.random.default_rng(7)
X = np.round(RNG.normal(0, [1, 10, 100, 1e-3, 5], (60, 5)), 6)
X[:, 4] = np.where(X[:, 4] > 0, X[:, 4], 0)
Y = np.where(RNG.random(60) < 0.4, 1, -1)
TRAIN, TEST = draw(60, 0.25, 0)
LARGEST = np.abs(X[TRAIN]).max(axis=0)
MATRIX = transform._projection(5, 3, 0)


@pytest.fixture
def npz(tmp_path: Path) -> str:
    np.savez(tmp_path / "t.npz", X=X, y=Y)
    return str(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("how", "expected", "said"),
    [
        ({}, X, ""),
        ({"normalise": "columns"}, X / LARGEST, "largest absolute values of the features"),
        ({"normalise": "columns", "project": 3}, X / LARGEST @ MATRIX, "by the Gaussian matrix of data seed 0"),
        ({"normalise": "columns", "schema": {"scales": 7}}, X / 7, "declared bounds"),
        (
            {"normalise": "public", "schema": {"scales": [1.0, 20.0, 100.0, 1.0, 5.0]}},
            np.clip(X / [1, 20, 100, 1, 5], -1, 1),
            "declared bounds",
        ),
    ],
)
def test_scales_come_first_then_the_projection(how: dict[str, Any], expected: Matrix, said: str, npz: str) -> None:
    records = every(npz, **how)
    full = np.column_stack([expected, np.ones(60)])
    full /= np.linalg.norm(full, axis=1)[:, None]
    np.testing.assert_allclose(records.shards[0][0], full[TRAIN], rtol=0, atol=1e-14)
    np.testing.assert_allclose(records.X_test, full[TEST], rtol=0, atol=1e-14)
    reads = how.get("normalise") == "columns" and "schema" not in how
    assert records.preprocessing == ("data-dependent" if reads else "public-bounds")
    assert any(said in note for note in records.notes)
    assert records.feature_names[-2:] == ("p3" if "project" in how else "x5", "intercept")
    # what was found encodes new rows alike
    table = json.loads(json.dumps(records.encoding))
    assert "scales" not in table or reads or "schema" in how
    again = DataSettings(data=npz, **how | {"schema": table})
    new = load_new(again, records.feature_names, part="test")
    np.testing.assert_array_equal(new.X_test, records.X_test)
    assert load(again, 1, [0]).preprocessing == "public-bounds"  # declared now
    if reads:
        with pytest.raises(RequestError, match=r"--normalise columns would be read from the rows: declare scales"):
            load_new(DataSettings(data=npz, **how), records.feature_names)


def test_largest_values_are_those_of_training_records(npz: str) -> None:
    other = X.copy()
    other[TEST] *= 1000
    np.savez(npz, X=other, y=Y)
    found = every(npz, normalise="columns").encoding
    assert found is not None
    assert found["scales"] == LARGEST.tolist()
    np.savez(npz, X=X * [1, 1, 0, 1, 1], y=Y)  # a feature that never occurs is left alone
    zero = every(npz, normalise="columns").encoding
    assert zero is not None
    assert zero["scales"][2] == 1.0


def test_the_projection_is_gaussian_and_keeps_norms() -> None:
    """20,000 entries of one fixed matrix. A true law fails with probability 1e-3; 0.7 and 1.3 times its scale fail."""
    matrix = transform._projection(200, 100, 3)
    entries = matrix.ravel() * np.sqrt(100)
    assert kstest(entries, "norm").pvalue > 1e-3
    for factor in (0.7, 1.3):
        assert kstest(factor * entries, "norm").pvalue < 1e-3
    assert not np.array_equal(matrix, transform._projection(200, 100, 4))


def test_public_bounds_are_those_of_the_columns(write: Write, npz: str) -> None:
    columns: dict[str, Any] = {"a": {"kind": "numeric", "low": 0, "high": 4, "weight": 2}}
    path = write("t.csv", "a,b,y\n1,2,1\n4,5,-1\n2,8,1\n3,1,1\n")
    schema = {"label": "y", "drop": ["b"], "columns": columns}
    heavy, even = (every(path, schema=schema, normalise=way, test=path).X_test for way in ("rows", "public"))
    np.testing.assert_allclose(heavy[:, 0] / heavy[:, 1], 2 * even[:, 0] / even[:, 1])
    columns["b"] = {"kind": "numeric", "scale": "none"}
    assert "no public bound for feature 'b'" in refusal(path, schema=schema | {"drop": []}, normalise="public")
    assert "t.npz has no public bound for feature 'x1'" in refusal(npz, normalise="public")
    assert "holds 2 numbers, t.npz has 5 features" in refusal(npz, normalise="public", schema={"scales": [1, 2]})
    assert "--project 5 must be below the number of features, 5" in refusal(npz, project=5)


def test_nothing_says_of_what_columns_the_projections_of_a_csv_file_are(write: Write) -> None:
    request = DataSettings(data=write("t.csv", "b,a,y,c\n1,2,1,3\n4,5,-1,6\n7,8,1,9\n1,1,1,1\n"), label="y", project=2)
    with pytest.raises(RequestError, match="the model's features are projections"):
        load_new(request, load(request, 1, [0]).feature_names)


def test_small_pieces_make_the_same_rows(npz: str, monkeypatch: pytest.MonkeyPatch) -> None:
    how: list[tuple[str, dict[str, Any]]] = [("census", {}), (npz, {"normalise": "columns"})]
    whole = [every(data, 2, **more) for data, more in how]
    monkeypatch.setattr(transform, "STEP", 1000)
    for (data, more), expected in zip(how, whole, strict=True):
        pieces = every(data, 2, **more)
        np.testing.assert_array_equal(pieces.X_test, expected.X_test)
        np.testing.assert_array_equal(pieces.shards[1][0], expected.shards[1][0])
        assert pieces.encoding == expected.encoding
    zero = X.copy()
    zero[41] = 0
    np.savez(npz, X=zero, y=Y)
    for step in (1 << 20, 10):
        monkeypatch.setattr(transform, "STEP", step)
        for share in (0.0, 1.0):
            with pytest.raises(RequestError, match=r"t\.npz, row 42: every feature is zero"):
                load(DataSettings(data=npz, no_intercept=True), 1, [0], sparse=share)


@pytest.mark.parametrize(
    "others",
    [{"no_intercept": True}, {"normalise": "columns"}, {"normalise": "public", "schema": {"scales": [1, 8, 9, 1, 2]}}],
)
def test_sparse_rows_are_the_dense_ones(others: dict[str, Any], write: Write) -> None:
    entries = [" ".join(f"{k + 1}:{v!r}" for k, v in enumerate(x) if v) for x in X.tolist()]
    svm = write("t.svm", "\n".join(f"{y} {line}" for y, line in zip(Y.tolist(), entries, strict=True)))
    request = DataSettings(data=svm, features=5, **others)
    dense, slim = (load(request, 1, [0], sparse=share) for share in (0.0, 1.0))
    pairs = (slim.shards[0], dense.shards[0]), ((slim.X_test, slim.y_test), (dense.X_test, dense.y_test))
    for found, expected in pairs:
        rows: Any = found[0]
        np.testing.assert_allclose(rows.toarray(), expected[0], rtol=1e-14, atol=0)
        np.testing.assert_array_equal(found[1], expected[1])
        assert rows.nnz < rows.shape[0] * rows.shape[1]
    arrays: dict[str, Any] = {"shards": {}, "X_test": None, "y_test": None}  # compared above
    assert replace(slim, **arrays) == replace(dense, **arrays)


def test_rows_stay_sparse_from_a_public_width_on_and_dense_ones_must_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for filled in (1, 200):  # whatever they hold
        file = write_wide(tmp_path / f"{filled}.libsvm", rows=6, width=WIDE - 2, filled=filled)
        dense = DataSettings(data=file)  # the intercept is one more
        slim, flat = dense.changed(features=WIDE - 1), dense.changed(features=WIDE, project=3)
        for settings, expected in ((dense, False), (slim, True), (flat, False)):
            records = load(settings, 2, [0, 1])
            held = [*(X for X, _ in records.shards.values()), records.X_test]
            assert [sparse.issparse(X) for X in held] == [expected] * 3
    needed = 10.0 * 6 * (WIDE - 1)  # bytes a number
    monkeypatch.setattr(transform, "free_memory", lambda: needed - 1.0)
    load(slim, 2, [0, 1])
    with monkeypatch.context() as patch:
        patch.setattr(transform, "to_norm_1", lambda *_: pytest.fail("rows were made"))
        told = rf"200.libsvm: 6 dense rows of d = {WIDE - 1:,} features take 0.0 GB, and .*from d = {WIDE:,} on"
        with pytest.raises(RequestError, match=told):
            load(dense, 2, [0, 1])
    monkeypatch.setattr(transform, "free_memory", lambda: needed + 1.0)
    load(dense, 2, [0, 1])


# rows in memory

PLAIN = np.where(np.random.default_rng(0).random((50, 80)) < 0.03, 1.5, 0.0)
PLAIN[:, 0] = 1.0
SIGNS = np.where(np.arange(50) % 2, 1, -1)


def encoded(rows: Any, **settings: Any) -> Any:
    """Rows of one agent that gets all."""
    given = Given("arrays", (rows, SIGNS[: rows.shape[0]]), sparse=True)
    found: Any = given.load(DataSettings(data="arrays", no_test=True, **settings), 1, [0]).shards[0][0]
    assert sparse.issparse(found) == sparse.issparse(rows)
    return found.toarray() if sparse.issparse(found) else found


@pytest.mark.parametrize("no_intercept", [False, True])
def test_large_and_small_numbers_have_norm_1_too(no_intercept: bool) -> None:
    rows = PLAIN.copy()
    rows[0, 0], rows[1, 1], rows[2, 2], rows[2, 3] = 1e200, 3e160, -1e308, 1e308
    rows[3] *= 1e-170
    rows[4], rows[4, :2] = 0.0, (3e-200, 4e-200)
    dense = encoded(rows, no_intercept=no_intercept)
    np.testing.assert_allclose(encoded(sparse.csr_array(rows), no_intercept=no_intercept), dense, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1.0, rtol=1e-14)
    if no_intercept:
        np.testing.assert_allclose(dense[4, :2], [0.6, 0.8], rtol=1e-14)
    rows[7] = 0.0
    for some in (rows, sparse.csr_array(rows)):
        with pytest.raises(RequestError, match=r"row 7 .*every feature is zero"):
            encoded(some, no_intercept=True)


def test_a_file_of_test_records_has_the_features_of_the_rows_in_memory(tmp_path: Path) -> None:
    path = str(tmp_path / "t.npz")
    np.savez(path, X=PLAIN[:, :79], y=SIGNS)
    given = Given("arrays", (sparse.csr_array(PLAIN), SIGNS), sparse=True)
    with pytest.raises(RequestError, match=r"t\.npz: X has 79 columns, expected 80"):
        given.load(DataSettings(data="arrays", test=path), 1, [0])
    np.savez(path, X=PLAIN[:20], y=SIGNS[:20])
    assert given.load(DataSettings(data="arrays", test=path), 1, [0]).X_test.shape == (20, 81)


def test_entries_that_come_twice_are_added_as_floats_whatever_the_matrix_says() -> None:
    once = np.zeros((50, 80))
    once[np.arange(50), np.arange(50)] = 200.0
    at = np.repeat(np.arange(50), 2)
    twice = sparse.coo_array((np.full(100, 100, np.int8), (at, at)), shape=(50, 80))
    np.testing.assert_array_equal(encoded(twice), encoded(once))
    said = sparse.csr_array((np.tile([0.6, 0.6], 50), np.tile([0, 0], 50), np.arange(0, 101, 2)), shape=(50, 80))
    said.has_canonical_format = True
    with pytest.raises(RequestError, match="longer than 1"):  # 1.2, not the root of 2 x 0.36
        encoded(said, normalise="none", no_intercept=True)
    for form in ("csr", "csc"):
        for index in (-3, 400):
            damaged = sparse.csr_array(PLAIN).asformat(form)
            damaged.indices[3] = index
            with pytest.raises(RequestError, match="damaged sparse matrix"):
                encoded(damaged)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_scaled_in_float32_are_taken(make: Any) -> None:
    rows = (PLAIN / np.linalg.norm(PLAIN, axis=1)[:, None]).astype(np.float32)
    assert np.linalg.norm(rows.astype(float), axis=1).max() > 1.0 + 1e-9
    found = encoded(make(rows), normalise="none", no_intercept=True)
    assert np.linalg.norm(found, axis=1).max() <= 1.0 + 1e-12
    np.testing.assert_allclose(found, rows, rtol=1e-6)
    np.testing.assert_allclose(encoded(make(rows * 0.5), normalise="none", no_intercept=True), rows * 0.5, rtol=1e-7)
    with pytest.raises(RequestError, match="longer than 1"):
        encoded(make(rows * 1.00001), normalise="none", no_intercept=True)


# test records that lie in the memory of the training records

Z = np.random.default_rng(0).standard_normal((200, 4))
y = np.where(Z[:, 0] > 0, 1, -1)
COLUMNS = np.asfortranarray(Z)  # as a frame's numbers often lie
ROWS = Z.tolist()
SPARSE = sparse.csr_array(Z)
FRAME = pd.DataFrame(Z, columns=list("abcd")).assign(t=y)
WIDER = sparse.csr_array((SPARSE.data, SPARSE.indices, SPARSE.indptr), shape=(200, 5))


@pytest.mark.parametrize(
    ("test", "train", "known"),
    [
        (Z, Z, True),
        (Z[::3], Z[1:], True),
        (Z.copy(), Z, True),
        (ROWS[:20], ROWS, True),
        (SPARSE.copy(), SPARSE, True),
        (WIDER, SPARSE, True),
        (FRAME.iloc[:100], FRAME, True),
        (FRAME.copy(), FRAME, True),
        (FRAME.assign(a=0.0), FRAME, True),
        (COLUMNS[:150], COLUMNS[150:], False),
        (ROWS[:100], ROWS[100:], False),
        ([[1.0, 2.0]], [(1.0, 2.0)], False),
        (SPARSE[:100], SPARSE[100:], False),
        (FRAME.iloc[:100], FRAME.iloc[100:], False),
        (FRAME.sample(20, random_state=0), FRAME, False),
        (Z, SPARSE, False),
    ],
)
def test_overlapping_memory_is_known(test: Any, train: Any, known: bool) -> None:
    assert overlap(test, train) is known
    assert overlap(train, test) is known


@pytest.mark.parametrize(
    "given",
    [
        Given("arrays", (Z, y), test=(Z[:50], y[:50])),
        Given("arrays", own={0: (Z[:100], y[:100]), 1: (Z[100:], y[100:])}, test=(Z[150:], y[150:])),
        Given("frame", FRAME, test=FRAME.iloc[:100]),
    ],
)
def test_tests_on_a_run_s_own_records_are_known(given: Given) -> None:
    """Private runs refuse them (tests/config/test_modes.py)."""
    assert given.tests_itself
    assert not Given(given.kind, given.pool, given.own).tests_itself
