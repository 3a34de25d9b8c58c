"""Local training with ADMM, replayed from eqs. (121), (122) of docs/methods.md with messages of their own for z."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, read_run
from admmnet.errors import RequestError
from admmnet.graph import network_of
from admmnet.holder.answers import Released
from admmnet.methods.agent import Agent, AgentPlan, Contact
from admmnet.methods.base import Facts
from admmnet.methods.lt_admm import LTADMM
from admmnet.privacy.events import Gaussian
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Vector

from .recording import SEED, SIZE, play, shards_of
from .reference import sigmoid

SPLIT = "sizes:3:9:3:2:6"


@pytest.mark.parametrize("settings", [{}, {"local_steps": 2, "penalty": 0.4, "edge_step": 0.3, "regularisation": 0.1}])
def test_replayed_with_explicit_messages(settings: dict[str, Any], problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": "lt-admm", "loss": "logistic", "split": SPLIT, "rounds": 6, "epsilon": 8.0}
    _, plan, said = play(problem, tmp_path / "run", **words, **settings)
    shards, graph, config = shards_of(problem, 5, SPLIT), plan.graph, plan.config
    streams = {i: AgentStreams(i, SEED) for i in range(5)}
    tau, rho, step = config.local_steps, config.penalty, float(config.step_size)
    beta, r = float(config.edge_step), settings.get("regularisation", 0.0)
    if not settings:
        assert beta == pytest.approx(0.5 / (tau * rho * max(graph.degree(i) for i in graph)))
    total = sum(len(y) for _, y in shards.values())
    theta = np.zeros((5, SIZE))
    z = {(i, j): np.zeros(SIZE) for i in graph for j in graph[i]}
    for spoken in said:
        new = theta.copy()
        for i, (X, y) in shards.items():
            pull = rho * graph.degree(i) * theta[i] - sum(z[i, j] for j in graph[i])
            for _ in range(tau):
                b = plan.agents[i].noise * streams[i][Purpose.OBJECTIVE].standard_normal(SIZE)
                noisy = X.T @ (-y * sigmoid(-y * (X @ new[i]))) / len(y) + b
                noisy = np.rint(noisy / grid(plan.agents[i].noise)) * grid(plan.agents[i].noise)
                new[i] = new[i] - step * (len(y) * 5 / total * noisy + r * new[i]) - beta * pull
        for i, vector in spoken.items():
            assert vector is not None
            np.testing.assert_allclose(vector, new[i], rtol=0, atol=1e-9)
            new[i] = vector
        theta = new
        messages = {(j, i): z[j, i] - 2.0 * rho * theta[j] for j, i in z}
        z = {(i, j): 0.5 * (z[i, j] - messages[j, i]) for i, j in z}
    for book in read_run(tmp_path / "run").ledgers.values():
        assert [round for round, _, _ in book.events] == [t for t in range(6) for _ in range(tau)]
        assert all(isinstance(event, Gaussian) for _, event, _ in book.events)
    summary = read_run(tmp_path / "run").summary
    assert summary is not None
    assert 7.99 < summary["privacy"]["epsilon_proven"] <= 8.0


def grid(sigma: float) -> float:
    return float(2.0 ** (np.floor(np.log2(sigma)) - 20))


def said_by(method: LTADMM, agent: Agent, draw: Callable[[], Vector]) -> Vector:
    """Propose with these answers."""
    steps = method.propose(agent, 0)
    next(steps)
    try:
        while True:
            steps.send(Released(draw(), None))
    except StopIteration as done:
        found: Vector = done.value
    return found


def test_both_ends_of_an_edge_agree_whatever_is_lost() -> None:
    """What i holds of z_ij and z_ji is what j holds of them: by acknowledgements alone."""
    graph, rng = network_of("ring:5", agents=None, seed=0), np.random.default_rng(3)
    config = RunConfig(algorithm="lt-admm", loss="logistic", rounds=9, drop=0.3)
    counts = dict.fromkeys(graph, 50)
    method = LTADMM(config.sections.method, Facts(graph, counts, 3, dict.fromkeys(counts, 0.1)))
    agents = [method.agent(i, AgentPlan(noise=0.1)) for i in graph]
    for _ in range(9):
        here = {edge: rng.random() < 0.8 for edge in graph.edges}
        comes = {(i, j): rng.random() < 0.6 and here[min(i, j), max(i, j)] for i in graph for j in graph[i]}
        said: dict[int, Vector] = {}
        for i, agent in enumerate(agents):
            around = agent.neighbours
            masks = (
                [here[min(i, j), max(i, j)] for j in around],
                [comes[i, j] for j in around],
                [comes[j, i] for j in around],
            )
            agent.contact = Contact(*map(np.array, masks))
            said[i] = said_by(method, agent, lambda: rng.standard_normal(3))
        for i, agent in enumerate(agents):
            method.absorb(agent, said[i], {j: said[j] for j in agent.neighbours if comes[j, i]})
    for i, j in graph.edges:
        one, two = (agents[a].state for a in (i, j))
        row, back = agents[i].neighbours.index(j), agents[j].neighbours.index(i)
        assert np.array_equal(one.z[row], two.other[back])
        assert np.array_equal(one.other[row], two.z[back])
        assert one.z[row].any()


def run_away(share: float) -> LTADMM:
    """On a ring of four, s = ``share`` 4/3."""
    graph = network_of("ring:4", agents=None, seed=0)
    config = RunConfig(algorithm="lt-admm", loss="logistic", rounds=400, edge_step=share / 0.6, epsilon=8.0)
    counts = dict.fromkeys(graph, 50)
    return LTADMM(config.sections.method, Facts(graph, counts, 1, dict.fromkeys(counts, 0.1)))


def largest(method: LTADMM) -> float:
    """Largest vector after 400 rounds without gradients, from opposite vectors of neighbours."""
    agents = [method.agent(i, AgentPlan(noise=0.1)) for i in range(4)]
    for i, agent in enumerate(agents):
        agent.state.theta = np.array([(-1.0) ** i])
    for _ in range(400):
        said = [said_by(method, agent, lambda: np.zeros(1)) for agent in agents]
        for i, agent in enumerate(agents):
            method.absorb(agent, said[i], {j: said[j] for j in agent.neighbours})
    return max(abs(float(vector[0])) for vector in said)


def test_an_edge_step_that_runs_away_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert largest(run_away(0.98)) < 0.05
    for share in (1.0, 1.02):
        with pytest.raises(RequestError, match=r"lets the vectors run away.*must be below 1.67"):
            run_away(share)
    monkeypatch.setattr("admmnet.methods.lt_admm.STABLE", 2.0)
    assert largest(run_away(1.02)) > 100.0
    with pytest.raises(RequestError, match=r"gossip_steps = 2 does not go with .*lt-admm.*, but with dp-dsgd"):
        RunConfig(algorithm="lt-admm", gossip_steps=2)
