"""State of one agent in decentralised consensus ADMM, and docs/algorithms.md eqs. (3) and (4).

Only released vectors enter: ``theta`` is what the agent itself last broadcast, ``heard`` what its neighbours did.
Privacy rests on that (docs/privacy.md, Theorem 3): the duals and the penalty are public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from admmnet.types import Matrix, Vector


class Consensus:
    """Last released vectors around one agent and its dual.

    Parameters
    ----------
    neighbours : sequence of int
        In ascending order, the order of every sum.
    size : int
        Number of coordinates d; everything starts at zero.

    Attributes
    ----------
    theta, dual : ndarray of shape (d,)
    heard : ndarray of shape (degree, d)
        Last vector heard of every neighbour.
    """

    def __init__(self, neighbours: Sequence[int], size: int) -> None:
        self.neighbours = tuple(neighbours)
        self.theta: Vector = np.zeros(size)
        self.dual: Vector = np.zeros(size)
        self.heard: Matrix = np.zeros((len(self.neighbours), size))

    @property
    def degree(self) -> int:
        """Number of neighbours, |B_i|."""
        return len(self.neighbours)

    def linear_term(self, eta: float, proximal: float = 0.0) -> Vector:
        """Linear coefficient of eqs. (3), (16) besides the loss, 2 dual - eta sum_j (theta_i + theta_j) - p theta_i."""
        around: Vector = self.degree * self.theta + self.heard.sum(axis=0)
        linear = 2.0 * self.dual - eta * around
        return linear - proximal * self.theta if proximal else linear

    def convexity(self, eta: float, regularisation: float, proximal: float = 0.0) -> float:
        """Return m = regularisation + 2 eta |B_i| + p; ``regularisation`` is lambda/N, p the self-term's weight."""
        return regularisation + 2.0 * eta * self.degree + proximal

    def absorb(self, own: Vector | None, heard: Mapping[int, Vector], eta: float) -> None:
        """Take in what was said this round and update the dual, eq. (4); a silent agent keeps its last value."""
        if own is not None:
            self.theta = own
        for row, j in enumerate(self.neighbours):
            if j in heard:
                self.heard[row] = heard[j]
        self.dual = self.dual + 0.5 * eta * (self.degree * self.theta - self.heard.sum(axis=0))
