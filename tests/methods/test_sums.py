"""noisy-gd and ssp: without noise they are the pooled methods, whatever the split, and they spend the promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunResult, run
from admmnet.cli import run_command_line
from admmnet.data.loading import load
from admmnet.data.settings import DataSettings
from admmnet.privacy.conversion import gaussian_mu
from admmnet.solvers.losses import get_loss
from admmnet.types import Matrix, Vector
from tests.people_runs import write_people

QUIET = 1e6
"""Epsilon at which noise is far below what tests compare."""


@pytest.fixture
def people(tmp_path: Path) -> str:
    return write_people(tmp_path / "people.npz", 400, width=5)


def go(people: str, out: Path, **others: Any) -> RunResult:
    given: dict[str, Any] = {
        "algorithm": "noisy-gd",
        "topology": "ring:4",
        "epsilon": QUIET,
        "seed": 0,
        "whiten": "off",
    }
    return run(data=people, out=str(out), **given | others)


def pooled(people: str) -> tuple[Matrix, Vector]:
    return load(DataSettings(data=people), 1, [0]).shards[0]


def descended(X: Matrix, y: Vector, loss: Any, step: float, rounds: int, ridge: float = 0.0) -> Vector:
    """Nesterov's accelerated descent on all records, as eq. (74) without noise."""
    theta = point = np.zeros(X.shape[1])
    for t in range(rounds):
        after = point - step * (X.T @ loss.derivative(X @ point, y) / len(y) + ridge * point)
        theta, point = after, after + t / (t + 3) * (after - theta)
    return theta


@pytest.mark.parametrize("split", ["iid", "dirichlet:0.3", "sizes:1:2:4:8"])
def test_without_noise_it_is_descent_on_all_records_whatever_the_split(people: str, tmp_path: Path, split: str) -> None:
    result = go(people, tmp_path / "run", rounds=20, split=split)
    X, y = pooled(people)
    wanted = descended(X, y, get_loss("smoothed-hinge", 1.0), 2.0, 20)
    np.testing.assert_allclose(result.theta, np.broadcast_to(wanted, (4, 6)), atol=2e-3)


def test_regularisation_and_step_are_those_asked_for(people: str, tmp_path: Path) -> None:
    result = go(people, tmp_path / "run", rounds=15, loss="logistic", regularisation=0.1, step_size=1.5)
    wanted = descended(*pooled(people), get_loss("logistic"), 1.5, 15, 0.1)
    np.testing.assert_allclose(result.theta[0], wanted, atol=2e-3)


def test_moments_give_ridge_regression(people: str, tmp_path: Path) -> None:
    result = go(people, tmp_path / "run", algorithm="ssp", regularisation=0.01)
    X, y = pooled(people)
    wanted = np.linalg.solve(X.T @ X + 0.01 * len(y) * np.eye(6), X.T @ y)
    np.testing.assert_allclose(result.theta, np.broadcast_to(wanted, (4, 6)), atol=2e-3)
    assert result.summary["rounds"] == 1


@pytest.mark.parametrize("algorithm", ["noisy-gd", "ssp"])
def test_every_agent_spends_its_own_promise_and_all_hold_one_model(people: str, tmp_path: Path, algorithm: str) -> None:
    promised = {0: 0.5, 1: 1.0, 2: 2.0, 3: 1.0}
    table = {str(i): {"epsilon": epsilon} for i, epsilon in promised.items()}
    result = go(people, tmp_path / "run", algorithm=algorithm, epsilon=1.0, budgets=table, delta=1e-4)
    assert (result.theta == result.theta[0]).all()
    assert result.theta.any()
    for i, epsilon in promised.items():
        own = result.summary["per_agent"][i]
        assert epsilon * (1 - 1e-4) < own["epsilon_proven"] <= epsilon
        lines = (tmp_path / f"run/ledger/agent-00{i}.jsonl").read_text().splitlines()
        charges = [line for line in map(json.loads, lines) if line.get("mechanism") == "discrete-gaussian"]
        assert len(charges) == result.summary["rounds"]
        spent = sum((event["sensitivity"] / event["sigma"]) ** 2 for event in (c["parameters"] for c in charges))
        limit = gaussian_mu(epsilon, 1e-4) ** 2
        assert limit * (1 - 1e-3) < spent <= limit
    assert run_command_line(("ledger", "verify", str(tmp_path / "run"))) == 0


def test_little_left_on_an_account_has_a_grid(people: str, tmp_path: Path) -> None:
    """What (P5) leaves at a raised epsilon is many times what (19) says."""
    for epsilon in (9.0, 9.1):
        how: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "seed": None, "simulate": True, "rounds": 2}
        result = go(people, tmp_path / f"run{epsilon}", account=str(tmp_path / "account"), **how)
        assert result.summary["privacy"]["account_epsilon_spent"] == pytest.approx(epsilon, rel=1e-3)
