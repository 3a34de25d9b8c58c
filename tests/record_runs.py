"""A small finished run of four agents, and its summary, for the tests of run folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig, run

AGENTS, ROUNDS = 4, 3


def write_data(folder: Path) -> Path:
    stream = np.random.default_rng(2)
    X = stream.standard_normal((90, 3))
    path = folder / "people.npz"
    np.savez(path, X=X, y=np.where(X[:, 0] + 0.3 * stream.standard_normal(90) > 0, 1, -1))
    return path


def finished_run(folder: Path) -> Path:
    """Folder of the run, made below the one given."""
    config = RunConfig(
        data=str(write_data(folder)),
        topology=f"star:{AGENTS}",
        algorithm="pp-admm",
        method="published",
        rounds=ROUNDS,
        seed=5,
        out=str(folder / "run"),
    )
    return run(config).folder


def summary_of(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return value
