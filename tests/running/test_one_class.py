"""A model that gives every test record the same class is said to, wherever its figures are shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.data.figures import only_class
from admmnet.report.page import make_report
from admmnet.report.run_plot import plot_run
from tests.command_runs import Admmnet
from tests.report_pages import words_in

QUICK: dict[str, Any] = {"algorithm": "admm", "topology": "path:2", "rounds": 20, "schema": {"features": 2}}


def rows(path: Path, words: list[str], shares: list[float], signal: float) -> str:
    stream = np.random.default_rng(3)
    y = stream.choice(len(words), size=300, p=shares)
    X = stream.standard_normal((300, 2)) + signal * np.eye(len(words), 2)[y]
    np.savez(path, X=X, y=np.array(words)[y])
    return str(path)


def drawn(folder: Path) -> str:
    """Words around the panels of a run's picture."""
    return words_in(plot_run(folder))


@pytest.mark.parametrize(
    ("words", "shares", "said", "private"),
    [
        (["no", "yes"], [0.05, 0.95], "yes", False),
        (["no", "yes"], [0.95, 0.05], "no", True),
        (["a", "b", "c"], [0.05, 0.9, 0.05], "b", False),
    ],
)
def test_it_is_said(
    words: list[str], shares: list[float], said: str, private: bool, tmp_path: Path, admmnet: Admmnet
) -> None:
    file, test = (rows(tmp_path / f"{name}.npz", words, shares, 0.0) for name in ("train", "test"))
    given = {**QUICK, "schema": {"labels": words, "features": 2}, "data": file, "delta": 1e-3}
    given |= {"algorithm": "ssp", "epsilon": 50.0, "rounds": "auto"}
    given |= {"private": True, "no_account": True, "test": test} if private else {"seed": 0}
    result = run(RunConfig(**given, out=str(tmp_path / "run")))
    assert result.summary["test_error"]["one_class"] == said
    assert result.summary["test_error"]["consensus"] == result.summary["references"]["larger_class"]
    sentence = f"one class only: this model says {said!r} for every test record"
    assert sentence in result.summary()
    assert "no better than always the larger class" in result.summary()
    assert sentence in drawn(result.folder)
    html = make_report([result.folder]).html
    assert re.search(r'class="card alarm"(?:(?!class="card).)*one class only', html, re.DOTALL)
    assert admmnet.json("evaluate", result.folder, "--data", test)["one_class"] == said
    told = admmnet.ok("evaluate", result.folder, "--data", test).out
    assert f"one class only: this model says {said!r}" in told
    assert "no better than always giving the more frequent label" in told
    assert (
        f"note: one class only: this model says {said!r} for every row"
        in admmnet.ok("predict", result.folder, "--data", test).err
    )


def test_a_model_that_tells_classes_apart_is_not_said_to(tmp_path: Path, admmnet: Admmnet) -> None:
    file = rows(tmp_path / "train.npz", ["no", "yes"], [0.5, 0.5], 3.0)
    given = {**QUICK, "data": file, "schema": {"labels": ["no", "yes"], "features": 2}, "seed": 0}
    result = run(RunConfig(**given, out=str(tmp_path / "run")))
    assert "one_class" not in result.summary["test_error"]
    assert "one class" not in result.summary()
    assert "one class" not in make_report([result.folder]).html
    assert "one class" not in drawn(result.folder)
    assert "one class only" not in admmnet.ok("evaluate", result.folder, "--data", file, "--public").out
    assert "one class" not in admmnet.ok("predict", result.folder, "--data", file).err


def test_scores_of_no_rows_and_real_targets_have_no_class() -> None:
    assert only_class("binary", np.zeros(0), ("a", "b")) is None
    assert only_class("real", np.ones(3), ("a", "b")) is None
    assert only_class("binary", np.zeros(3), ("a", "b")) == "a"  # a score of 0 is no positive one
    assert only_class("classes", np.eye(3), ("a", "b", "c")) is None
