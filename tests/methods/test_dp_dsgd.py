"""Decentralised noisy gradient descent, replayed from eqs. (24), (60), (108) of docs/methods.md."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import read_run
from admmnet.errors import RequestError
from admmnet.privacy.calibrate import Target
from admmnet.privacy.events import Gaussian, NoRecords, SubsampledGaussian
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Vector

from .recording import SEED, SIZE, shards_of
from .recording import play as recorded
from .reference import sigmoid

SPLIT = "sizes:3:9:3:2:6"
R = 1.0 + 1e-9


play = partial(recorded, algorithm="dp-dsgd", loss="logistic", split=SPLIT, rounds=6)


def metropolis(graph: nx.Graph) -> Vector:
    """W of eq. (24), its diagonal what is left to 1."""
    W = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1.0 / (1.0 + max(graph.degree(i), graph.degree(j)))
    return W + np.diag(1.0 - W.sum(axis=1))


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
def test_replayed_from_the_equations(settings: dict[str, Any], problem: Path, tmp_path: Path) -> None:
    _, plan, said = play(problem, tmp_path / "run", epsilon=8.0, **settings)
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
    for i, book in enumerate(read_run(tmp_path / "run").ledgers.values()):
        n, noise = len(shards[i][1]), plan.agents[i].noise
        moved, q = 2.0 * C / n * (R + 2e-5), round(share * n) / n
        assert [round for round, _, _ in book.events] == list(range(6))
        for t, event, _ in book.events:
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
    summary = read_run(tmp_path / "run").summary
    assert summary is not None
    assert 7.99 < summary["privacy"]["epsilon_proven"] <= 8.0
    assert summary["privacy"]["adjacency"] == "replace-one"
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
