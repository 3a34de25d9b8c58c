"""Figures of models on test records are those of scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics

from admmnet.data import Records, TargetRange
from admmnet.data import figures as own

RNG = np.random.default_rng(3)
X = RNG.standard_normal((200, 4))
THETA = RNG.standard_normal((5, 4))
SIGNS = np.where(X[:, 0] + RNG.standard_normal(200) > 0.4, 1.0, -1.0)
CLASSES = np.digitize(X[:, 0] + RNG.standard_normal(200), [-0.5, 1.0]).astype(float)
WIDE = RNG.standard_normal((5, 12))
"""Models of five agents, of two classes and of three."""


def test_two_classes() -> None:
    records = Records("r", {}, {}, X, SIGNS, ("a", "b", "c", "d"), "public-bounds")
    score = own.scores(X, THETA[0], 2)
    np.testing.assert_allclose(score, X @ THETA[0])
    said = own.decided("binary", score)
    error = own.figure("binary", score, SIGNS)
    assert error == pytest.approx(1.0 - metrics.accuracy_score(SIGNS, said))
    np.testing.assert_allclose(own.test_errors(records, THETA), [own.test_error(X, SIGNS, one) for one in THETA])
    assert own.test_errors(records, THETA[:1])[0] == error == own.test_error(X, SIGNS, THETA[0])
    np.testing.assert_allclose(own.probabilities(score), expit(score), rtol=1e-12)
    loss = metrics.log_loss(SIGNS, expit(score))
    assert -own.log_probability(score, SIGNS).mean() == pytest.approx(loss, rel=1e-9)
    names = ("true_negative", "false_positive", "false_negative", "true_positive")
    counts = metrics.confusion_matrix(SIGNS, said).ravel().tolist()
    assert own.confusion("binary", score, SIGNS) == dict(zip(names, counts, strict=True))
    assert own.constant_figure("binary", SIGNS) == min(np.mean(SIGNS > 0), np.mean(SIGNS < 0))
    assert own.further_figures(records, THETA[0]) == {}
    assert [own.only_class("binary", one * np.ones(3), ("no", "yes")) for one in (1, -1, 0)] == ["yes", "no", "no"]
    assert own.only_class("binary", score, ("no", "yes")) is None


def test_three_classes() -> None:
    labels = ("a", "b", "c")
    records = Records("r", {}, {}, X, CLASSES, ("a", "b", "c", "d"), "public-bounds", labels=labels)
    score = own.scores(X, WIDE[0], 3)
    np.testing.assert_allclose(score, X @ WIDE[0].reshape(3, 4).T)
    said = own.decided("classes", score)
    assert own.figure("classes", score, CLASSES) == pytest.approx(1.0 - metrics.accuracy_score(CLASSES, said))
    errors = [own.figure("classes", own.scores(X, one, 3), CLASSES) for one in WIDE]
    np.testing.assert_array_equal(own.test_errors(records, WIDE), errors)
    np.testing.assert_array_equal(own.test_errors(records, WIDE[[1, 1]]), errors[1])
    chances = softmax(score, axis=1)
    np.testing.assert_allclose(own.probabilities(score), chances, rtol=1e-12)
    loss = metrics.log_loss(CLASSES, chances)
    assert -own.log_probability(score, CLASSES).mean() == pytest.approx(loss, rel=1e-9)
    assert own.confusion("classes", score, CLASSES) == metrics.confusion_matrix(CLASSES, said).tolist()
    macro = 1.0 - metrics.balanced_accuracy_score(CLASSES, said)
    assert own.further_figures(records, WIDE[0]) == {"macro": pytest.approx(macro)}
    assert own.constant_figure("classes", CLASSES) == 1.0 - np.bincount(CLASSES.astype(int)).max() / 200
    assert own.only_class("classes", np.eye(3)[[1, 1]], labels) == "b"


def test_real_targets() -> None:
    y = np.clip(X[:, 0] / 4.0, -1.0, 1.0)
    records = Records("r", {}, {}, X, y, ("a", "b", "c", "d"), "public-bounds", target=TargetRange(0.0, 10.0, 4.0))
    score = own.scores(X, 0.1 * THETA[0], 0)
    square = metrics.mean_squared_error(y, score)
    assert own.figure("real", score, y) == pytest.approx(square, rel=1e-12)
    found = own.further_figures(records, 0.1 * THETA[0])
    expected = {"rmse": square**0.5, "r2": metrics.r2_score(y, score), "root_in_units": 6.0 * square**0.5}
    assert found == pytest.approx(expected, rel=1e-9)
    assert own.constant_figure("real", y) == pytest.approx(np.var(y))
    assert np.isnan(own.regression_figures(1.0, np.ones(3), 1.0)["r2"])
    nobody = replace(records, X_test=X[:0], y_test=y[:0])
    assert np.isnan(own.test_errors(nobody, THETA)).all()
    assert own.further_figures(nobody, THETA[0]) == {}
