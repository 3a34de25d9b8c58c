"""metrics.csv and the summary against the formulas, and how much of the figures a process copies."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import run
from admmnet.holder import Door, Holder
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import get_loss
from admmnet.transport.local import LocalWorld
from tests.people_runs import small, write_people

AGENTS, ROUNDS, WIDTH = 3, 3, 4


@pytest.mark.parametrize("answer", ["last", "average"])
def test_figures_are_those_of_the_formulas(answer: str, tmp_path: Path) -> None:
    """Eqs. (1), (61): (lambda/N) ||theta||^2 / 2 beside the mean loss; an answer changes the summary alone."""
    stream = np.random.default_rng(0)
    X = stream.standard_normal((90, WIDTH))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] + 0.3 * stream.standard_normal(90) > 0.0, 1, -1)
    shards = [(X[i::AGENTS], y[i::AGENTS]) for i in range(AGENTS)]
    how: dict[str, Any] = {"algorithm": "pp-admm", "loss": "logistic", "regularisation": 0.1, "epsilon": 20.0}
    how |= {"shards": shards, "test": (X, y), "scaled": True, "graph": nx.path_graph(AGENTS), "seed": 0}
    result = run(**how, rounds=ROUNDS, answer=answer, out=tmp_path / answer)
    last = result if answer == "last" else run(**how, rounds=ROUNDS, answer="last", out=tmp_path / "last")
    theta = last.theta
    mean = theta.mean(axis=0)

    def loss(vector: Any, rows: Any, labels: Any) -> float:
        return float(np.log1p(np.exp(-labels * (rows @ vector))).mean())

    def objective(vector: Any, agent: int) -> float:
        return loss(vector, *shards[agent]) + 0.1 / AGENTS * float(vector @ vector) / 2

    with (tmp_path / answer / "metrics.csv").open(encoding="utf-8") as file:
        network, *agents = list(csv.DictReader(file))[-1 - AGENTS :]
    gaps = np.linalg.norm(theta - mean, axis=1)
    for i, row in enumerate(agents):
        found = [float(row[name]) for name in ("train_loss", "objective", "consensus_gap")]
        assert found == pytest.approx([loss(theta[i], *shards[i]), objective(theta[i], i), gaps[i]])
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


def test_one_process_makes_no_copy_of_its_agents_figures_and_equal_ones_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def gather(world: LocalWorld, value: Any, topic: str = "ready") -> list[Any]:
        told.append(value)
        return [json.loads(json.dumps(value))]

    monkeypatch.setattr(LocalWorld, "gather", gather)
    people = write_people(tmp_path / "people.npz")
    entries = run(small(people, tmp_path / "run", topology="ring:3", no_test=True, seed=0)).summary["per_agent"]
    assert not [value for value in told if isinstance(value, dict) and "digests" in value]
    assert entries[0]["epsilon_spent"] is not None
    assert len({id(entry["epsilon_spent"]) for entry in entries}) == 1


def test_agents_without_marks_share_that_they_have_none() -> None:
    holder, loss = Holder(np.eye(2), np.ones(2)), get_loss("logistic")
    ledger = MemoryLedger(Contract())
    doors = [Door(holder, 0, loss, ledger, AgentStreams(i, 0)) for i in (0, 1)]
    doors[0].marks |= {"one"}
    assert not doors[1].marks
    assert doors[1].marks is Door(holder, 0, loss, ledger, AgentStreams(2, 0)).marks
