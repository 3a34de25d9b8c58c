"""Theorem N1: what sums along a public tree tell some of the agents. docs/network-ledger.md, eqs. (N1), (N2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from admmnet.graph.tree import Tree
from admmnet.privacy.discrete import excess
from admmnet.privacy.network.views import components
from admmnet.types import Matrix, Vector


@dataclass(frozen=True, eq=False)
class TreeFlow:
    """Noisy sums along a tree in public numbers."""

    moved: Matrix
    """Delta_i(t), shape (T, N): most that a record moves an agent's part of a sum."""
    noise: Matrix
    """Shape (T, N). Parameter of its discrete Gaussian noise."""
    grid: float
    """Step of the common grid."""
    dimension: int
    """Numbers of a sum."""

    @property
    def local(self) -> Vector:
        """Mu of every agent to somebody who sees its own parts, shape (N,)."""
        found: Vector = np.sqrt(((self.moved / self.noise) ** 2).sum(axis=0))
        return found


def summed(flow: TreeFlow, tree: Tree, observers: frozenset[int]) -> tuple[Vector, Vector]:
    """Mu and kappa of every agent, shapes (N,), nan of observers: those of the sum over its part of the tree."""
    mu, kappa = np.full((2, flow.noise.shape[1]), np.nan)
    for part in components(tree, observers):
        own = sorted(part)
        noise = flow.noise[:, own]
        mu[own] = np.sqrt((flow.moved[:, own] ** 2 / (noise**2).sum(axis=1, keepdims=True)).sum(axis=0))
        least = noise.min(axis=1) / flow.grid * math.sqrt(len(own))  # the least variance of a part goes into (P10)
        kappa[own] = sum(excess(flow.dimension, float(s), len(own)) for s in least)
    return mu, kappa
