"""Networks of agents: built from a spec, read from a file, checked, written and described.

A network is a simple, undirected, connected graph whose nodes are the agents 0..N-1; see docs/simulate.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from admmnet.errors import RequestError
from admmnet.graph.checks import MAX_EDGES, MAX_NODES, check_topology
from admmnet.graph.facts import GraphFacts, describe
from admmnet.graph.files import EDGES, SUFFIXES, looks_like_file, read_edges, read_topology, write_topology
from admmnet.graph.simple import Graph
from admmnet.graph.specs import SPECS, build_spec, is_random

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "MAX_EDGES",
    "MAX_NODES",
    "SPECS",
    "SUFFIXES",
    "Graph",
    "GraphFacts",
    "check_topology",
    "describe",
    "is_random",
    "load_topology",
    "network_of",
    "write_topology",
]


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
        graph = read_edges(text)
    else:
        graph = read_topology(Path(text)) if looks_like_file(text) else build_spec(text, seed)
    if agents is not None and len(graph) != agents:
        raise RequestError(
            f"{text}: the topology has {len(graph)} nodes but --agents says {agents}; "
            f"give --agents {len(graph)} or another topology"
        )
    return graph
