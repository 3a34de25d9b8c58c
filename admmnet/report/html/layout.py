"""Places of a graph's nodes on a page: the same graph, the same picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

MAX_NODES = 2_000
"""Most agents of a graph that is drawn."""
MAX_EDGES = 20_000
"""Most edges that are drawn."""
FEW = 150
"""Most nodes that are placed by graph distance (Kamada-Kawai)."""
PIVOTS, STEPS = 40, 60

Places = NDArray[np.float64]


def graph(edges: Sequence[tuple[int, int]], agents: Sequence[int]) -> dict[str, Any] | None:
    """Return places (0 to 1000) of the nodes and the edges; None of a graph that is too large to draw."""
    if len(agents) < 2 or len(agents) > MAX_NODES:
        return None
    drawn = nx.Graph()
    drawn.add_nodes_from(agents)
    drawn.add_edges_from(edges)
    places = _layout(drawn)
    points = np.array([places[i] for i in agents])
    points -= points.min(axis=0)
    points = points / max(float(points.max()), 1e-12)
    shown = len(edges) <= MAX_EDGES
    return {
        "xy": np.round(1000 * points).astype(int).ravel().tolist(),
        "edges": [end for edge in edges for end in edge] if shown else None,
    }


def _layout(drawn: nx.Graph) -> dict[int, tuple[float, float]]:
    """Places of the nodes: rings and complete graphs on a circle, few nodes by distance, many by pivots and springs."""
    count = len(drawn)
    degrees = {degree for _, degree in drawn.degree()}
    connected = nx.is_connected(drawn)
    nodes = sorted(drawn)
    if degrees in ({2}, {count - 1}) and connected:
        turns = np.pi / 2 - 2 * np.pi * np.arange(count) / count
        ring = nodes if degrees != {2} else list(nx.dfs_preorder_nodes(drawn, nodes[0]))
        return {i: (float(np.cos(turn)), float(-np.sin(turn))) for i, turn in zip(ring, turns, strict=True)}
    if count <= FEW and connected:
        return {i: (float(x), float(y)) for i, (x, y) in nx.kamada_kawai_layout(drawn).items()}
    index = {node: k for k, node in enumerate(nodes)}
    edges = np.array([(index[i], index[j]) for i, j in drawn.edges()], dtype=np.intp).reshape(-1, 2)
    places = _springs(_pivots(drawn, nodes), edges)
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, places, strict=True)}


def _pivots(drawn: nx.Graph, nodes: Sequence[int]) -> Places:
    """Pivot MDS (Brandes, Pich 2007): the two main axes of the distances from a few nodes that are far apart."""
    columns: list[NDArray[np.float64]] = []
    pivot, nearest = nodes[0], np.full(len(nodes), np.inf)
    for _ in range(min(PIVOTS, len(nodes))):
        steps = nx.single_source_shortest_path_length(drawn, pivot)
        far = 1.0 + max(steps.values())  # another component
        columns.append(np.array([float(steps.get(node, far)) for node in nodes]))
        nearest = np.minimum(nearest, columns[-1])
        pivot = nodes[int(nearest.argmax())]
    squared = np.column_stack(columns) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    axes, sizes, _ = np.linalg.svd(-0.5 * centred, full_matrices=False)
    axes = axes[:, :2] * np.where(axes[np.abs(axes[:, :2]).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return np.asarray(axes * np.maximum(sizes[:2], 1e-9))


def _springs(places: Places, edges: NDArray[np.intp]) -> Places:
    """Fruchterman and Reingold's forces from these places on; twins are put apart by their number."""
    count = len(places)
    turns = 2.399963 * np.arange(count)  # the golden angle
    places = places / max(float(np.ptp(places, axis=0).max()), 1e-12)
    places = places + 0.02 * np.column_stack([np.cos(turns), np.sin(turns)])
    apart = 1.0 / np.sqrt(count)
    for step in range(STEPS):
        x, y = (places[:, k, None] - places[None, :, k] for k in (0, 1))
        squared = np.maximum(x * x + y * y, 1e-8)
        push = apart * apart / squared
        move = np.column_stack([(push * x).sum(axis=1), (push * y).sum(axis=1)])
        along = places[edges[:, 0]] - places[edges[:, 1]]
        pull = along * np.linalg.norm(along, axis=1, keepdims=True) / apart
        for k in (0, 1):
            move[:, k] -= np.bincount(edges[:, 0], pull[:, k], count)
            move[:, k] += np.bincount(edges[:, 1], pull[:, k], count)
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
        places = places + move / length * np.minimum(length, 0.06 * (1.0 - step / STEPS))
    return places
