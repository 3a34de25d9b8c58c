"""How good a model is on labelled rows: what runs, comparisons and evaluations report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from admmnet.data.records import Records
from admmnet.data.schema import Task
from admmnet.types import Matrix, Vector


def mean_of(rows: Matrix) -> Matrix:
    """Mean of models (N, ...); of equal ones bit for bit what they are."""
    first: Matrix = rows[0]
    return first.copy() if (rows == first).all() else np.asarray(rows.sum(axis=0) / len(rows))


def scores(X: Any, theta: Vector, classes: int) -> Vector | Matrix:
    """Scores of rows (m, d): shape (m,), or (m, K) of three or more classes, whose theta is (K, d) flattened."""
    if classes > 2:
        theta = theta.reshape(classes, -1).T
    return np.asarray(X @ theta)


def decided(task: Task, score: Vector | Matrix) -> Vector:
    """Labels (m,) by scores: +1 where a score is positive, the class of the largest, or the score itself."""
    if task == "classes":
        return np.asarray(np.argmax(score, axis=1), dtype=np.float64)
    return np.where(score > 0.0, 1.0, -1.0) if task == "binary" else score


def probabilities(score: Vector | Matrix) -> Vector | Matrix:
    """Of +1, shape (m,), by logistic scores; of every class, shape (m, K), by softmax ones."""
    if score.ndim == 1:
        return np.asarray(np.exp(-np.logaddexp(0.0, -score)))
    weights = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def log_probability(score: Vector | Matrix, y: Vector) -> Vector:
    """Logarithm of the probability that logistic or softmax scores give to labels, shape (m,), in nats."""
    if score.ndim == 1:
        return np.asarray(-np.logaddexp(0.0, -y * score))
    top = score.max(axis=1)
    own = score[np.arange(len(y)), y.astype(int)]
    return np.asarray(own - top - np.log(np.exp(score - top[:, None]).sum(axis=1)))


def confusion(task: Task, score: Vector | Matrix, y: Vector) -> Any:
    """Number of rows of a class (outer) that were given another (inner); of two classes by the usual names."""
    counts = np.zeros((2 if task == "binary" else score.shape[1],) * 2, dtype=int)
    places = ((y if task == "classes" else y > 0.0).astype(int) for y in (y, decided(task, score)))
    np.add.at(counts, tuple(places), 1)
    if task == "classes":
        return counts.tolist()
    (right_no, wrong_yes), (wrong_no, right_yes) = counts.tolist()
    return {
        "true_positive": right_yes,
        "false_positive": wrong_yes,
        "true_negative": right_no,
        "false_negative": wrong_no,
    }


def figure(task: Task, score: Vector | Matrix, y: Vector) -> float:
    """Share of wrong predictions, or mean squared error of real targets; nan without rows."""
    if not len(y):
        return math.nan
    if task == "real":
        return float(np.mean(np.square(score - y)))
    return float(np.mean(decided(task, score) != y))


def only_class(task: Task, score: Vector | Matrix, labels: Sequence[str]) -> str | None:
    """Label that scores (m,) or (m, K) give every row, where they give one alone; None of real targets or no rows."""
    if task == "real" or not len(score):
        return None
    said = decided(task, score)
    if (said != said[0]).any():
        return None
    return labels[int(said[0])] if task == "classes" else labels[int(said[0] > 0.0)]


def test_errors(data: Records, theta: Matrix) -> Vector:
    """Test figure of every model, a row of theta (B, d) or (B, K d), as ``figure`` has it."""
    X, y, task = data.X_test, data.y_test, data.task
    if task == "binary" and len(y):
        score = theta @ X.T if len(theta) > 1 else (X @ theta[0])[None]  # twice as fast as a record a row
        return np.asarray(((score > 0.0) != (y > 0.0)).mean(axis=1))
    if task == "classes" and (theta == theta[0]).all():  # agents that hold one model
        return np.full(len(theta), figure(task, scores(X, theta[0], data.classes), y))
    return np.array([figure(task, scores(X, own, data.classes), y) for own in theta])


test_errors.__test__ = False  # type: ignore[attr-defined]


def constant_figure(task: Task, y: Vector) -> float:
    """Figure of what looks at no row: always the more frequent class of these labels, or their mean; nan without."""
    if not len(y):
        return math.nan
    if task == "real":
        return float(np.var(y))
    # a quotient of counts, as the error of a model is: what says the same has the same bits
    return float(len(y) - np.unique(y, return_counts=True)[1].max()) / len(y)


def further_figures(data: Records, theta: Vector) -> dict[str, float]:
    """Figures beside a model's error: macro error of classes; of targets RMSE, also in their unit, and R^2.

    R^2 = 1 - MSE / variance of the test targets: 0 is what their mean has, nan where they do not vary. Nothing is said
    of two classes, or without records.
    """
    y = data.y_test
    if data.task == "binary" or not len(y):
        return {}
    score = scores(data.X_test, theta, data.classes)
    if data.target is None:
        wrong = decided("classes", score) != y
        return {"macro": float(np.mean([np.mean(wrong[y == each]) for each in np.unique(y)]))}
    square, spread = figure("real", score, y), constant_figure("real", y)
    r2, root = 1.0 - square / spread if spread else math.nan, math.sqrt(square)
    return {"rmse": root, "r2": r2, "root_in_units": root * data.target.reach}
