"""Estimators on raw arrays and frames: columns are measured within the budget, and new rows encoded alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from admmnet import run
from admmnet.errors import DataError, RequestError
from admmnet.estimators.network import NetworkClassifier, NetworkRegressor
from admmnet.holder.encoding import Number
from admmnet.record.encoding import read_found
from admmnet.types import Vector

N = 3000
HOW: dict[str, Any] = {"agents": 2, "rounds": 4, "epsilon": 4.0, "delta": 1e-4, "topology": "path:2"}


def people(seed: int = 0) -> tuple[Any, Vector]:
    rng = np.random.default_rng(seed)
    size = rng.normal(size=N)
    frame = pd.DataFrame({"pay": 1e4 * np.exp(2.0 * size), "ward": rng.choice(["A", "B", "C"], N)})
    frame.loc[::50, "pay"] = np.nan
    return frame, np.where(size + 0.3 * rng.normal(size=N) > 0.0, "high", "low")


FRAME, Y = people()


def test_a_frame_whose_kinds_are_said_is_encoded_by_what_is_measured() -> None:
    model = NetworkClassifier(kinds="dtype", random_state=0, **HOW).fit(FRAME, Y)
    assert model.encoding_ is not None
    pay = model.encoding_.columns[0]
    assert isinstance(pay, Number)
    assert 0.0 <= pay.low < 1e4 < pay.high
    assert model.coef_.shape == (1, 8 + 16)
    assert model.get_feature_names_out().tolist()[5:9] == ["pay=100%", "pay", "pay=missing", "ward#0"]
    assert (model.n_features_in_, list(model.feature_names_in_)) == (2, ["pay", "ward"])
    new, labels = people(1)
    assert model.score(new, labels) > 0.8
    assert np.array_equal(model.predict(new[:7]), model.predict(new)[:7])
    assert model.predict_proba(new).shape == (N, 2)
    with pytest.raises(DataError, match="has no column 'pay'"):
        model.predict(new[["ward"]])
    with pytest.raises(RequestError, match="columns are taken by their names: give a data frame"):
        model.predict(new.to_numpy())


def test_columns_of_words_are_pointed_to_kinds() -> None:
    for encode, words in (("auto", "no numbers, 'ward': .* give kinds='dtype'"), ("private", "say so, kinds='dtype'")):
        with pytest.raises(ValueError, match=words):
            NetworkClassifier(encode=encode, **HOW).fit(FRAME, Y)
    with pytest.raises(RequestError, match=r"give kinds='dtype' if its types are public"):
        run(data=FRAME.assign(y=Y), label="y", algorithm="noisy-gd", no_test=True, no_account=True)


@pytest.mark.parametrize(("gone", "kinds"), [(None, None), (np.nan, "dtype"), (pd.NA, None)])
def test_a_missing_label_is_named(gone: Any, kinds: str | None) -> None:
    labels = pd.Series(Y, dtype=object)
    labels[[3, 5]] = gone
    for given in (labels, labels.tolist()):
        with pytest.raises(ValueError, match="y has 2 missing labels, the first in row 3: drop the rows"):
            NetworkClassifier(kinds=kinds, **HOW).fit(FRAME[["pay"]].fillna(0.0), given)


def test_auto_leaves_arrays_as_they_are_and_private_measures_them() -> None:
    X = FRAME[["pay"]].fillna(0.0).to_numpy()
    plain = NetworkClassifier(random_state=0, **HOW).fit(X, Y)
    named = NetworkClassifier(random_state=0, **HOW).fit(FRAME[["pay"]].fillna(0.0), Y)
    assert (named.get_feature_names_out().tolist(), plain.get_feature_names_out().tolist()) == (["pay"], ["x1"])
    assert (plain.encoding_, plain.whitening_, plain.coef_.shape) == (None, None, (1, 1))
    model = NetworkClassifier(encode="private", whiten="off", random_state=0, **HOW).fit(X, Y)
    assert model.coef_.shape == (1, 8)
    assert model.whitening_ is None
    assert model.score(X, Y) > 0.8 > plain.score(X, Y)


def test_targets_of_a_frame_and_of_an_array() -> None:
    pay = FRAME["pay"].fillna(1e4)
    y = 50.0 + 10.0 * np.log(pay.to_numpy() / 1e4)
    how: dict[str, Any] = {"target_range": (0.0, 100.0), "random_state": 0, "encode": "private", **HOW, "rounds": 20}
    model = NetworkRegressor(kinds="dtype", **how).fit(FRAME, y)
    assert model.encoding_ is not None
    assert model.coef_.shape == (8 + 16,)
    assert model.score(FRAME, y) > 0.8
    assert np.array_equal(model.predict(FRAME[:5]), model.predict(FRAME)[:5])
    plain = NetworkRegressor(whiten="on", **how).fit(pay.to_numpy()[:, None], y)
    assert plain.whitening_ is not None
    assert plain.score(pay.to_numpy()[:, None], y) > 0.8
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.fit(FRAME, np.where(y > 50.0, np.nan, y))


def test_an_encoding_is_taken_over_from_a_run_at_no_charge(tmp_path: Path) -> None:
    schema = {"label": "y", "labels": ["low", "high"]}
    how: dict[str, Any] = {"data": FRAME.assign(y=Y), "schema": schema, "kinds": "dtype", "no_test": True, "seed": 5}
    one = run(**how, **HOW, algorithm="noisy-gd", encode="private", whiten="on", out=str(tmp_path / "one")).folder
    found = read_found(one)[1]
    model = NetworkClassifier(encode=f"from:{one}", random_state=0, **HOW).fit(FRAME, Y)
    assert model.encoding_ == found.encoding
    assert model.whitening_ is not None
    assert found.whitening is not None
    assert np.array_equal(model.whitening_, found.whitening)
    assert model.score(FRAME, Y) > 0.8
    plain = NetworkClassifier(encode=f"from:{one}", whiten="off", random_state=0, **HOW).fit(FRAME, Y)
    assert plain.whitening_ is None
    with pytest.raises(RequestError, match="has no column 'ward'"):
        clone(model).fit(FRAME[["pay"]], Y)
    with pytest.raises(RequestError, match="it is a simulation, which protects nothing, and this run is private"):
        NetworkClassifier(encode=f"from:{one}", **HOW).fit(FRAME, Y)
    with pytest.raises(RequestError, match="there is nothing of the name"):
        NetworkClassifier(encode=f"from:{tmp_path / 'none'}", **HOW).fit(FRAME, Y)


def test_a_private_fit_takes_over_what_its_account_has_paid_for(tmp_path: Path) -> None:
    X, signs = FRAME[["pay"]].to_numpy(), np.where(Y == "high", 1.0, -1.0)
    shared: dict[str, Any] = {"algorithm": "noisy-gd", "account": str(tmp_path / "account"), **HOW}
    where: dict[str, Any] = {"no_test": True, "private": True, "out": str(tmp_path / "one")}
    one = run(X=X, y=signs, encode="private", whiten="on", **where, **shared).folder
    how: dict[str, Any] = {**shared, "encode": f"from:{one}", "epsilon": 6.0}
    assert NetworkClassifier(**how).fit(X, Y).encoding_ == read_found(one)[1].encoding
    with pytest.raises(RequestError, match="name that with account=DIR"):
        NetworkClassifier(**how | {"account": "process"}).fit(X, Y)


def test_three_classes_of_a_frame_and_few_records() -> None:
    few = NetworkClassifier(kinds="dtype", random_state=0, **HOW).fit(FRAME[:40], Y[:40])
    assert few.encoding_ is not None  # on public curves
    assert few.coef_.shape == (1, 8 + 16)
    y = np.digitize(FRAME["pay"].fillna(1e4), [3e3, 3e4])
    model = NetworkClassifier(kinds="dtype", encode="private", random_state=0, **HOW | {"rounds": 20}).fit(FRAME, y)
    assert model.coef_.shape == (3, 8 + 16)
    assert model.score(FRAME, y) > 0.8
    for estimator in (NetworkRegressor(kinds="dtype"), NetworkClassifier(kinds="dtype")):
        with pytest.raises(ValueError, match=r"kinds = 'dtype' with encode = 'auto' .* give encode='private'"):
            estimator.fit(FRAME, y)
