"""noisy-gd and ssp: without noise they are the pooled methods, whatever the split, and they spend the promise."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, RunResult, run
from admmnet.cli import run_command_line
from admmnet.data.loading import load
from admmnet.data.settings import DataSettings
from admmnet.methods import fixed
from admmnet.methods.base import Facts
from admmnet.methods.noisy_sums import NoisyGD
from admmnet.privacy.calibrate import Target
from admmnet.privacy.conversion import gaussian_mu
from admmnet.solvers.losses import get_loss
from admmnet.types import Total, Vector


def go(people: str, out: Path, **others: Any) -> RunResult:
    """At an epsilon at which noise is far below what tests compare."""
    given: dict[str, Any] = {"algorithm": "noisy-gd", "topology": "ring:4", "epsilon": 1e6, "seed": 0, "whiten": "off"}
    return run(data=people, out=str(out), **given | others)


def descended(people: str, loss: Any, step: float, rounds: int, ridge: float = 0.0) -> Vector:
    """Nesterov's accelerated descent on all records, as eq. (74) without noise."""
    X, y = load(DataSettings(data=people), 1, [0]).shards[0]
    theta = point = np.zeros(X.shape[1])
    for t in range(rounds):
        after = point - step * (X.T @ loss.derivative(X @ point, y) / len(y) + ridge * point)
        theta, point = after, after + t / (t + 3) * (after - theta)
    return theta


@pytest.mark.parametrize(
    ("split", "words", "how"),
    [
        ("iid", {}, (get_loss("smoothed-hinge", 1.0), 2.0, 20)),
        ("sizes:1:2:4:8", {}, (get_loss("smoothed-hinge", 1.0), 2.0, 20)),
        (
            "dirichlet:0.3",
            {"loss": "logistic", "regularisation": 0.1, "step_size": 1.5},
            (get_loss("logistic"), 1.5, 20, 0.1),
        ),
    ],
    ids=["iid", "sizes", "asked for"],
)
def test_without_noise_it_is_descent_on_all_records(
    split: str, words: dict[str, Any], how: Any, people: str, tmp_path: Path
) -> None:
    result = go(people, tmp_path / "run", rounds=20, split=split, **words)
    np.testing.assert_allclose(result.theta, np.broadcast_to(descended(people, *how), (4, 6)), atol=2e-3)


def small() -> NoisyGD:
    config = fixed(RunConfig(algorithm="noisy-gd", rounds=3, step_size=2.0, delta=1e-4).sections.method)
    return NoisyGD(config, Facts(nx.path_graph(3), {0: 10, 1: 20, 2: 70}, 2, dict.fromkeys(range(3), 0.1)))


def test_a_plan_counts_all_noisy_numbers_of_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sampling has to fit its share of delta, (P11)."""
    asked = list[int]()

    def left(target: Target, numbers: int) -> float:
        asked.append(numbers)
        return 0.1

    monkeypatch.setattr("admmnet.methods.sums.gaussian_mu_left", left)
    assert small().plan(0, Target(1.0, 1e-4)).noise == 0.1 / math.sqrt(3)
    assert asked == [3 * 2]


def test_a_sum_is_divided_by_the_records_of_the_agents_in_it() -> None:
    method = small()
    agents = method.agents({0: method.planned(method.facts.counts[0], 0.1)})
    for void, members in ((True, (0, 1, 2)), (False, (0, 1)), (False, (0, 1, 2))):
        point, value = agents.own.point.copy(), np.array([3, -5])
        method.receive(agents, None if void else Total(value, members))
        records = {2: 30, 3: 100}[len(members)]
        step = 0.0 if void else 2.0 * method.grid * value / records
        np.testing.assert_allclose(agents.own.theta, point - step, rtol=1e-12)
    assert agents.own.steps == 2


def test_moments_give_ridge_regression(people: str, tmp_path: Path) -> None:
    result = go(people, tmp_path / "run", algorithm="ssp", regularisation=0.01)
    X, y = load(DataSettings(data=people), 1, [0]).shards[0]
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
        events = [line["parameters"] for line in map(json.loads, lines) if line.get("mechanism") == "discrete-gaussian"]
        assert len(events) == result.summary["rounds"]
        spent, limit = sum((own["sensitivity"] / own["sigma"]) ** 2 for own in events), gaussian_mu(epsilon, 1e-4) ** 2
        assert limit * (1 - 1e-3) < spent <= limit
    assert run_command_line(("ledger", "verify", str(tmp_path / "run"))) == 0


def test_little_left_on_an_account_has_a_grid(people: str, tmp_path: Path) -> None:
    """What (P5) leaves at a raised epsilon is many times what (19) says."""
    for epsilon in (9.0, 9.1):
        how: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "seed": None, "simulate": True, "rounds": 2}
        result = go(people, tmp_path / f"run{epsilon}", account=str(tmp_path / "account"), **how)
        assert result.summary["privacy"]["account_epsilon_spent"] == pytest.approx(epsilon, rel=1e-3)
