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

QUICK: dict[str, Any] = {"algorithm": "ssp", "topology": "path:2", "epsilon": 50.0, "delta": 1e-3}


def rows(path: Path, words: list[str], shares: list[float], signal: float) -> str:
    stream = np.random.default_rng(3)
    y = stream.choice(len(words), size=300, p=shares)
    X = stream.standard_normal((300, 2)) + signal * np.eye(len(words), 2)[y]
    np.savez(path, X=X, y=np.array(words)[y])
    return str(path)


@pytest.mark.parametrize(
    ("words", "shares", "said", "private"),
    [
        (["no", "yes"], [0.05, 0.95], "yes", False),
        (["no", "yes"], [0.95, 0.05], "no", True),
        (["a", "b", "c"], [0.05, 0.9, 0.05], "b", False),
        (["no", "yes"], [0.5, 0.5], None, False),
    ],
)
def test_it_is_said_where_it_holds(
    words: list[str], shares: list[float], said: str | None, private: bool, tmp_path: Path, admmnet: Admmnet
) -> None:
    file, test = (rows(tmp_path / f"{name}.npz", words, shares, 3.0 * (said is None)) for name in ("train", "test"))
    given = {**QUICK, "schema": {"labels": words, "features": 2}, "data": file}
    given |= {"private": True, "no_account": True, "test": test} if private else {"seed": 0}
    result = run(RunConfig(**given, out=str(tmp_path / "run")))
    found = result.summary["test_error"]
    assert found.get("one_class") == said
    assert (found["consensus"] == result.summary["references"]["larger_class"]) is (said is not None)
    sentence = f"one class only: this model says {said!r} for every "
    screens = [
        result.summary(),
        words_in(plot_run(result.folder)),
        admmnet.ok("evaluate", result.folder, "--data", test, "--public").out,
        admmnet.ok("predict", result.folder, "--data", test).err,
    ]
    assert {sentence in screen for screen in screens} == {"one class only" in screen for screen in screens}
    assert {sentence in screen for screen in screens} == {said is not None}
    assert ("no better than always the larger class" in result.summary()) is (said is not None)
    assert admmnet.json("evaluate", result.folder, "--data", test, "--public").get("one_class") == said
    alarm = r'class="card alarm"(?:(?!class="card).)*one class only'
    assert bool(re.search(alarm, make_report([result.folder]).html, re.DOTALL)) is (said is not None)


def test_scores_of_no_rows_and_real_targets_have_no_class() -> None:
    assert only_class("binary", np.zeros(0), ("a", "b")) is None
    assert only_class("real", np.ones(3), ("a", "b")) is None
    assert only_class("binary", np.zeros(3), ("a", "b")) == "a"  # a score of 0 is no positive one
    assert only_class("classes", np.eye(3), ("a", "b", "c")) is None
