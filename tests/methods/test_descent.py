"""dp-dsgd and lt-admm, replayed from eqs. (24), (60), (108), (121), (122) of docs/methods.md."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.errors import RequestError
from admmnet.graph import network_of
from admmnet.methods.base import Facts
from admmnet.methods.dp_dsgd import LTADMM
from admmnet.privacy.calibrate import Target
from admmnet.privacy.events import Gaussian, NoRecords, SubsampledGaussian
from admmnet.rng import AgentStreams, Purpose

from .recording import SEED, SIZE, charges, shards_of
from .recording import play as recorded
from .reference import metropolis, sigmoid

SPLIT = "sizes:3:9:3:2:6"
R = 1.0 + 1e-9


play = partial(recorded, algorithm="dp-dsgd", loss="logistic", split=SPLIT, rounds=6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clip_norm": 0.3, "regularisation": 0.2, "step_size": 0.7, "topology": "star:5"},
        {"sample_rate": 0.4, "clip_norm": 0.3, "split": "iid"},
        {"gossip_steps": 4, "regularisation": 0.2, "step_size": 0.7},
    ],
    ids=["whole", "clipped", "sampled", "mixed"],
)
def test_dp_dsgd_replayed_from_the_equations(settings: dict[str, Any], problem: Path, tmp_path: Path) -> None:
    result, plan, said = play(problem, tmp_path / "run", epsilon=8.0, **settings)
    shards, graph = shards_of(problem, 5, settings.get("split", SPLIT)), plan.graph
    W, streams = metropolis(graph), {i: AgentStreams(i, SEED) for i in range(5)}
    C, share = settings.get("clip_norm", 1.0), settings.get("sample_rate", 1.0)
    step, weight = float(plan.config.step_size), settings.get("regularisation", 0.0)
    total = sum(len(y) for _, y in shards.values())
    if "step_size" not in settings:
        largest = max(len(y) for _, y in shards.values()) * 5 / total
        assert step == pytest.approx(min(1.0, 1.0 + np.linalg.eigvalsh(W)[0]) / (largest * 0.25))
    theta = np.zeros((5, SIZE))
    steps = settings.get("gossip_steps", 1)
    for t, spoken in enumerate(said):
        new = W @ theta
        for i, (X, y) in shards.items() if t % steps == 0 else ():
            n, own = len(y), streams[i]
            q = round(share * n) / n
            b = plan.agents[i].noise * own[Purpose.OBJECTIVE].standard_normal(SIZE)
            slopes = -y * sigmoid(-y * (X @ theta[i]))
            clipped = slopes * np.minimum(1.0, C / np.maximum(np.abs(slopes) * np.linalg.norm(X, axis=1), 1e-300))
            if q < 1.0:
                clipped = clipped * (own[Purpose.BATCH].random(n) < q)
            noisy = X.T @ clipped / n + b
            new[i] -= step * (n * 5 / total / q * noisy + weight * theta[i])
        for i, vector in spoken.items():
            assert vector is not None
            # released gradients lie on a grid of 2^-20 of their noise
            np.testing.assert_allclose(vector, new[i], rtol=0, atol=1e-4 * step * plan.agents[i].noise)
            new[i] = vector
        theta = new
    for i, book in enumerate(charges(tmp_path / "run")):
        n, noise = len(shards[i][1]), plan.agents[i].noise
        moved, q = 2.0 * C / n * (R + 2e-5), round(share * n) / n
        assert [round for round, _ in book] == list(range(6))
        for t, event in book:
            if t % steps:
                assert isinstance(event, NoRecords)
            elif q < 1.0:
                assert isinstance(event, SubsampledGaussian)
                assert (event.rate, event.steps, event.sampling) == (q, 1, "fixed")
                assert event.noise_multiplier == pytest.approx(noise / moved, rel=1e-12)
            else:
                assert isinstance(event, Gaussian)
                assert event.sigma == noise
                assert event.sensitivity == pytest.approx(moved, rel=1e-12)
    assert 7.99 < result.summary["privacy"]["epsilon_proven"] <= 8.0
    assert result.summary["privacy"]["adjacency"] == "replace-one"
    if share < 1.0:  # less noise on a sum over fewer records, more on the mean over those drawn
        _, whole, _ = play(problem, tmp_path / "whole", epsilon=8.0, **settings | {"sample_rate": 1.0})
        assert share < plan.agents[0].noise / whole.agents[0].noise < 0.9


def test_a_clip_that_rounding_drowns_is_refused_before_the_run(problem: Path, tmp_path: Path) -> None:
    told = "clip_norm = 1e-09 drowns in rounding: over 118 records of 6 features it must be above "
    with pytest.raises(RequestError, match=told) as caught:
        play(problem, tmp_path / "run", epsilon=8.0, clip_norm=1e-9)
    assert not (tmp_path / "run").exists()
    least = float(str(caught.value).removeprefix(told))
    play(problem, tmp_path / "run", epsilon=8.0, clip_norm=1.05 * least, rounds=1)
    with pytest.raises(RequestError, match="clip_norm"):
        play(problem, tmp_path / "other", epsilon=8.0, clip_norm=0.9 * least)


def test_rounds_follow_the_noise(problem: Path, tmp_path: Path) -> None:
    """Eq. (109): T eta c1 = (Q / s)^(2/3), s the noise of a mean gradient over sqrt(T)."""
    for epsilon in (0.5, 4.0):
        _, plan, _ = play(problem, tmp_path / str(epsilon), epsilon=epsilon, rounds="auto", split="iid")
        rho = Target(*plan.config.budget_of(0)).nominal_rho()
        s = 2.0 / sum(plan.data.counts.values()) * math.sqrt(SIZE * 5 / (2.0 * rho))
        length = float(plan.config.step_size) * 0.25
        assert plan.config.rounds == round(min(500, max(10, (50.0 / s) ** (2.0 / 3.0) / length)))


# lt-admm


@pytest.mark.parametrize("settings", [{}, {"local_steps": 2, "penalty": 0.4, "edge_step": 0.3, "regularisation": 0.1}])
def test_lt_admm_replayed_with_explicit_messages(settings: dict[str, Any], problem: Path, tmp_path: Path) -> None:
    result, plan, said = play(problem, tmp_path / "run", algorithm="lt-admm", epsilon=8.0, **settings)
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
                grid = 2.0 ** (np.floor(np.log2(plan.agents[i].noise)) - 20)
                noisy = np.rint(noisy / grid) * grid
                new[i] = new[i] - step * (len(y) * 5 / total * noisy + r * new[i]) - beta * pull
        for i, vector in spoken.items():
            assert vector is not None
            np.testing.assert_allclose(vector, new[i], rtol=0, atol=1e-9)
            new[i] = vector
        theta = new
        messages = {(j, i): z[j, i] - 2.0 * rho * theta[j] for j, i in z}
        z = {(i, j): 0.5 * (z[i, j] - messages[j, i]) for i, j in z}
    for book in charges(tmp_path / "run"):
        assert [round for round, _ in book] == [t for t in range(6) for _ in range(tau)]
        assert all(isinstance(event, Gaussian) for _, event in book)
    assert 7.99 < result.summary["privacy"]["epsilon_proven"] <= 8.0


@pytest.mark.parametrize("share", [0.98, 1.0, 1.02])
def test_an_edge_step_that_runs_away_is_refused(share: float) -> None:
    """On a ring of four, s = ``share`` 4/3: where neighbours have opposite vectors, (121), (122) are of two numbers."""
    graph = network_of("ring:4", agents=None, seed=0)
    own: Any = RunConfig(algorithm="lt-admm", edge_step=share / 0.6, epsilon=8.0).sections.method
    s, rho = 2.0 * own.local_steps * own.penalty * own.edge_step, own.penalty
    grows = np.abs(np.linalg.eigvals([[1.0 - s, s / rho], [-rho * (1.0 - s), 1.0 - s]])).max()
    assert grows == pytest.approx(1.0) if share == 1.0 else bool(grows > 1.0) is (share > 1.0)
    refused = pytest.raises(RequestError, match=r"lets the vectors run away.*must be below 1.67")
    with refused if share >= 1.0 else nullcontext():
        LTADMM(own, Facts(graph, dict.fromkeys(graph, 50), 1, dict.fromkeys(graph, 0.1)))
