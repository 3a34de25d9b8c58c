"""Secs. 2 to 6 of docs/methods.md, agent by agent: what is said in a run, from the same random numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from scipy.optimize import brentq

from admmnet.rng import Purpose
from admmnet.running.plan import Plan
from admmnet.types import Vector

from .recording import Spoken, shards_of
from .reference import C1, Local, Network, augmented

SPLIT, DELTA1 = 0.001, 1e-4
MOVES, INEXACT = 1.0 + 1e-9 + 2e-5, 1e-3


class Proven(Network):
    """PP-ADMM and IPP-ADMM from docs/proofs.md, secs. 3 and 4; noise is what the plan says."""

    def __init__(self, problem: Path, plan: Plan, threshold: float = -math.inf) -> None:
        agents = [plan.agents[i] for i in range(5)]
        shards, proximal = shards_of(problem, 5, plan.config.split), [agent.proximal for agent in agents]
        share = float(plan.config.regularisation)
        super().__init__(shards, plan.graph, agents[0].eta, share, proximal, weighted=True)
        self.noise: list[Any] = [agent.noise for agent in agents]
        most = getattr(plan.config, "max_releases", plan.config.rounds)
        self.most = int(plan.config.rounds if most == "auto" else most)
        self.threshold, self.spoke = threshold, [0] * 5
        self.held: list[float | None] = [None] * 5
        self.events: list[list[tuple[int, str]]] = [[] for _ in range(5)]
        self.leads: list[float] = []  # by how much a noisy norm passed

    def asks(self, i: int, round: int, gate: Any) -> bool:
        """Theorems 9, 22: the noisy norm of the Lagrangian's gradient, or against a held threshold."""
        f, level = self.locals[i], self.threshold
        sensitivity = 2 / len(f.y) * MOVES
        if not hasattr(gate, "epsilon_query"):
            self.events[i].append((round, "gaussian"))
            noise = float(self.streams.normal(i, Purpose.GATE, gate.sigma, 1)[0])
        else:
            held = self.held[i]
            if held is None:
                self.events[i].append((round, "above-threshold"))
                held = level + self.streams.laplace(i, sensitivity / gate.epsilon_threshold)
                self.held[i] = held
            level, noise = held, self.streams.laplace(i, 2 * sensitivity / gate.epsilon_query)
        centre = np.mean([self.theta[j] for j in self.around(i)], axis=0)
        pull = (2 * self.dual[i] + f.share * centre) / f.weight
        norm = float(np.linalg.norm(Local(f.X, f.y, 0.0).gradient(centre) + pull))
        self.leads.append(norm + noise - level)
        if self.leads[-1] >= 0:
            self.held[i] = None
        return self.leads[-1] >= 0

    def counts(self, i: int, j: int, said: Spoken) -> bool:
        """Where thresholds are held, an edge moves its duals when one of its ends spoke."""
        held = hasattr(self.noise[i].gate, "epsilon_query")
        return not held or said[i] is not None or said[j] is not None

    def say(self, i: int, round: int) -> Vector | None:
        noise = self.noise[i]
        if noise.gate is not None and (self.spoke[i] >= self.most or not self.asks(i, round, noise.gate)):
            return None
        b1: Any = 0.0
        if noise.sigma1 is not None:
            b1 = self.objective(i, noise.sigma1)
            self.events[i].append((round, "objective-perturbation"))
        self.events[i].append((round, "gaussian"))
        self.spoke[i] += 1
        return self.primal(i, b1) + self.output(i, noise.sigma2)

    def close(self, i: int) -> float:
        """Half a step of the public grid, and the solves' tolerance."""
        return float(1e-6 + self.noise[i].sigma2 * 2.0**-21)


class Published(Network):
    """PP-ADMM and IPP-ADMM as printed, (8) to (15), at rho_total = epsilon^2 / (4 ln(1/delta)), on a ring."""

    def __init__(self, problem: Path, beta: float, words: dict[str, Any]) -> None:
        shards = shards_of(problem, 5)
        self.n = [len(shards[i][1]) for i in range(5)]
        self.beta, self.gated = beta, "max_releases" in words
        self.releases, share = words.get("max_releases", words["rounds"]), words.get("gate_share", 0.0)
        self.clip, self.threshold = words.get("loss_clip", 0.0), words.get("gate_threshold", 0.0)
        total = words["epsilon"] ** 2 / (4 * math.log(1 / words["delta"]))
        each = (1 - share) * total / self.releases
        self.rho2 = SPLIT * each
        epsilon1 = (1 - SPLIT) * each + 2 * math.sqrt((1 - SPLIT) * each * math.log(1 / DELTA1))
        self.sigma1 = [2 * math.sqrt(2 * math.log(1.25 / DELTA1)) / (n * 0.99 * epsilon1) for n in self.n]
        floor = 5 * max(2.8 * C1 / (0.01 * epsilon1 * n) for n in self.n)
        super().__init__(shards, nx.cycle_graph(5), words["eta"], floor)
        if self.gated:
            both, ratio = math.sqrt(2 * share * total), (2 * self.releases) ** (2 / 3)
            moved = [2 * self.clip / (1 if words["gate_sensitivity"] == "printed" else n) for n in self.n]
            self.level_scale = [self.releases * one * (1 + ratio) / both for one in moved]
            self.query_scale = [2 * self.releases * one * (1 + ratio) / (both * ratio) for one in moved]
        self.spoke, self.differ = [0] * 5, {"losses": 0, "penalty": 0}

    def sigma2(self, i: int) -> float:
        return self.beta / (math.sqrt(2 * self.rho2) * self.convexity(i))

    def say(self, i: int, round: int) -> Vector | None:
        if self.spoke[i] >= self.releases:
            return None
        f, before, after = self.locals[i], self.theta[i], self.primal(i, self.objective(i, self.sigma1[i]))
        if self.gated:
            level = self.threshold + self.streams.laplace(i, self.level_scale[i])
            level -= self.streams.laplace(i, self.query_scale[i])

            def speaks(*clips: float) -> bool:
                return bool(f.clipped(before, *clips) - f.clipped(after, *clips) >= level)

            answer = speaks(self.clip, self.clip)
            self.differ["losses"] += speaks(math.inf, self.clip) != answer
            self.differ["penalty"] += speaks(self.clip, math.inf) != answer
            if not answer:
                return None
        self.spoke[i] += 1
        return after + self.output(i, self.sigma2(i))


