"""Figures of a network that say how fast it agrees and how much each agent is protected by its degree."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.graph.simple import Graph

MAX_ANALYSED = 2000
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
    degrees = [graph.degree(i) for i in graph]
    small = len(graph) <= MAX_ANALYSED
    connectivity, gap = _spectra(graph) if small else (None, None)
    return GraphFacts(
        nodes=len(graph),
        edges=len(graph.edges),
        degree_min=min(degrees),
        degree_mean=sum(degrees) / len(degrees),
        degree_max=max(degrees),
        diameter=_diameter(graph) if small else None,
        algebraic_connectivity=connectivity,
        spectral_gap=gap,
        is_bipartite=_bipartite(graph),
    )


def _bipartite(graph: Graph) -> bool:
    from admmnet.graph.tree import spanning_tree  # imports numpy

    tree = spanning_tree(graph)
    return tree is not None and all((tree.depth[i] - tree.depth[j]) % 2 for i, j in graph.edges)


def _spectra(graph: Graph) -> tuple[float, float]:
    import numpy as np  # only needed here

    adjacency = np.zeros((len(graph), len(graph)))
    edges = np.array(list(graph.edges))
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1.0
    degrees = adjacency.sum(axis=1)
    laplacian = np.diag(degrees) - adjacency
    metropolis = adjacency / (1.0 + np.maximum.outer(degrees, degrees))
    np.fill_diagonal(metropolis, 1.0 - metropolis.sum(axis=1))
    connectivity = np.linalg.eigvalsh(laplacian)[1]
    eigenvalues = np.linalg.eigvalsh(metropolis)
    return float(connectivity), float(1.0 - max(abs(eigenvalues[0]), abs(eigenvalues[-2])))


def _diameter(graph: Graph) -> int:
    # sets of agents are the bits of an int: N^2 steps whatever the degrees, where the breadth-first search
    # of networkx takes N * edges, minutes for a dense graph
    near = [sum(1 << neighbour for neighbour in graph[node]) for node in graph]
    return max(_eccentricity(node, near) for node in graph)


def _eccentricity(node: int, near: list[int]) -> int:
    front = reached = 1 << node
    steps = -1
    while front:
        steps, spread = steps + 1, 0
        while front:
            lowest = front & -front
            spread |= near[lowest.bit_length() - 1]
            front ^= lowest
        front = spread & ~reached
        reached |= front
    return steps
