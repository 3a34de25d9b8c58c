"""The proven PP-ADMM and IPP-ADMM in plain NumPy and SciPy, which replay a run with the same random numbers."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import brentq

from admmnet.methods.ipp_admm import Gate
from admmnet.methods.pp_admm import PerturbedNoise
from admmnet.rng import Purpose
from admmnet.running.plan import Plan
from admmnet.types import Vector

from .recording import SEED, SIZE, Said, shards_of
from .recording import play as recorded
from .reference import Local, Network, Streams, augmented

BETA, CLOSE, RADIUS = 1e-8, 1e-6, 5.0


play = partial(recorded, beta=BETA, loss="logistic")


def fall(f: Local, center: Vector) -> float:
    """f(c) - min over the ball of f, the mean loss alone, by the root of the multiplier."""
    loss = Local(f.X, f.y, 0.0)

    def nearest(log_mu: float) -> Vector:
        return augmented(loss, center, np.zeros(len(center)), 0.0, (), math.exp(log_mu))

    def outside(log_mu: float) -> float:
        return float(np.linalg.norm(nearest(log_mu) - center)) - RADIUS

    low = math.log(1e-9)
    best = low if outside(low) <= 0 else brentq(outside, low, math.log(10.0), xtol=1e-9)
    return loss.value(center) - loss.value(nearest(best))


class Replay:
    """The proven methods from docs/proofs.md secs. 3 and 4; noise is what the plan says."""

    def __init__(self, problem: Path, plan: Plan, threshold: float = -math.inf) -> None:
        agents = [plan.agents[i] for i in range(5)]
        shards, proximal = shards_of(problem, 5, plan.config.split), [agent.proximal for agent in agents]
        strength = agents[0].eta, float(plan.config.regularisation), proximal
        self.network = Network(shards, nx.path_graph(5), *strength, weighted=True)
        self.noise = [agent.noise for agent in agents]
        most = getattr(plan.config, "max_releases", plan.config.rounds)
        self.most = int(plan.config.rounds if most == "auto" else most)
        self.threshold = threshold
        self.streams = Streams(5, SEED)
        self.held: list[float | None] = [None] * 5
        self.spoke = [0] * 5
        self.events: list[list[tuple[int, str]]] = [[] for _ in range(5)]
        self.leads: list[float] = []  # by how much a noisy fall passed, in certified gaps

    def asks(self, i: int, round: int, gate: Gate) -> bool:
        streams = self.streams
        sensitivity = 2 * RADIUS / len(self.network.locals[i].y) + gate.gap  # Theorem 8
        if gate.sigma is not None:
            self.events[i].append((round, "gaussian"))
            level = self.threshold
            noise = float(streams.normal(i, Purpose.GATE, gate.sigma, 1)[0])
        else:
            held = self.held[i]
            if held is None:
                self.events[i].append((round, "above-threshold"))
                held = self.threshold + streams.laplace(i, sensitivity / gate.epsilon_threshold)
                self.held[i] = held
            level, noise = held, streams.laplace(i, 2 * sensitivity / gate.epsilon_query)
        around = np.mean([self.network.theta[j] for j in sorted(self.network.graph[i])], axis=0)
        lead = fall(self.network.locals[i], around) + noise - level
        self.leads.append(lead / gate.gap)
        if lead >= 0:
            self.held[i] = None
        return lead >= 0

    def speak(self, i: int, round: int) -> Vector | None:
        noise = self.noise[i]
        assert isinstance(noise, PerturbedNoise)
        if noise.gate is not None and (self.spoke[i] >= self.most or not self.asks(i, round, noise.gate)):
            return None
        b1 = np.zeros(SIZE)
        if noise.sigma1 is not None:
            b1 = self.streams.normal(i, Purpose.OBJECTIVE, noise.sigma1, SIZE)
            self.events[i].append((round, "objective-perturbation"))
        self.events[i].append((round, "gaussian"))
        self.spoke[i] += 1
        return self.network.primal(i, b1) + self.streams.normal(i, Purpose.OUTPUT, noise.sigma2, SIZE)

    def check(self, said: Said) -> None:
        for round, spoken in enumerate(said):
            released = {i: self.speak(i, round) for i in range(5)}
            for i, expected in released.items():
                vector, where = spoken[i], f"{round=} {i=}"
                assert (vector is None) == (expected is None), where
                if vector is not None and expected is not None:
                    close = CLOSE + self.noise[i].sigma2 * 2.0**-21  # half a step of the public grid
                    np.testing.assert_allclose(vector, expected, rtol=0, atol=close, err_msg=where)
            self.network.hear(spoken)


GATED: dict[str, Any] = {
    "algorithm": "ipp-admm",
    "rounds": 8,
    "epsilon": 120.0,
    "max_releases": 3,
    "gate_share": 0.5,
    "eta": 0.3,
}
