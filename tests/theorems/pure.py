"""One round of DVP, M-ADMM or R-ADMM as an exact law: docs/methods.md eqs. (28), (29), (31), written out.

The noise e at which theta is the round's minimiser solves a linear equation, so the minimiser's density is that of e
there times |det de/dtheta|. Nothing of the package enters but losses and the numbers of a decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from admmnet.solvers.losses import Loss

Array = NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
FAR = 40.0
"""The quadrature leaves out less than exp(-FAR) of a density."""


@dataclass(frozen=True)
class Record:
    """A row of norm at most 1, shape (d,), its label, and how often it is there."""

    x: Array
    y: float
    weight: float = 1.0


@dataclass(frozen=True)
class Round:
    """All that agent i's round depends on but the one record that is exchanged."""

    algorithm: str
    loss: Loss
    rate: float  # a of K(a), the density of the objective's linear term
    eta: float
    growth: float  # factor of the penalty a round, 1 but for m-admm
    t: int
    share: float  # lambda/N
    proximal: float
    phi: float  # ridge of dvp
    dual: Array  # (d,)
    own: Array  # (d,)
    heard: Array  # (degree, d), what the neighbours said last
    n: int  # records, the exchanged one included
    others: tuple[Record, ...]  # those that stay; their weights add up to n - 1

    @property
    def noise_rate(self) -> float:
        """Rate of e."""
        return self.rate * (self._push if self.algorithm == "m-admm" else 1.0)

    @property
    def _eta(self) -> float:
        return self.eta * self.growth**self.t if self.algorithm == "m-admm" else self.eta

    @property
    def _push(self) -> float:
        """Change of the gradient by e in m-admm, 2 eta_t |B_i|."""
        return self._eta * 2 * len(self.heard)

    def gradient(self, theta: Array, record: Record) -> Array:
        """Gradient (k, d) of the round's objective, but for the term with e, at theta (k, d)."""
        found = self.share * theta + 2 * self.dual + self.proximal * (theta - self.own)
        for heard in self.heard:
            found = found + self._eta * 2 * (theta - (self.own + heard) / 2)
        found = found + self.phi * theta
        for r in (*self.others, record):
            slope = self.loss.derivative(theta @ r.x, np.full(len(theta), r.y))
            found = found + r.weight / self.n * slope[:, None] * r.x
        return found

    @property
    def own_curvature(self) -> float:
        """Curvature of what depends on no record."""
        return self.share + self.proximal + self._eta * 2 * len(self.heard) + self.phi

    def hessian(self, theta: Array, record: Record) -> Array:
        """Hessian (k, d, d) of the same."""
        found = self.own_curvature * np.eye(theta.shape[1])[None, :, :]
        for r in (*self.others, record):
            bend = self.loss.curvature(theta @ r.x, np.full(len(theta), r.y))
            found = found + r.weight / self.n * bend[:, None, None] * np.outer(r.x, r.x)
        return found

    def needed(self, theta: Array, record: Record) -> Array:
        """Noise e (k, d) at which theta (k, d) is the minimiser.

        dvp: 2 (dual + e/2) . theta; r-admm: e . theta; m-admm: eta_t sum_j ||(theta_i + theta_j)/2 + e - theta||^2.
        """
        gradient = self.gradient(theta, record)
        return gradient / self._push if self.algorithm == "m-admm" else -gradient

    def log_density(self, theta: Array, record: Record) -> Array:
        """Log density of the minimiser at theta (k, d); d is 1 or 2."""
        e, h, a, d = self.needed(theta, record), self.hessian(theta, record), self.noise_rate, theta.shape[1]
        if self.algorithm == "m-admm":
            h = h / self._push
        volume = h[:, 0, 0] if d == 1 else h[:, 0, 0] * h[:, 1, 1] - h[:, 0, 1] * h[:, 1, 0]
        log_mass = math.log(a / 2.0) if d == 1 else math.log(a * a / (2.0 * math.pi))
        return np.asarray(log_mass - a * np.linalg.norm(e, axis=1) + np.log(volume))

    def aimed(self, theta: Array, record: Record, e: Array) -> Round:
        """Return the round with the dual at which noise e, shape (d,), leads to theta, shape (d,)."""
        gradient = self.gradient(theta[None, :], record)[0]
        term = -self._push * e if self.algorithm == "m-admm" else e
        return replace(self, dual=self.dual - (gradient + term) / 2)


def score_marks(record: Record, loss: Loss) -> Array:
    """Scores between which a loss is smooth on the scale of its curvature, from both sides of every jump."""
    if loss.smooth:
        return np.linspace(-40.0, 40.0, 41)
    centre, half = (record.y, loss.width) if loss.name == "huber" else (1.0, loss.width)  # type: ignore[attr-defined]
    corners = np.array([centre - half, centre + half]) * (1.0 if loss.name == "huber" else record.y)
    step = 1e-9 * (1.0 + np.abs(corners))
    return np.sort(np.concatenate((corners, corners - step, corners + step)))


def marks(round: Round, records: Sequence[Record]) -> Array:
    """Points of a one-dimensional model around which something changes."""
    found = [score_marks(r, round.loss) / float(r.x[0]) for r in (*round.others, *records) if abs(r.x[0]) > 1e-6]
    return np.concatenate([*found, np.zeros(1)])


def minimisers(round: Round, record: Record, e: Array) -> Array:
    """Theta of every noise e in one dimension, by bisection; shapes (k,)."""
    sign = 1.0 if round.algorithm == "m-admm" else -1.0  # e grows with theta, or falls
    least = round.own_curvature * round.rate / round.noise_rate  # |de/dtheta| is at least that
    reach = (np.abs(e) + abs(float(round.needed(np.zeros((1, 1)), record)[0, 0]))) / least
    low, high = -reach, reach
    for _ in range(54):
        middle = 0.5 * (low + high)
        below = sign * (round.needed(middle[:, None], record)[:, 0] - e) < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))


def quadrature(round: Round, first: Record, second: Record, panels: int = 32) -> tuple[Array, Array]:
    """Nodes (k, 1) and weights (k,) in one dimension, for both densities and what is between them.

    Gauss-Legendre on panels that are even in the noise, broken where it is 0, where the densities have their
    cusps, and at the marks of all records.
    """
    even = np.linspace(-FAR, FAR, panels + 1) / round.noise_rate  # 0 is one of them
    ends = np.concatenate([minimisers(round, record, even) for record in (first, second)])
    inside = np.clip(marks(round, (first, second)), ends.min(), ends.max())
    edges = np.unique(np.concatenate((ends, inside)))
    middle, radius = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    theta = middle[:, None] + radius[:, None] * NODES
    return theta.reshape(-1, 1), (radius[:, None] * WEIGHTS).ravel()
