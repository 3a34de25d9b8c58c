"""Places of a graph's nodes in the plane: the same graph, the same picture."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

FEW = 150
"""Most nodes that are placed by graph distance (Kamada-Kawai)."""
PIVOTS, STEPS = 40, 60

Places = NDArray[np.float64]


def layout(graph: nx.Graph) -> Places:
    """Return places, shape (N, 2), of the nodes in ascending order, the first on top or on the left.

    Rings and complete graphs are circles, few nodes lie by their distances, many by pivots and springs.
    """
    count, nodes = len(graph), sorted(graph)
    degrees = {degree for _, degree in graph.degree()}
    connected = nx.is_connected(graph)
    if count > 2 and connected and degrees in ({2}, {count - 1}):
        around = nodes if degrees != {2} else list(nx.dfs_preorder_nodes(graph, nodes[0]))
        turns = np.pi / 2 - 2 * np.pi * np.argsort(around) / count
        return np.column_stack([np.cos(turns), np.sin(turns)])
    if count <= FEW and connected:
        found = nx.kamada_kawai_layout(graph)
        places = np.array([found[node] for node in nodes])
    else:
        places = _springs(_pivots(graph, nodes), nx.convert_node_labels_to_integers(graph, ordering="sorted"))
    places = places - places.mean(axis=0)
    places = places @ np.linalg.svd(places, full_matrices=False)[2].T  # the longest way lies flat
    return np.asarray(places * np.where(places[0] > 0, -1.0, 1.0) * (1.0, -1.0))


def _pivots(graph: nx.Graph, nodes: Sequence[int]) -> Places:
    """Pivot MDS (Brandes, Pich 2007): the two main axes of the distances from a few nodes that are far apart."""
    columns: list[NDArray[np.float64]] = []
    pivot, nearest = nodes[0], np.full(len(nodes), np.inf)
    for _ in range(min(PIVOTS, len(nodes))):
        steps = nx.single_source_shortest_path_length(graph, pivot)
        far = 1.0 + max(steps.values())  # another component
        columns.append(np.array([float(steps.get(node, far)) for node in nodes]))
        nearest = np.minimum(nearest, columns[-1])
        pivot = nodes[int(nearest.argmax())]
    squared = np.column_stack(columns) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    axes, sizes, _ = np.linalg.svd(-0.5 * centred, full_matrices=False)
    return np.asarray(axes[:, :2] * np.maximum(sizes[:2], 1e-9))


def _springs(places: Places, graph: nx.Graph) -> Places:
    """Fruchterman and Reingold's forces from these places on; twins are put apart by their number."""
    count = len(places)
    edges = np.array(list(graph.edges()), dtype=np.intp).reshape(-1, 2)
    turns = 2.399963 * np.arange(count)  # the golden angle
    places = places / max(float(np.ptp(places, axis=0).max()), 1e-12)
    places = places + 0.02 * np.column_stack([np.cos(turns), np.sin(turns)])
    apart = 1.0 / np.sqrt(count)
    for step in range(STEPS):
        x, y = (places[:, k, None] - places[None, :, k] for k in (0, 1))
        push = apart * apart / np.maximum(x * x + y * y, 1e-8)
        move = np.column_stack([(push * x).sum(axis=1), (push * y).sum(axis=1)])
        along = places[edges[:, 0]] - places[edges[:, 1]]
        pull = along * np.linalg.norm(along, axis=1, keepdims=True) / apart
        np.subtract.at(move, edges[:, 0], pull)
        np.add.at(move, edges[:, 1], pull)
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
        places = places + move / length * np.minimum(length, 0.06 * (1.0 - step / STEPS))
    return places
