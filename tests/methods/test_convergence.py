"""Decentralised ADMM without noise: every step as printed, and the pooled optimum in the end."""

from __future__ import annotations

import csv
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from admmnet import RunConfig, run
from admmnet.data import DataSettings, load
from tests.real_sets import folder_of

from .recording import play, shards_of, write_problem
from .reference import Local, Network, pooled_optimum


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("problem"), records=267, features=7)


def test_every_step_is_equations_3_and_4(problem: Path, tmp_path: Path) -> None:
    settings = {"algorithm": "admm", "rounds": 12, "eta": 0.07, "regularisation": 0.02, "beta": 1e-12}
    _, said = play(problem, tmp_path / "run", **settings)
    network = Network(shards_of(problem, 5), nx.cycle_graph(5), eta=0.07, regularisation=0.02)
    for round, spoken in enumerate(said):
        expected = {i: network.primal(i, np.zeros(8)) for i in range(5)}
        for i, vector in spoken.items():
            assert vector is not None
            np.testing.assert_allclose(vector, expected[i], rtol=0, atol=1e-10, err_msg=f"{round=} {i=}")
        network.hear(spoken)
    assert len(said) == 12


def test_ring_reaches_the_pooled_optimum(problem: Path, tmp_path: Path) -> None:
    settings = {"algorithm": "admm", "rounds": 250, "eta": 0.01, "regularisation": 0.01, "beta": 1e-12}
    result, _ = play(problem, tmp_path / "run", **settings)
    locals_ = [Local(X, y, 0.01 / 5) for X, y in shards_of(problem, 5).values()]
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


@pytest.mark.parametrize("name", ["census", "adult"])
def test_people_come_close_to_the_pooled_optimum(name: str, tmp_path: Path) -> None:
    folder = folder_of(name)
    config = RunConfig(
        algorithm="admm",
        method="published",
        data=name,
        data_dir=folder,
        topology="ring:5",
        eta=0.0003,
        rounds=200,
        regularisation=1e-6,
        beta=1e-8,
        transport="local",
        seed=0,
        out=str(tmp_path / "run"),
    )
    ours = run(config).summary["test_error"]["consensus"]
    data = load(DataSettings(data=name, data_dir=folder), 5, range(5))
    locals_ = [Local(X, y, 1e-6 / 5) for X, y in data.shards.values()]
    with threadpool_limits(limits=1):  # more threads than free cores are ten times slower
        best = pooled_optimum(locals_, data.X_test.shape[1])
    pooled = float(np.mean((data.X_test @ best > 0) != (data.y_test > 0)))
    print(f"test error on {name}: {ours:.4%} after 200 rounds, {pooled:.4%} pooled")  # noqa: T201
    assert abs(ours - pooled) <= 0.005
