"""Runs on three classes or more and on real targets: figures, model, references, and who is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RunConfig, RunResult, read_run, run
from admmnet.data import DataSettings, Records, load
from admmnet.predict.apply import NewData, evaluate, predict, read_model
from tests.report_pages import words_of

NAMES = ["ape", "bee", "cat"]
TASKS: dict[str, dict[str, Any]] = {
    "classes": {"schema": {"labels": NAMES, "features": 4}},
    "real": {"schema": {"targets": [0, 100], "features": 4}},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Three classes by direction, and targets linear in the features."""
    folder, stream = tmp_path_factory.mktemp("files"), np.random.default_rng(5)
    X = stream.standard_normal((900, 4))
    shares = X @ np.array([[2.0, 0, 0, 0], [0, 2.0, 0, 0], [-1.0, -1.0, 0.8, 0]]).T
    classes = np.argmax(shares + 0.5 * stream.standard_normal((900, 3)), axis=1)
    classes[:150] = 0  # unequal classes
    targets = 50.0 + 30.0 * (X / np.linalg.norm(X, axis=1)[:, None]) @ [1.0, -1.0, 0.5, 0.0]
    found = {"classes": str(folder / "classes.npz"), "real": str(folder / "real.npz")}
    np.savez(found["classes"], X=X, y=np.array(NAMES)[classes])
    np.savez(found["real"], X=X, y=targets + 3.0 * stream.standard_normal(900))
    return found


def made(files: dict[str, str], task: str, out: Path, algorithm: str, **others: Any) -> RunResult:
    given: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3, "seed": 3, "topology": "ring:4", **TASKS[task]}
    return run(RunConfig(data=files[task], algorithm=algorithm, out=str(out), **given | others))


def records(files: dict[str, str], task: str) -> Records:
    return load(DataSettings(data=files[task], **TASKS[task]), 4, range(4))


@pytest.fixture(scope="module")
def learned(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], RunResult]:
    """A run of each task and method."""
    folder = tmp_path_factory.mktemp("learned")
    ways = [(task, algorithm) for task in TASKS for algorithm in ("noisy-gd", "ssp")]
    return {way: made(files, way[0], folder / "-".join(way), way[1]) for way in ways}


@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp"])
def test_classes_end_to_end(files: dict[str, str], learned: dict[tuple[str, str], RunResult], algorithm: str) -> None:
    result = learned["classes", algorithm]
    data, summary, told = records(files, "classes"), result.summary, result.summary["test_error"]
    with np.load(result.folder / "model.npz") as archive:
        assert archive["theta"].shape == (4, 3, 5)
        assert archive["classes"].tolist() == NAMES
        np.testing.assert_array_equal(archive["consensus"], archive["theta"].mean(axis=0))
        score = data.X_test @ archive["consensus"].T
    wrong = np.argmax(score, axis=1) != data.y_test
    assert told["consensus"] == float(wrong.mean())
    each = [wrong[data.y_test == k].mean() for k in range(3)]
    assert told["macro"] == pytest.approx(float(np.mean(each)), rel=1e-12) != told["consensus"]
    assert (summary["metric"], summary["data"]["task"], summary["data"]["classes"]) == ("error", "classes", NAMES)
    larger = 1.0 - np.bincount(data.y_test.astype(int)).max() / len(data.y_test)
    assert summary["references"]["larger_class"] == pytest.approx(larger, rel=1e-12)
    assert max(told["consensus"], summary["references"]["pooled"]) < 0.7 * larger
    read_run(result.folder)


@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp"])
def test_real_targets_end_to_end(
    files: dict[str, str], learned: dict[tuple[str, str], RunResult], algorithm: str
) -> None:
    result = learned["real", algorithm]
    data, summary, told = records(files, "real"), result.summary, result.summary["test_error"]
    square = float(np.mean((data.X_test @ result.theta.mean(axis=0) - data.y_test) ** 2))
    spread = float(np.var(data.y_test))
    assert summary["metric"] == "mean-squared-error"
    assert told["consensus"] == pytest.approx(square, rel=1e-12)
    assert told["rmse"] == pytest.approx(np.sqrt(square), rel=1e-12)
    assert told["root_in_units"] == pytest.approx(50.0 * np.sqrt(square), rel=1e-12)
    assert told["r2"] == pytest.approx(1.0 - square / spread, rel=1e-12)
    assert told["r2"] > 0.6
    assert summary["references"]["mean"] == pytest.approx(spread, rel=1e-12)
    assert summary["references"]["pooled"] <= square * 1.05
    assert f"R^2 {told['r2']:.4g}" in summary()
    assert f"{told['root_in_units']:.4g} in the target's own unit; R² {told['r2']:.4g}" in words_of(result.folder)
    read_run(result.folder)


