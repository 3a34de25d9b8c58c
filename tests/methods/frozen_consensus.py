"""The state of an agent as it was before there was simulated trouble, kept to compare bits with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from admmnet.types import Matrix, Vector


class FrozenConsensus:
    def __init__(self, neighbours: Sequence[int], size: int) -> None:
        self.neighbours = tuple(neighbours)
        self.theta: Vector = np.zeros(size)
        self.dual: Vector = np.zeros(size)
        self.heard: Matrix = np.zeros((len(self.neighbours), size))

    @property
    def degree(self) -> int:
        return len(self.neighbours)

    def linear_term(self, eta: float, proximal: float = 0.0) -> Vector:
        around: Vector = self.degree * self.theta + self.heard.sum(axis=0)
        linear = 2.0 * self.dual - eta * around
        return linear - proximal * self.theta if proximal else linear

    def absorb(self, own: Vector | None, heard: Mapping[int, Vector], eta: float) -> None:
        if own is not None:
            self.theta = own
        for row, j in enumerate(self.neighbours):
            if j in heard:
                self.heard[row] = heard[j]
        self.dual = self.dual + 0.5 * eta * (self.degree * self.theta - self.heard.sum(axis=0))
