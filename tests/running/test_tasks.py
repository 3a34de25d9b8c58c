"""Runs on three classes or more and on real targets, and what a run returns."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from admmnet import RequestError, RunConfig, RunResult, read_run, run
from admmnet.data import DataSettings, Records, load
from admmnet.library import RunSummary
from admmnet.predict.apply import NewData, evaluate, predict, read_model
from tests.people_runs import small
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


Learned = dict[tuple[str, str], tuple[RunResult, Records]]


@pytest.fixture(scope="module")
def learned(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """A run of each task and method, and its records."""
    folder, read = tmp_path_factory.mktemp("learned"), dict[str, Records]()
    for task, how in TASKS.items():
        read[task] = load(DataSettings(data=files[task], **how), 4, range(4))
    ways = [(task, algorithm) for task in TASKS for algorithm in ("noisy-gd", "ssp")]
    return {way: (made(files, way[0], folder / "-".join(way), way[1]), read[way[0]]) for way in ways}


@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp"])
def test_classes_end_to_end(learned: Learned, algorithm: str) -> None:
    result, data = learned["classes", algorithm]
    summary, told = result.summary, result.summary["test_error"]
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
def test_real_targets_end_to_end(learned: Learned, algorithm: str) -> None:
    result, data = learned["real", algorithm]
    summary, told = result.summary, result.summary["test_error"]
    square = float(np.mean((data.X_test @ result.theta.mean(axis=0) - data.y_test) ** 2))
    spread = float(np.var(data.y_test))
    expected = {"consensus": square, "rmse": np.sqrt(square), "root_in_units": 50.0 * np.sqrt(square)}
    expected["r2"] = 1.0 - square / spread
    assert {name: told[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert (summary["metric"], told["r2"] > 0.6) == ("mean-squared-error", True)
    assert summary["references"]["mean"] == pytest.approx(spread, rel=1e-12)
    assert summary["references"]["pooled"] <= square * 1.05
    assert f"R^2 {told['r2']:.4g}" in summary()
    assert f"{told['root_in_units']:.4g} in the target's own unit; R² {told['r2']:.4g}" in words_of(result.folder)
    read_run(result.folder)


def test_the_pooled_optimum_is_one_and_a_run_that_learned_nothing_says_so(
    files: dict[str, str], learned: Learned, tmp_path: Path
) -> None:
    result, data = learned["classes", "ssp"]
    X = np.vstack([data.shards[i][0] for i in range(4)])
    y = np.concatenate([data.shards[i][1] for i in range(4)])
    exact = np.linalg.solve(X.T @ X / len(y) + 1e-4 / 4 * np.eye(5), X.T @ np.eye(3)[y.astype(int)] / len(y))
    wrong = float(np.mean(np.argmax(data.X_test @ exact, axis=1) != data.y_test))
    assert result.summary["references"]["pooled"] == wrong
    how: dict[str, Any] = {"seed": None, "test": shutil.copy(files["classes"], tmp_path / "t.npz"), "no_account": True}
    private = made(files, "classes", tmp_path / "own", "ssp", **how | {"test": str(how["test"])}).summary
    assert (private["mode"], private["references"]["pooled"]) == ("private", None)
    assert private["references"]["larger_class"] is not None
    poor = made(files, "classes", tmp_path / "poor", "ssp", epsilon=1e-3).summary()
    assert "that is no better than always the larger class" in poor
    assert "no better" not in result.summary()
    assert "always the larger class" in result.summary()


def test_a_saved_model_of_classes(files: dict[str, str], learned: Learned) -> None:
    result, own = learned["classes", "noisy-gd"][0], NewData(data=files["classes"])
    model = read_model(result.folder)
    facts, found = evaluate(model, own, part="test"), predict(model, own)
    for name in ("consensus", "macro"):
        assert facts["error"][name] == pytest.approx(result.summary["test_error"][name], rel=1e-12)
    table = np.array(facts["confusion"])
    assert 1.0 - np.trace(table) / table.sum() == pytest.approx(facts["error"]["consensus"], rel=1e-12)
    assert found.prediction == tuple(NAMES[k] for k in np.argmax(found.probabilities, axis=1))
    np.testing.assert_array_equal(found.probability, found.probabilities.max(axis=1))
    real = read_model(learned["real", "noisy-gd"][0].folder)
    with pytest.raises(RequestError, match=r"learned three classes or more, and real\.npz has real targets"):
        evaluate(replace(real, classes=("a", "b", "c")), NewData(data=files["real"]), part="test")


METHODS = "learns two classes, and .* has real targets: take .*noisy-gd, ssp.*dp-sgd"


def test_who_does_not_learn_a_task_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    for algorithm, loss, task, told in (
        ("pp-admm", "huber", "real", METHODS),
        ("admm", "squared", "real", METHODS),
        ("song-sgd", "squared", "real", METHODS),
        ("noisy-gd", "logistic", "real", "loss = 'logistic' does not learn .*take huber"),
        ("noisy-gd", "logistic", "classes", "loss = 'logistic' does not learn .*take softmax"),
        ("dp-sgd", "logistic", "real", "loss = 'logistic' does not learn .*take squared"),
    ):
        with pytest.raises(RequestError, match=told):
            made(files, task, tmp_path / "run", algorithm, loss=loss, topology=None)
    assert not (tmp_path / "run").exists()


# what a run returns: figures that are never better than they are, text that is no markup, pictures, ledgers

HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def result(people: str, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run(small(people, tmp_path_factory.mktemp("result") / "run", topology="ring:5", seed=0))


def changed(result: RunResult, *, name: str = "census", **privacy: float) -> RunResult:
    summary = json.loads(json.dumps(result.summary))
    summary["privacy"].update(privacy)
    summary["data"]["name"] = name
    return RunResult(result.folder, RunSummary(summary, result.folder), result.theta)


def test_no_figure_looks_better_than_it_is_and_text_is_no_markup(result: RunResult) -> None:
    found = changed(result, name=HOSTILE, epsilon_proven=0.77770001, epsilon_spent=0.99482411)
    page = found._repr_html_()
    for shown in (repr(found), page):
        assert re.findall(r"epsilon_(?:proven|spent)\D+([0-9.]+)", shown) == ["0.7778", "0.9949"]
    assert "worst case: epsilon 0.7778 a record" in found.summary()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)" in page
    assert str(result.folder) in page
    squared = RunSummary({**result.summary, "metric": "mean-squared-error"}, result.folder)
    error = result.summary["test_error"]["consensus"]
    assert f"test_error={error:.2%}" in repr(result)
    assert f"test_error={error:.4g}" in repr(RunResult(result.folder, squared, result.theta))  # is no share


def test_ledgers_frame_and_picture(result: RunResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [ledger.header["agent"] for ledger in result.ledgers] == [0, 1, 2, 3, 4]
    assert result.theta.shape == (5, result.summary["data"]["features"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RequestError, match=r"pip install 'admmnet\[frames\]'"):
        result.to_dataframe()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(read_csv=lambda path: path.read_text().count("\n")))
    assert result.to_dataframe() == 1 + 3 * 6  # a head, and a row an agent and round
    pytest.importorskip("matplotlib")
    figure = result.plot(tmp_path / "a.png", panels="error, privacy")
    assert [axes.get_ylabel() for axes in figure.axes] == ["test error in %", "epsilon spent"]
    assert (tmp_path / "a.png").is_file()
    with pytest.raises(RequestError, match="panel 'errors' is not one of error,"):
        result.plot(panels="errors")


ROWS = np.random.default_rng(5).normal(size=(400, 3))
UP = ROWS @ [1.0, -2.0, 0.5] > 0.0


def test_new_rows_in_memory(tmp_path: Path) -> None:
    """Two forms of the same records: labels come back as they were given, and scores are those of the model."""
    common: dict[str, Any] = {"agents": 2, "seed": 0, "epsilon": 100.0, "no_test": True, "algorithm": "noisy-gd"}
    numbers = run(X=ROWS, y=np.where(UP, 1, -1), out=tmp_path / "numbers", **common)
    said = numbers.predict(ROWS)
    assert ((said > 0) == (ROWS @ numbers.model.consensus[:3] + numbers.model.consensus[3] > 0)).all()
    assert numbers.score(ROWS, np.where(UP, 1, -1)) == np.mean(said == np.where(UP, 1, -1)) > 0.9
    assert (numbers.predict(csr_array(ROWS), agent=1) == numbers.predict(ROWS, agent=1)).all()
    with pytest.raises(RequestError, match="y is missing: give the labels of X"):
        numbers.score(ROWS, None)
    with pytest.raises(RequestError, match="X has 2 columns, expected 3"):
        numbers.predict(ROWS[:, :2])
    pd, words = pytest.importorskip("pandas"), np.where(UP, "up", "down").astype(object)
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    unnamed = run(X=frame, y=np.where(UP, 1, -1), out=tmp_path / "unnamed", **common)
    assert unnamed.score(frame, np.where(UP, 1, -1)) == numbers.score(ROWS, np.where(UP, 1, -1))
    named = run(data=frame.assign(way=words), label="way", out=tmp_path / "frame", **common)
    assert set(named.predict(frame)) == {"down", "up"}
    assert named.score(frame, words) == np.mean(named.predict(frame) == words) > 0.9
    with pytest.raises(RequestError, match="has no column 'c'"):
        named.predict(frame[["a", "b"]])


def test_the_score_of_targets_is_r_squared(tmp_path: Path) -> None:
    y = ROWS[:, 0] - ROWS[:, 1]
    common: dict[str, Any] = {"agents": 2, "seed": 0, "no_test": True, "epsilon": 1000.0, "out": tmp_path / "run"}
    result = run(X=ROWS, y=y, algorithm="ssp", task="real", schema={"targets": [-5, 5]}, **common)
    rest = float(np.sum((result.predict(ROWS) - y) ** 2) / np.sum((y - y.mean()) ** 2))
    assert result.score(ROWS, y) == pytest.approx(1.0 - rest, rel=1e-9)
    assert rest < 0.5