def test_the_pooled_optimum_is_one(
    files: dict[str, str], learned: dict[tuple[str, str], RunResult], tmp_path: Path
) -> None:
    data = records(files, "classes")
    X = np.vstack([data.shards[i][0] for i in range(4)])
    y = np.concatenate([data.shards[i][1] for i in range(4)])
    exact = np.linalg.solve(X.T @ X / len(y) + 1e-4 / 4 * np.eye(5), X.T @ np.eye(3)[y.astype(int)] / len(y))
    wrong = float(np.mean(np.argmax(data.X_test @ exact, axis=1) != data.y_test))
    assert learned["classes", "ssp"].summary["references"]["pooled"] == wrong
    how: dict[str, Any] = {"seed": None, "test": shutil.copy(files["classes"], tmp_path / "t.npz"), "no_account": True}
    private = made(files, "classes", tmp_path / "own", "ssp", **how | {"test": str(how["test"])}).summary
    assert (private["mode"], private["references"]["pooled"]) == ("private", None)
    assert private["references"]["larger_class"] is not None


def test_a_run_that_learned_nothing_says_so(
    files: dict[str, str], learned: dict[tuple[str, str], RunResult], tmp_path: Path
) -> None:
    poor = made(files, "classes", tmp_path / "poor", "ssp", epsilon=1e-3).summary()
    good = learned["classes", "ssp"].summary()
    assert "that is no better than always the larger class" in poor
    assert "no better" not in good
    assert "always the larger class" in good


def test_a_saved_model_of_classes(files: dict[str, str], learned: dict[tuple[str, str], RunResult]) -> None:
    result, own = learned["classes", "noisy-gd"], NewData(data=files["classes"])
    model = read_model(result.folder)
    facts, found = evaluate(model, own, part="test"), predict(model, own)
    assert facts["error"]["consensus"] == result.summary["test_error"]["consensus"]
    assert facts["error"]["macro"] == pytest.approx(result.summary["test_error"]["macro"], rel=1e-12)
    table = np.array(facts["confusion"])
    assert 1.0 - np.trace(table) / table.sum() == pytest.approx(facts["error"]["consensus"], rel=1e-12)
    assert found.prediction == tuple(NAMES[k] for k in np.argmax(found.probabilities, axis=1))
    np.testing.assert_array_equal(found.probability, found.probabilities.max(axis=1))
    real = read_model(learned["real", "noisy-gd"].folder)
    with pytest.raises(RequestError, match=r"learned three classes or more, and real\.npz has real targets"):
        evaluate(replace(real, classes=("a", "b", "c")), NewData(data=files["real"]), part="test")


METHODS = "learns two classes, and .* has real targets: take .*noisy-gd, ssp.*dp-sgd"


@pytest.mark.parametrize(
    ("algorithm", "loss", "task", "told"),
    [
        *((name, loss, "real", METHODS) for name, loss in (("pp-admm", "huber"), ("admm", "squared"))),
        ("song-sgd", "squared", "real", METHODS),
        ("noisy-gd", "logistic", "real", "loss = 'logistic' does not learn .*take huber"),
        ("noisy-gd", "logistic", "classes", "loss = 'logistic' does not learn .*take softmax"),
        ("dp-sgd", "logistic", "real", "loss = 'logistic' does not learn .*take squared"),
    ],
)
def test_who_does_not_learn_a_task_is_refused(
    files: dict[str, str], tmp_path: Path, algorithm: str, loss: str, task: str, told: str
) -> None:
    with pytest.raises(RequestError, match=told):
        made(files, task, tmp_path / "run", algorithm, loss=loss, topology=None)
    assert not (tmp_path / "run").exists()
