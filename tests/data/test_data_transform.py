"""Projection, scales, centres and sparse rows: what they do, in which order, and what they read from the records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from admmnet.data import DataSettings, Records, load, load_new
from admmnet.data import rows as transform
from admmnet.data.rows import draw
from admmnet.data.table import Rows
from admmnet.errors import RequestError
from admmnet.types import Matrix
from tests.data.conftest import Write, every, refusal

RNG = np.random.default_rng(7)
X = np.round(RNG.normal(0, [1, 10, 100, 1e-3, 5], (60, 5)), 6)
X[:, 4] = np.where(X[:, 4] > 0, X[:, 4], 0)
Y = np.where(RNG.random(60) < 0.4, 1, -1)


@pytest.fixture
def npz(tmp_path: Path) -> str:
    np.savez(tmp_path / "t.npz", X=X, y=Y)
    return str(tmp_path / "t.npz")


@pytest.fixture
def svm(write: Write) -> str:
    lines = [
        f"{y} " + " ".join(f"{k + 1}:{v!r}" for k, v in enumerate(x) if v)
        for y, x in zip(Y.tolist(), X.tolist(), strict=True)
    ]
    return write("t.svm", "\n".join(lines))


def unit(rows: Matrix) -> Matrix:
    """Rows with the intercept, scaled to norm 1."""
    full = np.column_stack([rows, np.ones(len(rows))])
    scaled: Matrix = full / np.linalg.norm(full, axis=1)[:, None]
    return scaled


def training(records: Records) -> Rows:
    """Rows of the file that train."""
    return draw(len(records.shards[0][1]) + len(records.y_test), 0.25, 0)[0]


def rows_of(records: Records, expected: Matrix) -> None:
    """All rows, training and test, are the expected ones in the order of the file."""
    train = training(records)
    test = np.setdiff1d(np.arange(len(expected)), train)
    np.testing.assert_allclose(records.shards[0][0], expected[train], rtol=0, atol=1e-14)
    np.testing.assert_allclose(records.X_test, expected[test], rtol=0, atol=1e-14)


def test_projection_comes_before_the_scaling_of_rows(npz: str) -> None:
    rows_of(every(npz), unit(X))
    records = every(npz, project=3)
    matrix = transform._projection(5, 3, 0)
    rows_of(records, unit(X @ matrix))
    assert records.feature_names == ("p1", "p2", "p3", "intercept")
    assert records.preprocessing == "public-bounds"
    for part in (*(X for X, _ in records.shards.values()), records.X_test):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, rtol=0, atol=1e-14)


def test_columns_come_before_the_projection(npz: str) -> None:
    train = training(every(npz))
    records = every(npz, project=3, normalise="columns")
    rows_of(records, unit(X / np.abs(X[train]).max(axis=0) @ transform._projection(5, 3, 0)))


def test_projection_is_gaussian_and_keeps_norms() -> None:
    """20,000 entries of one fixed matrix. A true law fails with probability 1e-3; 0.7 and 1.3 times its scale fail."""
    matrix = transform._projection(200, 100, 3)
    entries = matrix.ravel() * np.sqrt(100)
    assert kstest(entries, "norm").pvalue > 1e-3
    for factor in (0.7, 1.3):
        assert kstest(factor * entries, "norm").pvalue < 1e-3
    rows = np.random.default_rng(0).normal(size=(50, 200))
    ratio = np.sum((rows @ matrix) ** 2, axis=1) / np.sum(rows**2, axis=1)
    assert np.mean(ratio) == pytest.approx(1, abs=0.1)


def test_columns_read_the_training_records_and_say_so(npz: str, tmp_path: Path) -> None:
    train = training(every(npz))
    records = every(npz, normalise="columns")
    largest = np.abs(X[train]).max(axis=0)
    rows_of(records, unit(X / largest))
    assert records.preprocessing == "data-dependent"
    assert any("largest absolute values of the features" in note for note in records.notes)
    assert records.encoding is not None
    assert records.encoding["scales"] == largest.tolist()
    other = X.copy()
    other[np.setdiff1d(np.arange(60), train)] *= 1000  # test records are not looked at
    np.savez(tmp_path / "u.npz", X=other, y=Y)
    assert every(str(tmp_path / "u.npz"), normalise="columns").encoding == records.encoding
    np.savez(tmp_path / "u.npz", X=X * [1, 1, 0, 1, 1], y=Y)  # a feature that never occurs is left alone
    zero = every(str(tmp_path / "u.npz"), normalise="columns")
    assert zero.encoding is not None
    assert zero.encoding["scales"][2] == 1.0


def test_what_was_found_encodes_new_rows_alike(npz: str) -> None:
    request = DataSettings(data=npz, normalise="columns", project=3)
    records = load(request, 1, [0])
    with pytest.raises(RequestError, match=r"--normalise columns would be read from the rows: declare scales"):
        load_new(request, records.feature_names)
    table = json.loads(json.dumps(records.encoding))
    again = DataSettings(data=npz, normalise="columns", project=3, schema=table)
    new = load_new(again, records.feature_names, part="test")
    np.testing.assert_array_equal(new.X_test, records.X_test)
    assert load(again, 1, [0]).preprocessing == "public-bounds"  # declared now


def test_projected_csv_keeps_its_columns_for_new_rows(write: Write) -> None:
    path = write("t.csv", "b,a,y,c\n1,2,1,3\n4,5,-1,6\n7,8,1,9\n1,1,1,1\n")
    request = DataSettings(data=path, label="y", project=2)
    records = load(request, 1, [0])
    assert records.preprocessing == "public-bounds"
    assert records.encoding is not None
    with pytest.raises(RequestError, match="the model's features are projections"):
        load_new(request, records.feature_names)
    again = DataSettings(data=path, label="y", project=2, schema=records.encoding)
    new = load_new(again, records.feature_names, part="test")
    np.testing.assert_array_equal(new.X_test, records.X_test)


def test_public_scales(npz: str, write: Write) -> None:
    scales = [1.0, 20.0, 100.0, 1.0, 5.0]
    records = every(npz, normalise="public", schema={"scales": scales})
    assert records.preprocessing == "public-bounds"
    assert any("declared bounds" in note for note in records.notes)
    rows_of(records, unit(np.clip(X / scales, -1, 1)))
    rows_of(every(npz, normalise="public", schema={"scales": 10}), unit(np.clip(X / 10, -1, 1)))
    message = refusal(npz, normalise="public")
    assert "t.npz has no public bound for feature 'x1'" in message
    assert "holds 2 numbers, t.npz has 5 features" in refusal(npz, normalise="public", schema={"scales": [1, 2]})
    columns: dict[str, Any] = {"a": {"kind": "numeric", "low": 0, "high": 4, "weight": 2}}
    path = write("t.csv", "a,b,y\n1,2,1\n4,5,-1\n2,8,1\n3,1,1\n")
    schema = {"label": "y", "drop": ["b"], "columns": columns}
    heavy, even = (every(path, schema=schema, normalise=way, test=path).X_test for way in ("rows", "public"))
    np.testing.assert_allclose(heavy[:, 0] / heavy[:, 1], 2 * even[:, 0] / even[:, 1])
    columns["b"] = {"kind": "numeric", "scale": "none"}
    assert "no public bound for feature 'b'" in refusal(
        path, schema={"label": "y", "columns": columns}, normalise="public"
    )


def test_files_of_one_agent_each_read_nothing(tmp_path: Path) -> None:
    for name, part in (("0", X[:20]), ("1", X[20:40]), ("test", X[40:])):
        np.savez(tmp_path / f"s-{name}.npz", X=part, y=Y[:20])
    pattern, test = str(tmp_path / "s-{agent}.npz"), str(tmp_path / "s-test.npz")
    with pytest.raises(RequestError, match=r"--normalise columns would be read .* declare scales"):
        load(DataSettings(data=pattern, test=test, normalise="columns"), 2, [0])
    request = DataSettings(data=pattern, test=test, normalise="columns", project=3, schema={"scales": 7})
    records = load(request, 2, [1])
    assert records.preprocessing == "public-bounds"
    np.testing.assert_allclose(records.shards[1][0], unit(X[20:40] / 7 @ transform._projection(5, 3, 0)))
    targets = {"targets": [-1, 1]}
    with pytest.raises(RequestError, match=r"--centre mean would be read .* declare centre"):
        load(DataSettings(data=pattern, test=test, centre="mean", schema=targets), 2, [0])


def test_small_pieces_make_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = every("census", 2, normalise="columns")
    monkeypatch.setattr(transform, "STEP", 1000)
    pieces = every("census", 2, normalise="columns")
    np.testing.assert_array_equal(pieces.X_test, whole.X_test)
    np.testing.assert_array_equal(pieces.shards[1][0], whole.shards[1][0])
    assert pieces.encoding == whole.encoding


def test_a_zero_row_is_named_in_any_piece(npz: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zero = X.copy()
    zero[41] = 0
    np.savez(npz, X=zero, y=Y)
    for step in (1 << 20, 10):
        monkeypatch.setattr(transform, "STEP", step)
        for share in (0.0, 1.0):
            with pytest.raises(RequestError, match=r"t\.npz, row 42: every feature is zero"):
                load(DataSettings(data=npz, no_intercept=True), 1, [0], sparse=share)


@pytest.mark.parametrize("others", [
    {}, {"no_intercept": True}, {"normalise": "columns"},
    {"normalise": "public", "schema": {"scales": [1, 8, 9, 1, 2]}},
])  # fmt: skip
@pytest.mark.parametrize("form", ["svm", "npz"])
def test_sparse_rows_are_the_dense_ones(form: str, others: dict[str, Any], svm: str, npz: str) -> None:
    path = svm if form == "svm" else npz
    request = DataSettings(data=path, features=5, **others)
    dense, sparse = (load(request, 1, [0], sparse=share) for share in (0.0, 1.0))
    for found, expected in (
        (sparse.shards[0], dense.shards[0]),
        ((sparse.X_test, sparse.y_test), (dense.X_test, dense.y_test)),
    ):
        rows: Any = found[0]
        np.testing.assert_allclose(rows.toarray(), expected[0], rtol=1e-14, atol=0)
        np.testing.assert_array_equal(found[1], expected[1])
        assert rows.nnz < rows.shape[0] * rows.shape[1]
    arrays: dict[str, Any] = {"shards": {}, "X_test": None, "y_test": None}  # compared above
    assert replace(sparse, **arrays) == replace(dense, **arrays)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"project": 0}, "project = 0 is not allowed"),
        ({"project": 5}, "--project 5 must be below the number of features, 5"),
        ({"normalise": "max"}, "normalise = 'max' is not allowed: it must be one of rows"),
        ({"centre": "median"}, "--centre must be a finite number or mean, got 'median'"),
        ({"centre": float("nan")}, "--centre must be a finite number or mean, got nan"),
        ({"centre": 1.0}, "--centre goes with real targets; the labels of t.npz are classes"),
        ({"schema": {"centre": 1.0}}, "--centre goes with real targets"),
    ],
)
def test_refusals(others: dict[str, Any], words: str, npz: str) -> None:
    assert words in refusal(npz, **others)
