"""metrics.csv and the summary against the formulas."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import run
from admmnet.running import observer

AGENTS, ROUNDS, WIDTH = 3, 3, 4


@pytest.mark.parametrize("answer", ["last", "average", "tail"])
def test_figures_are_those_of_the_formulas(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eqs. (1), (61): (lambda/N) ||theta||^2 / 2 beside N n_i / n mean losses; an answer changes the summary alone."""
    monkeypatch.setattr(observer, "SCORES", 200)  # those of two models at once
    stream = np.random.default_rng(0)
    X = stream.standard_normal((90, WIDTH))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] + 0.3 * stream.standard_normal(90) > 0.0, 1, -1)
    parts = (slice(0, 40), slice(40, 70), slice(70, 90))
    shards = [(X[part], y[part]) for part in parts]
    how: dict[str, Any] = {"algorithm": "pp-admm", "loss": "logistic", "regularisation": 0.1, "epsilon": 20.0}
    how |= {"shards": shards, "test": (X, y), "scaled": True, "graph": nx.path_graph(AGENTS), "seed": 0}
    result = run(**how, rounds=ROUNDS, answer=answer, out=tmp_path / answer)
    last = result if answer == "last" else run(**how, rounds=ROUNDS, answer="last", out=tmp_path / "last")
    theta = last.theta
    mean = theta.mean(axis=0)

    def loss(vector: Any, rows: Any, labels: Any) -> float:
        return float(np.log1p(np.exp(-labels * (rows @ vector))).mean())

    def objective(vector: Any, agent: int) -> float:
        weight = AGENTS * len(shards[agent][1]) / len(y)
        return weight * loss(vector, *shards[agent]) + 0.1 / AGENTS * float(vector @ vector) / 2

    with (tmp_path / answer / "metrics.csv").open(encoding="utf-8") as file:
        network, *agents = list(csv.DictReader(file))[-1 - AGENTS :]
    gaps = np.linalg.norm(theta - mean, axis=1)
    for i, row in enumerate(agents):
        found = [float(row[name]) for name in ("train_loss", "objective", "consensus_gap")]
        assert found == pytest.approx([loss(theta[i], *shards[i]), objective(theta[i], i), gaps[i]])
        assert float(row["test_error"]) == np.mean(y * (X @ theta[i]) <= 0.0)
        assert (row["releases"], row["bytes_sent"]) == (str(ROUNDS), str(8 * WIDTH * ROUNDS * (1 + (i == 1))))
    found = [float(network[name]) for name in ("train_loss", "objective", "consensus_gap")]
    assert found == pytest.approx([loss(mean, X, y), sum(objective(mean, i) for i in range(AGENTS)), gaps.max()])
    sent = 8 * WIDTH * ROUNDS * 4
    assert (network["releases"], network["bytes_sent"]) == (str(AGENTS * ROUNDS), str(sent))
    summary = result.summary
    # up the tree and down again: two numbers a coordinate over each of two edges
    assert summary["bytes_sent"] == sent + (answer == "average") * 4 * 2 * 8 * WIDTH
    model = result.theta.mean(axis=0)
    assert summary["train_loss"] == pytest.approx(loss(model, X, y))
    assert summary["test_error"]["consensus"] == np.mean(y * (X @ model) <= 0.0)
    errors = [np.mean(y * (X @ own) <= 0.0) for own in result.theta]
    assert [entry["test_error"] for entry in summary["per_agent"]] == errors
