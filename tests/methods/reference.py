"""docs/methods.md in plain NumPy and SciPy, written from the equations and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import minimize

from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Matrix, Vector

from .recording import SEED, Said, Shards, Spoken

C1 = 0.25


def sigmoid(u: Vector) -> Vector:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * u)))


def metropolis(graph: Any) -> Matrix:
    """W of eq. (24), its diagonal what is left to 1."""
    W = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1.0 / (1.0 + max(graph.degree(i), graph.degree(j)))
    return W + np.diag(1.0 - W.sum(axis=1))


def minimiser(value: Callable[[Vector], float], gradient: Any, hessian: Any, size: int) -> Vector:
    """Minimise a smooth strongly convex function: SciPy first, then plain Newton steps to the last digits."""
    found = minimize(value, np.zeros(size), jac=gradient, hess=hessian, method="trust-exact")
    theta: Vector = found.x
    for _ in range(8):
        slope = gradient(theta)
        if np.linalg.norm(slope) < 1e-13:
            break
        theta = theta - np.linalg.solve(hessian(theta), slope)
    assert np.linalg.norm(gradient(theta)) < 1e-12
    return theta


class Local:
    """f_i of eq. (1), or (61) with a weight of the mean loss, and its derivatives; ``share`` is lambda/N."""

    def __init__(self, X: Matrix, y: Vector, share: float, weight: float = 1.0) -> None:
        self.X, self.y, self.share, self.weight = X, y, share, weight

    def losses(self, theta: Vector) -> Vector:
        return np.logaddexp(0.0, -self.y * (self.X @ theta))

    def value(self, theta: Vector) -> float:
        return float(self.weight * self.losses(theta).mean() + self.share * (theta @ theta) / 2)

    def gradient(self, theta: Vector) -> Vector:
        weights = -self.weight * self.y * sigmoid(-self.y * (self.X @ theta))
        return np.asarray(self.X.T @ weights / len(self.y) + self.share * theta)

    def hessian(self, theta: Vector) -> Matrix:
        p = sigmoid(self.X @ theta)
        return np.asarray(
            (self.X * (self.weight * p * (1 - p))[:, None]).T @ self.X / len(self.y) + self.share * np.eye(len(theta))
        )

    def clipped(self, theta: Vector, loss_clip: float, penalty_clip: float) -> float:
        """F of eq. (15), where both clips are C."""
        losses = np.minimum(self.losses(theta), loss_clip).mean()
        return float(losses + min(self.share * (theta @ theta) / 2, penalty_clip))


def pooled_optimum(locals_: list[Local], size: int) -> Vector:
    """Minimise sum_i f_i, eq. (2)."""
    return minimiser(
        lambda theta: sum(f.value(theta) for f in locals_),
        lambda theta: np.sum([f.gradient(theta) for f in locals_], axis=0),
        lambda theta: np.sum([f.hessian(theta) for f in locals_], axis=0),
        size,
    )


def weights_of(shards: Shards) -> list[float]:
    """Eq. (60)."""
    counts = np.array([len(shards[i][1]) for i in sorted(shards)])
    return [float(w) for w in counts / counts.mean()]


def augmented(
    f: Local, own: Vector, linear: Vector, eta: float, centres: Sequence[Vector], proximal: float, ridge: float = 0.0
) -> Vector:
    """Minimise f + linear . theta + eta sum_c ||c - theta||^2 + proximal/2 ||theta - own||^2 + ridge/2 ||theta||^2."""

    def value(t: Vector) -> float:
        penalty = eta * sum(float((c - t) @ (c - t)) for c in centres)
        return f.value(t) + float(linear @ t + proximal / 2 * (t - own) @ (t - own) + ridge / 2 * t @ t) + penalty

    def gradient(t: Vector) -> Vector:
        penalty = eta * sum((2 * (t - c) for c in centres), np.zeros(len(t)))
        return np.asarray(f.gradient(t) + linear + penalty + proximal * (t - own) + ridge * t)

    def hessian(t: Vector) -> Matrix:
        return np.asarray(f.hessian(t) + (2 * eta * len(centres) + proximal + ridge) * np.eye(len(t)))

    return minimiser(value, gradient, hessian, len(own))


class Streams:
    """The agents' random numbers, drawn in the order of Algorithms 1 and 2."""

    def __init__(self, agents: int, seed: int) -> None:
        self._streams = [AgentStreams(i, seed) for i in range(agents)]

    def normal(self, i: int, purpose: Purpose, sigma: float, size: int) -> Vector:
        return sigma * self._streams[i][purpose].standard_normal(size)

    def gamma_norm(self, i: int, rate: float, size: int) -> Vector:
        """Density exp(-rate ||z||), eq. (25): radius first, then direction."""
        stream = self._streams[i][Purpose.OBJECTIVE]
        radius, direction = stream.standard_gamma(size) / rate, stream.standard_normal(size)
        return np.asarray(radius * direction / np.linalg.norm(direction))

    def laplace(self, i: int, scale: float) -> float:
        return float(scale * self._streams[i][Purpose.GATE].laplace())


