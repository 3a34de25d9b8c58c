"""DVP, M-ADMM and R-ADMM of docs/methods.md, sec. 6, in plain NumPy and SciPy: eqs. (13) and (25) to (33)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
from scipy.optimize import brentq

from admmnet.rng import Purpose
from admmnet.types import Vector

from .recording import shards_of
from .reference import C1, Local, Network, Streams, augmented

INEXACT = 1e-3


@dataclass(frozen=True)
class Strengths:
    """Settings of a run: eta, lambda, self-terms, growth and gamma."""

    eta: float
    regularisation: float
    proximal: tuple[float, ...]
    growth: float = 1.0
    gamma: float = 0.0


@dataclass(frozen=True)
class RivalNoise:
    """Rate a of (26), sigma2, and Phi of (27)."""

    rate: float
    sigma2: float
    phi: float = 0.0


def published_noise(
    algorithm: str, n: int, m: float, penalty: float, rho: float, releases: int, beta: float
) -> RivalNoise:
    """Eqs. (26), (27), (13) in the papers' arithmetic."""
    r = rho / releases
    epsilon0 = math.sqrt(2 * (1 - INEXACT) * r)
    phi = 0.0
    if algorithm == "dvp":
        lost = 2 * math.log(1 + C1 / (n * m))
        if lost >= epsilon0:
            phi = C1 / (n * (math.exp(epsilon0 / 4) - 1)) - m
            lost = 2 * math.log(1 + C1 / (n * (m + phi)))
            assert math.isclose(lost, epsilon0 / 2, rel_tol=1e-12)
    else:
        lost = 2.8 * C1 / (n * penalty)
    sigma2 = beta / (math.sqrt(2 * INEXACT * r) * (m + phi))
    return RivalNoise((epsilon0 - lost) * n / 2, sigma2, phi)


def proven_epsilon(moved: float, sigma2: float) -> float:
    """Pure epsilon of a release whose Gaussian part, a share INEXACT of its cost, has this sensitivity and sigma."""
    each = (moved / sigma2) ** 2 / 2 / INEXACT
    return float(brentq(lambda e: e * math.tanh(e / 2) - (1 - INEXACT) * each, 0, 100, xtol=1e-13))


def proven_rate(epsilon0: float, n: int, m: float) -> float:
    """Eq. (26) of the proven forms, logistic loss."""
    kappa = C1 / (n * m)
    return (epsilon0 - (0.0 if 8 * kappa <= epsilon0 else math.log(1 + kappa))) * n / 2


class RivalNetwork(Network):
    """What the agents of a path say, one equation a method."""

    def __init__(
        self,
        problem: Path,
        strengths: Strengths,
        noise: list[RivalNoise],
        seed: int,
        *,
        split: str = "iid",
        weighted: bool = True,
    ) -> None:
        shards, own = shards_of(problem, 5, split), (strengths.eta, strengths.regularisation, strengths.proximal)
        super().__init__(shards, nx.path_graph(5), *own, weighted=weighted)
        self.strengths, self.noise = strengths, noise
        self.streams = Streams(5, seed)
        self.recycled: list[Vector] = [np.zeros(self.size)] * 5

    def argmin(self, i: int, linear: Vector, eta: float, moved: Vector | float, phi: float = 0.0) -> Vector:
        """Minimise f_i + linear . theta + eta sum_j ||(theta_i + theta_j)/2 + moved - theta||^2 + self-term + ridge."""
        f, own = self.locals[i], self.theta[i]
        centres = [(own + self.theta[j]) / 2 + moved for j in self.graph[i]]
        return augmented(f, own, linear, eta, centres, self.proximal[i], f.weight * phi)

    def release(self, i: int, theta_hat: Vector) -> Vector:
        return theta_hat + self.streams.normal(i, Purpose.OUTPUT, self.noise[i].sigma2, self.size)

    def dvp(self, i: int, t: int) -> Vector:
        """(28), whose noise and ridge are those of the problem over w_i."""
        e = self.locals[i].weight * self.streams.gamma_norm(i, self.noise[i].rate, self.size)
        return self.release(i, self.argmin(i, 2 * (self.dual[i] + e / 2), self.eta, 0.0, self.noise[i].phi))

    def m_admm(self, i: int, t: int) -> Vector:
        """(29)."""
        eta = self.eta * self.strengths.growth**t
        penalty = 2 * eta * len(self.graph[i]) / self.locals[i].weight
        e = self.streams.gamma_norm(i, penalty * self.noise[i].rate, self.size)
        return self.release(i, self.argmin(i, 2 * self.dual[i], eta, e))

    def r_admm(self, i: int, t: int) -> Vector:
        """(31) and (32), or (33)."""
        own, dual, f = self.theta[i], self.dual[i], self.locals[i]
        if t % 2:  # without the loss, and gamma takes the self-term's place
            middles = [(own + self.theta[j]) / 2 for j in self.graph[i]]
            linear, gamma = self.recycled[i] + 2 * dual, f.weight * self.strengths.gamma
            return augmented(Local(f.X, f.y, 0.0, 0.0), own, linear, self.eta, middles, gamma)
        e = self.locals[i].weight * self.streams.gamma_norm(i, self.noise[i].rate, self.size)
        said = self.release(i, self.argmin(i, 2 * dual + e, self.eta, 0.0))
        around = np.sum([own + self.theta[j] for j in self.graph[i]], axis=0)
        p, degree = self.proximal[i], len(self.graph[i])
        self.recycled[i] = -(2 * dual - self.eta * around - p * own + (2 * self.eta * degree + p) * said)
        return said

    def play(self, algorithm: str, rounds: int) -> list[list[Vector]]:
        """All that is said in a whole run."""
        say = {"dvp": self.dvp, "m-admm": self.m_admm, "r-admm": self.r_admm}[algorithm]
        heard = []
        for t in range(rounds):
            said = [say(i, t) for i in range(5)]
            heard.append(said)
            self.hear(dict(enumerate(said)))
        return heard
