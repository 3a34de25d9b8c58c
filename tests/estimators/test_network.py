"""NetworkClassifier and NetworkRegressor: classes, targets, probabilities, privacy."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from admmnet import NetworkClassifier, NetworkRegressor, RequestError, run
from admmnet.estimators.single_site import DPSGDClassifier
from admmnet.types import Matrix

WIDE: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3, "random_state": 0}


X: Matrix = np.random.default_rng(4).standard_normal((600, 3))
UNIT = np.column_stack([X, np.ones(600)])
UNIT /= np.linalg.norm(UNIT, axis=1)[:, None]


def test_three_classes() -> None:
    y = np.array(["x", "y", "z"])[np.argmax(X, axis=1)]
    model = NetworkClassifier(**WIDE).fit(X, y)
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert (model.coef_.shape, model.intercept_.shape, model.loss_) == ((3, 3), (3,), "softmax")
    assert model.score(X, y) > 0.9
    scores = UNIT[:, :3] @ model.coef_.T + UNIT[:, 3:] * model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=0, atol=1e-12)
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances, np.exp(scores) / np.exp(scores).sum(axis=1)[:, None], rtol=1e-10)
    assert (model.predict(X) == model.classes_[chances.argmax(axis=1)]).all()
    np.testing.assert_array_equal(NetworkClassifier(**WIDE).fit(X, y).theta_, model.theta_)
    with pytest.raises(RequestError, match="'pp-admm' learns two classes, and arrays has 3 classes: take noisy-gd"):
        NetworkClassifier(algorithm="pp-admm", **WIDE).fit(X, y)


def test_losses_without_probabilities_say_so() -> None:
    y = np.where(X[:, 0] > 0.0, 1, -1)
    for model in (
        NetworkClassifier(algorithm="ssp", **WIDE).fit(X, y),
        NetworkClassifier(loss="smoothed-hinge", **WIDE),
        DPSGDClassifier(loss="hinge"),
    ):
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError) as caught:
            model.predict_proba(X)
        assert "there are no probabilities" in f"{caught.value} {caught.value.__cause__}"


def test_groups_are_the_agents(tmp_path: Any) -> None:
    """The model is the one of a run on these shards, and a graph connects them in the order of their names."""
    y = np.where(X[:, 0] > 0.0, 1, -1)
    groups = np.array(["north", "east", "west"])[np.arange(600) % 3 // np.where(np.arange(600) > 400, 2, 1)]
    names = ["east", "north", "west"]
    shards = [(X[groups == name], y[groups == name]) for name in names]
    for given in ({"graph": nx.path_graph(3)}, {"topology": "path:3"}):
        how: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 4, "delta": 1e-3, **given}
        model = NetworkClassifier(random_state=0, **how).fit(X, y, groups=groups)
        assert model.groups_.tolist() == names
        result = run(shards=shards, no_test=True, loss="logistic", seed=0, out=tmp_path / next(iter(given)), **how)
        np.testing.assert_array_equal(model.theta_, result.theta[0])
    other = NetworkRegressor(random_state=0).fit(X, X[:, 0], groups=list(groups))
    assert other.groups_.tolist() == names


@pytest.mark.parametrize("algorithm", ["noisy-gd", "pp-admm"])
def test_sparse_rows(algorithm: str) -> None:
    wide = sparse.random(300, 80, density=0.04, random_state=1, format="coo")
    y = np.where(np.asarray(wide.sum(axis=1)).ravel() > 1.5, "yes", "no")
    one = NetworkClassifier(algorithm=algorithm, **WIDE).fit(wide, y)
    other = NetworkClassifier(algorithm=algorithm, **WIDE).fit(wide.toarray(), y)
    np.testing.assert_allclose(one.theta_, other.theta_, rtol=0, atol=1e-9)
    assert (one.predict(wide) == other.predict(wide.toarray())).all()


@pytest.mark.parametrize(
    ("how", "groups", "words"),
    [
        ({}, np.zeros(600), r"groups has one value, 0.0: a network needs 2 agents or more"),
        ({}, np.arange(599) % 2, "inconsistent numbers of samples"),
        ({}, np.ones((600, 2)), "1d array"),
        ({}, [None, "a"] * 300, "groups has values that cannot be ordered"),
        ({"graph": nx.path_graph(4)}, np.arange(600) % 3, "graph has 4 nodes, and agents = 3"),
        ({"graph": nx.path_graph(3, nx.DiGraph)}, np.arange(600) % 3, "directed graph"),
        ({"agents": 2.5}, None, "agents = 2.5 is not allowed: it must be a whole number"),
        ({"agents": 601}, None, "agents = 601 with n_samples = 600"),
        ({"random_state": -1}, None, "seed = -1 is not allowed"),
        ({"algorithm": "dp-sgd"}, None, "dp-sgd"),
        ({"encode": "yes"}, None, "encode = 'yes'"),
        ({"kinds": "numbers"}, None, "kinds = 'numbers'"),
    ],
)
def test_wrong_inputs(how: dict[str, Any], groups: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):  # what scikit-learn's callers catch
        NetworkClassifier(**(WIDE | how)).fit(X, np.where(X[:, 0] > 0.0, 1, -1), groups=groups)


@pytest.mark.parametrize("given", [3, (1.0,), ("a", "b"), (2.0, 1.0)])
def test_a_range_that_is_none(given: Any) -> None:
    with pytest.raises(ValueError, match="must be two finite numbers, the smaller first"):
        NetworkRegressor(target_range=given, **WIDE).fit(X, X[:, 0])
