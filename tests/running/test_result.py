"""What a run returns: figures that are never better than they are, text that is no markup, pictures, ledgers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from admmnet import RequestError, RunResult, run
from admmnet.library import RunSummary
from tests.people_runs import small

HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def result(people: str, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run(small(people, tmp_path_factory.mktemp("result") / "run", topology="ring:5", seed=0))


def changed(result: RunResult, *, name: str = "census", **privacy: float) -> RunResult:
    summary = json.loads(json.dumps(result.summary))
    summary["privacy"].update(privacy)
    summary["data"]["name"] = name
    return RunResult.of(result.folder, summary, result.theta)


def test_no_spent_epsilon_looks_smaller_than_it_is(result: RunResult) -> None:
    found = changed(result, epsilon_proven=0.77770001, epsilon_spent=0.99482411)
    for shown in (repr(found), found._repr_html_()):
        assert re.findall(r"epsilon_(?:proven|spent)\D+([0-9.]+)", shown) == ["0.7778", "0.9949"]
    assert "worst case: epsilon 0.7778 a record" in found.summary()


def test_a_squared_error_is_no_share(result: RunResult) -> None:
    summary = RunSummary({**result.summary, "metric": "mean-squared-error"}, result.folder)
    squared = RunResult(result.folder, summary, result.theta)
    error = result.summary["test_error"]["consensus"]
    assert (f"test_error={error:.2%}" in repr(result), f"test_error={error:.4g}" in repr(squared)) == (True, True)


def test_a_notebook_shows_text_and_no_markup(result: RunResult) -> None:
    shown = changed(result, name=HOSTILE)._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)" in shown
    assert str(result.folder) in shown


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
