"""Comparisons on three classes or more and on real targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.cli import run_command_line


@pytest.mark.parametrize("task", ["classes", "real"])
def test_methods_that_learn_the_task_are_compared(task: str, tmp_path: Path, capsys: Any) -> None:
    stream = np.random.default_rng(3)
    X = stream.standard_normal((300, 3))
    y: Any = np.argmax(X, axis=1) if task == "classes" else X[:, 0].clip(-2, 2)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    declared = "labels = [0, 1, 2]" if task == "classes" else "targets = [-2, 2]"
    (tmp_path / "run.toml").write_text(f"[data.schema]\nfeatures = 3\n{declared}\n", encoding="utf-8")
    words = ["compare", "--jobs", "1", str(tmp_path / "run.toml"), "--data", str(tmp_path / "rows.npz"), "--simulate"]
    words += ["--algorithms", "noisy-gd,ssp", "--epsilons", "20", "--seeds", "0:2", "--agents", "3"]
    assert run_command_line([*words, "--delta", "1e-3", "-o", str(tmp_path / "cmp")]) == 0
    told = capsys.readouterr().out
    assert "always the mean" in told if task == "real" else "always the larger class" in told
    assert ("test MSE" in told) == (task == "real")
