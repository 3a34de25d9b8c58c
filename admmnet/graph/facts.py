"""Figures of a network that say how fast it agrees and how much each agent is protected by its degree."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.graph.checks import check_topology
from admmnet.graph.simple import Graph

MAX_ANALYSED = 1000
"""Nodes above which diameter and spectra, which take cubic time, are left out."""


@dataclass(frozen=True)
class GraphFacts:
    """Figures of one network; the diameter and the two after it are None above `MAX_ANALYSED` nodes."""

    nodes: int
    edges: int
    degree_min: int
    degree_mean: float
    degree_max: int
    diameter: int | None
    algebraic_connectivity: float | None
    """Second smallest eigenvalue of the Laplacian (Fiedler 1973)."""
    spectral_gap: float | None
    """1 - max(abs(eigenvalue 2), abs(eigenvalue N)) of Metropolis weights W_ij = 1/(1 + max(degrees)), whose rows sum
    to 1 (Xiao, Boyd, Lall 2005)."""
    is_bipartite: bool


def describe(graph: Graph) -> GraphFacts:
    """Figures of a network, as from `load_topology`."""
    import networkx as nx
    import numpy as np
    from scipy.sparse.csgraph import shortest_path

    graph = check_topology(graph)
    degrees = np.array([graph.degree(i) for i in graph], dtype=float)
    diameter = connectivity = gap = None
    if len(graph) <= MAX_ANALYSED:
        adjacency = nx.to_numpy_array(graph.networkx)
        diameter = int(shortest_path(adjacency, directed=False, unweighted=True).max())
        connectivity = float(np.linalg.eigvalsh(np.diag(degrees) - adjacency)[1])
        metropolis = adjacency / (1.0 + np.maximum.outer(degrees, degrees))
        np.fill_diagonal(metropolis, 1.0 - metropolis.sum(axis=1))
        eigenvalues = np.linalg.eigvalsh(metropolis)
        gap = float(1.0 - max(abs(eigenvalues[0]), abs(eigenvalues[-2])))
    return GraphFacts(
        nodes=len(graph),
        edges=len(graph.edges),
        degree_min=int(degrees.min()),
        degree_mean=float(degrees.mean()),
        degree_max=int(degrees.max()),
        diameter=diameter,
        algebraic_connectivity=connectivity,
        spectral_gap=gap,
        is_bipartite=nx.is_bipartite(graph.networkx),
    )
