"""Who sees what: observers, the agents that they hear, the strangers, and sums of strangers that a readout shows.

Theorem N1: what sums along a public tree tell some of the agents. docs/network-ledger.md, eqs. (N1), (N2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from admmnet.graph.simple import Graph, parts_of
from admmnet.graph.tree import Tree
from admmnet.privacy.discrete import excess
from admmnet.types import Matrix, Vector

MOST_SETS = 5000
"""Sets of observers that are looked at; of more as many are drawn."""


@dataclass(frozen=True)
class View:
    """What a set of observers sees of the others.

    ``groups`` are the strangers of every connected part of a public tree less the observers: of their last vectors a
    readout along the tree shows the sum, and no more. Empty where nothing is read out.
    """

    observers: frozenset[int]
    heard: frozenset[int]
    """Neighbours of observers that are none: every vector of theirs is seen."""
    strangers: frozenset[int]
    """All others."""
    groups: tuple[frozenset[int], ...] = ()


def view_of(graph: Graph, observers: Sequence[int], tree: Tree | None = None) -> View:
    """View of some agents; ``tree`` is that of a readout which adds up the last vectors."""
    own = frozenset(observers)
    heard = frozenset(j for i in own for j in graph[i]) - own
    strangers = frozenset(graph) - own - heard
    parts = () if tree is None else components(tree, own)
    return View(own, heard, strangers, tuple(found for part in parts if (found := part & strangers)))


def components(tree: Tree, observers: frozenset[int]) -> tuple[frozenset[int], ...]:
    """Connected parts of a tree less the observers."""
    edges = [(i, int(tree.parent[i])) for i in tree.below.tolist()]
    left = frozenset(tree.agents) - observers
    return tuple(map(frozenset, parts_of(Graph(tree.agents, edges), left)))


def sets_of(agents: int, colluders: int, most: int = MOST_SETS) -> tuple[list[tuple[int, ...]], bool]:
    """Sets of so many agents, all of them or ``most`` drawn by a fixed seed; and whether these are all."""
    if math.comb(agents, colluders) <= most:
        return list(combinations(range(agents), colluders)), True
    rng = np.random.default_rng(0)
    drawn = (tuple(sorted(rng.choice(agents, colluders, replace=False).tolist())) for _ in range(most))
    return sorted(set(drawn)), False


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
