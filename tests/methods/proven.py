"""The proven PP-ADMM and IPP-ADMM in plain NumPy and SciPy, which replay a run with the same random numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import brentq

from admmnet import RunConfig, read_run, run
from admmnet.library import RunResult
from admmnet.methods.ipp_admm import Gate
from admmnet.methods.pp_admm import PerturbedNoise
from admmnet.rng import Purpose
from admmnet.running.entrance import Plan
from admmnet.types import Vector

from .recording import RecordingWorld, shards_of
from .reference import Local, Network, Streams, minimiser

BETA, SEED, SIZE, CLOSE, RADIUS = 1e-8, 11, 6, 1e-6, 5.0
Said = list[dict[int, Vector | None]]


def play(path: Path, folder: Path, **settings: Any) -> tuple[RunResult, Plan, Said]:
    """Run a seeded simulation on a path of five, whose ends have one neighbour and its middle two."""
    world, plans = RecordingWorld(), list[Plan]()
    values: dict[str, Any] = {"topology": "path:5", "seed": SEED, "beta": BETA, "loss": "logistic"}
    values |= {"answer": "last"} | settings
    config = RunConfig(data=str(path), out=str(folder), **values)
    result = run(config, world=world, on_start=plans.append)
    return result, plans[0], world.sent


def charges(folder: Path) -> list[list[tuple[int, Any]]]:
    """Round and event of every charge of every agent, from the ledgers."""
    return [[(round, event) for round, event, _ in book.events] for book in read_run(folder).ledgers.values()]


class ProvenNetwork(Network):
    """Eqs. (3), (4) with a self-term (p_i/2) ||theta - theta_i||^2 for every agent, and the weights (60)."""

    def __init__(
        self, path: Path, eta: float, regularisation: float, proximal: tuple[float, ...], split: str = "iid"
    ) -> None:
        super().__init__(shards_of(path, 5, split), nx.path_graph(5), eta, regularisation, weighted=True)
        self.proximal = proximal

    def convexity(self, i: int) -> float:
        return self.locals[i].share + 2 * self.eta * len(self.graph[i]) + self.proximal[i]

    def primal(self, i: int, b1: Vector) -> Vector:
        """Minimise (61) with w_i b1, in which b1 is the noise of the problem over w_i."""
        f, dual, own, p = self.locals[i], self.dual[i], self.theta[i], self.proximal[i]
        b1 = f.weight * b1
        midpoints = [(own + self.theta[j]) / 2 for j in self.graph[i]]

        def value(t: Vector) -> float:
            penalty = self.eta * sum(float((c - t) @ (c - t)) for c in midpoints)
            self_term = p / 2 * float((t - own) @ (t - own))
            return f.value(t) + 2 * float(dual @ t) + penalty + self_term + float(b1 @ t)

        def gradient(t: Vector) -> Vector:
            penalty = self.eta * np.sum([2 * (t - c) for c in midpoints], axis=0)
            return np.asarray(f.gradient(t) + 2 * dual + penalty + p * (t - own) + b1)

        def hessian(t: Vector) -> Any:
            return f.hessian(t) + (2 * self.eta * len(midpoints) + p) * np.eye(self.size)

        return minimiser(value, gradient, hessian, self.size)

    def around(self, i: int) -> Vector:
        """Average of the neighbours' last released vectors."""
        return np.asarray(np.mean([self.theta[j] for j in sorted(self.graph[i])], axis=0))


def fall(f: Local, center: Vector) -> float:
    """f(c) - min over the ball of f, the mean loss alone, by the root of the multiplier."""
    loss = Local(f.X, f.y, 0.0)

    def nearest(log_mu: float) -> Vector:
        mu = math.exp(log_mu)
        return minimiser(
            lambda t: loss.value(t) + mu / 2 * float((t - center) @ (t - center)),
            lambda t: loss.gradient(t) + mu * (t - center),
            lambda t: loss.hessian(t) + mu * np.eye(len(t)),
            len(center),
        )

    def outside(log_mu: float) -> float:
        return float(np.linalg.norm(nearest(log_mu) - center)) - RADIUS

    low = math.log(1e-9)
    best = low if outside(low) <= 0 else brentq(outside, low, math.log(10.0), xtol=1e-9)
    return loss.value(center) - loss.value(nearest(best))


class Replay:
    """The proven methods from docs/privacy.md secs. 3 and 4; noise is what the plan says."""

    def __init__(self, problem: Path, plan: Plan, threshold: float = -math.inf) -> None:
        agents = [plan.agents[i] for i in range(5)]
        self.network = ProvenNetwork(
            problem,
            agents[0].eta,
            float(plan.config.regularisation),
            tuple(agent.proximal for agent in agents),
            plan.config.split,
        )
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
        lead = fall(self.network.locals[i], self.network.around(i)) + noise - level
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
