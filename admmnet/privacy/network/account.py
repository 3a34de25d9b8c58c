"""What each agent gives away to others of a run, alone or together: docs/network-ledger.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from admmnet.graph.simple import Graph, Tree
from admmnet.privacy.conversion import discrete_epsilon
from admmnet.privacy.network.shifts import MARGIN, GossipFlow, TreeFlow, information, shifted, summed, view_of
from admmnet.types import Vector

Flow = GossipFlow | TreeFlow


class Learned(NamedTuple):
    """What a set of observers learns of one agent's record, at most."""

    observers: tuple[int, ...]
    agent: int
    distance: int
    """Edges from the agent to the nearest observer: 1 of a neighbour, more of a stranger; N + 1 of one cut off."""
    mu: float
    epsilon: float
    share: float
    """Of the mu of somebody who sees every message."""
    mu_linear: float | None
    """The literature's figure, which is no bound here; None of sums, whose figure is exact."""


def learned(
    flow: Flow, graph: Graph, tree: Tree | None, sets: Sequence[tuple[int, ...]], deltas: Mapping[int, float]
) -> list[Learned]:
    """Figures of every set of observers and every agent outside it.

    ``tree`` is that of the sums, or of the readout; None where nothing is read out. ``deltas`` are those at which the
    agents' epsilons are read.
    """
    from networkx import to_scipy_sparse_array
    from scipy.sparse.csgraph import shortest_path

    found: list[Learned] = []
    local = flow.local
    views = [view_of(graph, own, tree) for own in sets]
    edges = shortest_path(to_scipy_sparse_array(graph.networkx, range(len(graph))), unweighted=True)
    distances = [np.minimum(edges[list(own)].min(axis=0), len(graph) + 1).astype(int).tolist() for own in sets]
    mus, kappas = np.full((2, len(sets), len(graph)), np.nan)
    linear: list[Vector | None] = [None] * len(sets)
    if isinstance(flow, TreeFlow):
        assert tree is not None
        for place, own in enumerate(sets):
            mus[place], kappas[place] = summed(flow, tree, frozenset(own))
        mus *= MARGIN
    else:
        pairs = [(place, u) for place, view in enumerate(views) for u in sorted(view.strangers)]
        for (place, u), one in zip(pairs, shifted(flow, [(views[p], u) for p, u in pairs]), strict=True):
            mus[place, u] = one.mu
        for place, view in enumerate(views):
            mus[place, sorted(view.heard)] = local[sorted(view.heard)] * MARGIN
            linear[place] = information(flow, view)
        kappas[:] = 0.0
    for place, own in enumerate(sets):
        for u in sorted(set(graph) - set(own)):
            mu, beside = float(mus[place, u]), linear[place]
            epsilon = discrete_epsilon(mu, float(kappas[place, u]), deltas[u])
            whole = None if beside is None else float(beside[u])
            found.append(Learned(own, u, distances[place][u], mu, epsilon, min(1.0, mu / local[u]), whole))
    return found


class Extremes(NamedTuple):
    """Figures over sets of observers and agents: epsilons, and None where there are none of the kind."""

    worst: float
    mean: float
    strangers: float | None
    """The largest of agents that are no neighbours of an observer."""
    neighbours: float | None


def extremes(found: Sequence[Learned]) -> Extremes:
    """Sum figures up."""
    near = [one.epsilon for one in found if one.distance == 1]
    far = [one.epsilon for one in found if one.distance > 1]
    whole = [*near, *far]
    return Extremes(max(whole), math.fsum(whole) / len(whole), max(far, default=None), max(near, default=None))
