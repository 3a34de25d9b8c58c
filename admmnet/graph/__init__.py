"""Networks of agents: built from a spec, read from a file, checked, written and described.

A network is a simple, undirected, connected graph whose nodes are the agents 0..N-1; see docs/simulate.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from admmnet.errors import RequestError
from admmnet.graph.files import EDGES, SUFFIXES, paired, read_topology, write_topology
from admmnet.graph.simple import Graph, check_topology
from admmnet.graph.specs import build_spec

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["describe", "load_topology", "network_of", "write_topology"]


def load_topology(source: str | os.PathLike[str], *, agents: int | None = None, seed: int = 0) -> nx.Graph:
    """Network from a file or a spec: nodes 0..N-1 and edges in sorted order, without attributes.

    Parameters
    ----------
    source : str or path
        A file (``.edges``, ``.csv``, ``.json``, ``.graphml``, ``.gml``, ``.adjlist``), a spec such as
        ``ring:5`` or ``erdos-renyi:20:0.3``, or all edges, ``edges:0-1,1-2``.
    agents : int, optional
        Number of agents the network must have.
    seed : int
        First seed tried by the random specs, 0 or more; the others ignore it.

    Raises
    ------
    RequestError
        If the source is unknown, unreadable, out of range, of another size than `agents`, or no network.
    """
    found: nx.Graph = network_of(source, agents=agents, seed=seed).networkx
    return found


def network_of(source: str | os.PathLike[str], *, agents: int | None = None, seed: int = 0) -> Graph:
    """As ``load_topology``, without networkx where no random graph or file of networkx is asked for."""
    if not isinstance(source, str | os.PathLike):
        raise RequestError(f"source is a {type(source).__name__}: give a file or a spec such as ring:5")
    text = os.fspath(source)
    if text.startswith(EDGES):
        graph = paired(text.removeprefix(EDGES).split(","), "topology edges").graph()
    elif Path(text).suffix.lower() in SUFFIXES or os.path.exists(text):  # which takes any text, unlike Path.exists
        graph = read_topology(Path(text))
    else:
        graph = build_spec(text, seed)
    if agents is not None and len(graph) != agents:
        raise RequestError(
            f"{text}: the topology has {len(graph)} nodes but --agents says {agents}; "
            f"give --agents {len(graph)} or another topology"
        )
    return graph


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