class Network:
    """Eqs. (3), (4), (5), (16), in trouble (35), (36): every agent's last words, what neighbours have of them, duals.

    ``there`` are the links of the round, None for all; objectives are weighted by (60) where asked.
    """

    def __init__(
        self,
        shards: Shards,
        graph: nx.Graph,
        eta: float,
        regularisation: float,
        proximal: Sequence[float] = (0.0,) * 8,
        *,
        weighted: bool = False,
    ) -> None:
        self.graph, self.eta, self.proximal = graph, eta, list(proximal)
        weights = weights_of(shards) if weighted else [1.0] * len(graph)
        self.locals = [Local(*shards[i], regularisation / len(graph), weights[i]) for i in sorted(graph)]
        self.size = shards[0][0].shape[1]
        self.theta = [np.zeros(self.size) for _ in self.locals]
        self.dual = [np.zeros(self.size) for _ in self.locals]
        self.last = {(j, i): np.zeros(self.size) for i in graph for j in graph[i]}  # of j, at i
        self.there: set[tuple[int, int]] | None = None
        self.streams = Streams(len(graph), SEED)

    def around(self, i: int) -> list[int]:
        """Neighbours of an agent in the equations."""
        return sorted(self.graph[i])

    def convexity(self, i: int) -> float:
        return self.locals[i].share + 2 * self.eta * len(self.around(i)) + self.proximal[i]

    def midpoints(self, i: int) -> list[Vector]:
        own, there = self.theta[i], self.there
        heard = (self.last[j, i] if there is None or (j, i) in there else own for j in self.around(i))
        return [(own + vector) / 2 for vector in heard]

    def primal(self, i: int, b1: Vector | float = 0.0) -> Vector:
        """Solve eq. (3), with + b1 . theta eq. (5), with a self-term eq. (16); b1 is of the problem over w_i."""
        f, own = self.locals[i], self.theta[i]
        return augmented(f, own, 2 * self.dual[i] + f.weight * b1, self.eta, self.midpoints(i), self.proximal[i])

    def objective(self, i: int, sigma: float) -> Vector:
        """Draw b1."""
        return self.streams.normal(i, Purpose.OBJECTIVE, sigma, self.size)

    def output(self, i: int, sigma: float) -> Vector:
        """Draw b2."""
        return self.streams.normal(i, Purpose.OUTPUT, sigma, self.size)

    def say(self, i: int, round: int) -> Vector | None:
        """What an agent broadcasts."""
        return self.primal(i)

    def counts(self, i: int, j: int, said: Spoken) -> bool:
        """Whether an edge over which nothing is lost moves its duals."""
        return True

    def hear(self, said: Spoken, arrives: Container[tuple[int, int]] | None = None) -> None:
        """Who is silent keeps its last words; then eq. (4), or (36) where not all links bring them."""
        self.theta = [own if (vector := said[i]) is None else vector for i, own in enumerate(self.theta)]
        came = self.last if arrives is None else arrives
        self.last |= {(j, i): self.theta[j] for j, i in self.last if (j, i) in came}

        def moves(i: int, j: int) -> bool:
            return (i, j) in came and (j, i) in came and self.counts(i, j, said)

        last, near = self.last, {i: self.around(i) for i in self.graph}
        moved = {i: [last[i, j] - last[j, i] for j in near[i] if moves(i, j)] for i in near}
        self.dual = [own + self.eta / 2 * sum(moved.get(i, ())) for i, own in enumerate(self.dual)]

    def check(self, said: Said, close: Callable[[int], float]) -> None:
        """Compare with what was said in a run, to within ``close`` of each agent, and go on from that."""
        for round, spoken in enumerate(said):
            self.compare(spoken, round, close)
            self.hear(spoken)

    def compare(self, spoken: Spoken, round: int, close: Callable[[int], float]) -> None:
        expected = {i: self.say(i, round) for i in sorted(self.graph)}
        for i, own in expected.items():
            vector, where = spoken[i], f"{round=} {i=}"
            assert (vector is None) == (own is None), where
            if vector is not None and own is not None:
                np.testing.assert_allclose(vector, own, rtol=0, atol=close(i), err_msg=where)
