"""Runs on three classes or more and on real targets: figures, model, references, and who is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RunConfig, RunResult, read_run, run
from admmnet.data import DataSettings, Records, load
from admmnet.data.figures import macro_error, scores
from admmnet.predict.apply import NewData, evaluate, predict, read_model
from tests.report_pages import words_of

NAMES = ["ape", "bee", "cat"]
CLASSES: dict[str, Any] = {"schema": {"labels": NAMES, "features": 4}}
REAL: dict[str, Any] = {"schema": {"targets": [0, 100], "features": 4}}


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


def made(data: str, out: Path, algorithm: str, **others: Any) -> RunResult:
    given: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-3, "seed": 3, "topology": "ring:4"}
    return run(RunConfig(data=data, algorithm=algorithm, out=str(out), **given | others))


def records(data: str, task: dict[str, Any]) -> Records:
    return load(DataSettings(data=data, **task), 4, range(4))


@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp"])
def test_classes_end_to_end(files: dict[str, str], tmp_path: Path, algorithm: str) -> None:
    result = made(files["classes"], tmp_path / "run", algorithm, **CLASSES)
    data, summary, told = records(files["classes"], CLASSES), result.summary, result.summary["test_error"]
    with np.load(result.folder / "model.npz") as archive:
        assert archive["theta"].shape == (4, 3, 5)
        assert archive["classes"].tolist() == NAMES
        np.testing.assert_array_equal(archive["consensus"], archive["theta"].mean(axis=0))
        score = data.X_test @ archive["consensus"].T
    wrong = np.argmax(score, axis=1) != data.y_test
    assert told["consensus"] == float(wrong.mean())
    each = [wrong[data.y_test == k].mean() for k in range(3)]
    assert told["macro"] == pytest.approx(float(np.mean(each)), rel=1e-12)
    assert told["macro"] != told["consensus"]
    assert (summary["metric"], summary["data"]["task"]) == ("error", "classes")
    assert summary["data"]["classes"] == NAMES
    larger = 1.0 - np.bincount(data.y_test.astype(int)).max() / len(data.y_test)
    assert summary["references"]["larger_class"] == pytest.approx(larger, rel=1e-12)
    assert told["consensus"] < 0.7 * larger
    assert summary["references"]["pooled"] < 0.7 * larger
    read_run(result.folder)


@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp"])
def test_real_targets_end_to_end(files: dict[str, str], tmp_path: Path, algorithm: str) -> None:
    result = made(files["real"], tmp_path / "run", algorithm, **REAL)
    data, summary, told = records(files["real"], REAL), result.summary, result.summary["test_error"]
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


def test_the_pooled_optimum_is_one(files: dict[str, str], tmp_path: Path) -> None:
    data = records(files["classes"], CLASSES)
    X = np.vstack([data.shards[i][0] for i in range(4)])
    y = np.concatenate([data.shards[i][1] for i in range(4)])
    exact = np.linalg.solve(X.T @ X / len(y) + 1e-4 / 4 * np.eye(5), X.T @ np.eye(3)[y.astype(int)] / len(y))
    wrong = float(np.mean(np.argmax(data.X_test @ exact, axis=1) != data.y_test))
    ssp = made(files["classes"], tmp_path / "run", "ssp", **CLASSES)
    assert ssp.summary["references"]["pooled"] == wrong
    copied = str(shutil.copy(files["classes"], tmp_path / "test.npz"))
    private = made(files["classes"], tmp_path / "own", "ssp", **CLASSES, seed=None, test=copied, no_account=True)
    assert private.summary["mode"] == "private"
    assert private.summary["references"]["pooled"] is None
    assert private.summary["references"]["larger_class"] is not None


def test_a_run_that_learned_nothing_says_so(files: dict[str, str], tmp_path: Path) -> None:
    poor = made(files["classes"], tmp_path / "poor", "ssp", **CLASSES, epsilon=1e-3)
    good = made(files["classes"], tmp_path / "good", "ssp", **CLASSES)
    assert "that is no better than always the larger class" in poor.summary()
    assert "no better" not in good.summary()
    assert "always the larger class" in good.summary()


def test_a_saved_model_of_classes(files: dict[str, str], tmp_path: Path) -> None:
    result = made(files["classes"], tmp_path / "run", "noisy-gd", **CLASSES)
    model, data = read_model(result.folder), records(files["classes"], CLASSES)
    assert (model.task, model.classes) == ("classes", tuple(NAMES))
    facts = evaluate(model, NewData(data=files["classes"]), part="test")
    assert facts["error"]["consensus"] == result.summary["test_error"]["consensus"]
    score = scores(data.X_test, model.consensus.ravel(), 3)
    assert facts["error"]["macro"] == macro_error(score, data.y_test)
    table = np.array(facts["confusion"])
    assert table.sum() == len(data.y_test)
    assert 1.0 - np.trace(table) / table.sum() == pytest.approx(facts["error"]["consensus"], rel=1e-12)
    assert json.loads(json.dumps(facts)) == facts
    found = predict(model, NewData(data=files["classes"]))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert found.prediction == tuple(NAMES[k] for k in np.argmax(found.probabilities, axis=1))
    np.testing.assert_array_equal(found.probability, found.probabilities.max(axis=1))
    least = predict(
        read_model(made(files["classes"], tmp_path / "ssp", "ssp", **CLASSES).folder), NewData(data=files["classes"])
    )
    assert not least.probable


def test_rows_of_another_task_are_refused(files: dict[str, str], tmp_path: Path) -> None:
    model = read_model(made(files["real"], tmp_path / "run", "noisy-gd", **REAL).folder)
    with pytest.raises(RequestError, match=r"learned three classes or more, and real\.npz has real targets"):
        evaluate(replace(model, classes=("a", "b", "c")), NewData(data=files["real"]), part="test")


@pytest.mark.parametrize(
    ("algorithm", "loss"), [("pp-admm", "squared"), ("pp-admm", "huber"), ("admm", "squared"), ("song-sgd", "squared")]
)
def test_one_message_names_the_methods(files: dict[str, str], tmp_path: Path, algorithm: str, loss: str) -> None:
    words = "learns two classes, and .* has real targets: take .*noisy-gd, ssp.*dp-sgd"
    with pytest.raises(RequestError, match=words):
        made(files["real"], tmp_path / "run", algorithm, loss=loss, topology=None, **REAL)
    assert not (tmp_path / "run").exists()


def test_losses_that_do_not_learn_the_task(files: dict[str, str], tmp_path: Path) -> None:
    for algorithm, loss, task, remedy in (
        ("noisy-gd", "logistic", REAL, "take huber"),
        ("noisy-gd", "logistic", CLASSES, "take softmax"),
        ("dp-sgd", "logistic", REAL, "take squared"),
    ):
        data = files["real"] if task is REAL else files["classes"]
        with pytest.raises(RequestError, match=f"loss = 'logistic' does not learn .*{remedy}"):
            made(data, tmp_path / "run", algorithm, loss=loss, topology=None, **task)
