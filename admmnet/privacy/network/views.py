"""Who sees what: observers, the agents that they hear, the strangers, and sums of strangers that a readout shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from admmnet.graph.simple import Graph, parts_of
from admmnet.graph.tree import Tree

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
    if comb(agents, colluders) <= most:
        return list(combinations(range(agents), colluders)), True
    rng = np.random.default_rng(0)
    drawn = (tuple(sorted(rng.choice(agents, colluders, replace=False).tolist())) for _ in range(most))
    return sorted(set(drawn)), False
