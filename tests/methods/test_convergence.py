"""Decentralised ADMM without noise: every step as printed, and the pooled optimum in the end."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from admmnet.data import DataSettings, load

from .recording import play as recorded
from .recording import shards_of
from .reference import Local, pooled_optimum

play = partial(recorded, topology="ring:5", method="published")


def test_ring_reaches_the_pooled_optimum(wider: Path, tmp_path: Path) -> None:
    settings = {"algorithm": "admm", "rounds": 250, "eta": 0.01, "regularisation": 0.01, "beta": 1e-12}
    result, *_ = play(wider, tmp_path / "run", **settings)
    locals_ = [Local(X, y, 0.01 / 5) for X, y in shards_of(wider, 5).values()]
    best = pooled_optimum(locals_, 8)
    optimum = sum(f.value(best) for f in locals_)
    for theta in (*result.theta, result.theta.mean(axis=0)):
        assert sum(f.value(theta) for f in locals_) - optimum <= 1e-8
        assert np.linalg.norm(theta - best) <= 1e-6
    with (tmp_path / "run" / "metrics.csv").open() as file:
        network = [row for row in csv.DictReader(file) if row["agent"] == "-1"]
    gaps = [float(row["consensus_gap"]) for row in network]
    assert gaps[-1] <= 1e-8
    assert gaps[-1] < 1e-5 * max(gaps)
    assert float(network[-1]["objective"]) == pytest.approx(optimum, abs=1e-8)
    assert float(network[0]["objective"]) > optimum + 1e-3


def test_people_come_close_to_the_pooled_optimum(tmp_path: Path) -> None:
    words = {"algorithm": "admm", "eta": 0.0003, "rounds": 200, "regularisation": 1e-6, "beta": 1e-8, "seed": 0}
    ours = play(Path("census"), tmp_path / "run", **words, answer="average").result.summary["test_error"]["consensus"]
    data = load(DataSettings(data="census"), 5, range(5))
    locals_ = [Local(X, y, 1e-6 / 5) for X, y in data.shards.values()]
    with threadpool_limits(limits=1):  # more threads than free cores are ten times slower
        best = pooled_optimum(locals_, data.X_test.shape[1])
    pooled = float(np.mean((data.X_test @ best > 0) != (data.y_test > 0)))
    assert abs(ours - pooled) <= 0.005