class Noise(NamedTuple):
    """Rate a of (26), of Gaussian noise 1 / sigma1; sigma2, and Phi of (27)."""

    rate: float
    sigma2: float
    phi: float


class Rivals(Network):
    """DVP, M-ADMM and R-ADMM on a path, eqs. (28) to (33), or with Gaussian noise (107)."""

    def __init__(self, problem: Path, plan: Plan) -> None:
        config, agents = plan.config, [plan.agents[i] for i in range(5)]
        shards, own = shards_of(problem, 5, config.split), [agent.proximal for agent in agents]
        given = agents[0].eta, float(config.regularisation), own
        super().__init__(shards, nx.path_graph(5), *given, weighted=config.method == "proven")
        self.growth, self.gamma = (float(getattr(config, name, 0.0)) for name in ("growth", "gamma"))
        self.kind, self.gaussian = config.algorithm.removesuffix("-gaussian"), config.algorithm.endswith("-gaussian")
        self.recycled = [np.zeros(self.size)] * 5
        self.noise = []
        for i, agent in enumerate(agents):
            rate = 1.0 / agent.noise.sigma1 if self.gaussian else agent.noise.rate
            whole = self.convexity(i) / self.locals[i].weight
            self.noise.append(Noise(rate, agent.noise.sigma2, agent.noise.convexity - whole))

    def published_noise(self, i: int, rho: float, beta: float, releases: int) -> Noise:
        """Eqs. (26), (27), (13) in the papers' arithmetic."""
        n, m, r, phi = len(self.locals[i].y), self.convexity(i), rho / releases, 0.0
        epsilon = math.sqrt(2 * (1 - INEXACT) * r)
        lost = 2.8 * C1 / (n * 2 * self.eta * len(self.around(i)))
        if self.kind == "dvp":
            lost = 2 * math.log(1 + C1 / (n * m))
            if lost >= epsilon:
                phi = C1 / (n * (math.exp(epsilon / 4) - 1)) - m
                lost = epsilon / 2
        return Noise((epsilon - lost) * n / 2, beta / (math.sqrt(2 * INEXACT * r) * (m + phi)), phi)

    def drawn(self, i: int, scale: float) -> Vector:
        """Noise of the linear term at a rate of ``scale`` a; of a normal vector the sign tells where centres move."""
        rate = scale * self.noise[i].rate
        if self.gaussian:
            return self.objective(i, (-1.0 if self.kind == "m-admm" else 1.0) / rate)
        return self.streams.gamma_norm(i, rate, self.size)

    def argmin(self, i: int, linear: Vector, eta: float, moved: Vector | float = 0.0, phi: float = 0.0) -> Vector:
        """Minimise f_i + linear . theta + eta sum_j ||(theta_i + theta_j)/2 + moved - theta||^2 + self-term + ridge."""
        f, own, centres = self.locals[i], self.theta[i], [centre + moved for centre in self.midpoints(i)]
        best = augmented(f, own, linear, eta, centres, self.proximal[i], f.weight * phi)
        return best + self.output(i, self.noise[i].sigma2)

    def say(self, i: int, round: int) -> Vector:
        f, own, dual, degree = self.locals[i], self.theta[i], self.dual[i], len(self.around(i))
        if self.kind == "dvp":  # (28), whose noise and ridge are those of the problem over w_i
            linear = 2 * (dual + f.weight * self.drawn(i, 1.0) / 2)
            return self.argmin(i, linear, self.eta, phi=self.noise[i].phi)
        if self.kind == "m-admm":  # (29)
            eta = self.eta * self.growth**round
            return self.argmin(i, 2 * dual, eta, self.drawn(i, 2 * eta * degree / f.weight))
        if round % 2:  # (33): without the loss, and gamma takes the self-term's place
            nothing, linear = Local(f.X, f.y, 0.0, 0.0), self.recycled[i] + 2 * dual
            return augmented(nothing, own, linear, self.eta, self.midpoints(i), f.weight * self.gamma)
        said = self.argmin(i, 2 * dual + f.weight * self.drawn(i, 1.0), self.eta)
        around, p = sum((own + self.theta[j] for j in self.around(i)), np.zeros(self.size)), self.proximal[i]
        self.recycled[i] = -(2 * dual - self.eta * around - p * own + (2 * self.eta * degree + p) * said)
        return said


def proven_rate(event: Any, sigma2: float, beta: float) -> float:
    """Eq. (26) of the proven forms, logistic loss: a release's Gaussian part is a share INEXACT of its cost."""
    n, m = event.records, event.convexity
    each = (2 * beta / m / sigma2) ** 2 / 2 / INEXACT
    epsilon = brentq(lambda e: e * math.tanh(e / 2) - (1 - INEXACT) * each, 0, 100, xtol=1e-13)
    kappa = C1 / (n * m)
    return float((epsilon - (0.0 if 8 * kappa <= epsilon else math.log(1 + kappa))) * n / 2)
