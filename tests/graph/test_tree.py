"""Spanning trees: valid, central, the same from any description of a graph, and quick for large ones."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from admmnet.graph import Graph, load_topology
from admmnet.graph.tree import OUTSIDE, Tree, spanning_tree

SPECS = ("path:9", "ring:8", "star:7", "complete:5", "grid:3x4", "erdos-renyi:20:0.2", "barabasi-albert:30:2")


def edges_of(tree: Tree) -> list[tuple[int, int]]:
    return [(int(tree.parent[i]), i) for i in tree.agents if i != tree.root]


@pytest.mark.parametrize("spec", SPECS)
def test_a_tree_spans_its_graph_breadth_first_from_near_the_centre(spec: str) -> None:
    graph = load_topology(spec, seed=4)
    tree = spanning_tree(graph)
    assert tree is not None
    found = nx.Graph(edges_of(tree))
    assert set(found) == set(graph)
    assert nx.is_tree(found)
    assert all(graph.has_edge(*edge) for edge in found.edges)
    distance = nx.single_source_shortest_path_length(graph, tree.root)
    assert tree.depth.tolist() == [distance[i] for i in sorted(graph)]
    radius = nx.radius(graph)
    assert tree.depth.max() <= radius + 1
    if nx.is_tree(graph):
        assert tree.depth.max() == radius
    # of the neighbours that are one step nearer, the one found first
    assert tree.children.tolist() == [found.degree(i) - (i != tree.root) for i in sorted(graph)]


@pytest.mark.parametrize("spec", SPECS)
def test_a_branch_is_all_that_hangs_on_an_agent(spec: str) -> None:
    graph = load_topology(spec, seed=4)
    tree = spanning_tree(nx.disjoint_union(graph, nx.empty_graph(1)), {len(graph)})
    assert tree is not None
    downwards = nx.DiGraph([(int(tree.parent[i]), i) for i in tree.agents if i != tree.root])
    for i in tree.agents:
        assert sorted(tree.branch(i)) == sorted({i} | nx.descendants(downwards, i))


def test_the_order_in_which_edges_are_given_makes_no_difference() -> None:
    graph = load_topology("erdos-renyi:25:0.2", seed=1)
    stream = np.random.default_rng(0)
    edges = [tuple(reversed(edge)) if stream.random() < 0.5 else edge for edge in graph.edges]
    stream.shuffle(edges)
    other = nx.Graph()
    other.add_nodes_from(stream.permutation(25).tolist())
    other.add_edges_from(edges)
    one, two = spanning_tree(graph), spanning_tree(other)
    assert one is not None
    assert two is not None
    assert one.root == two.root
    assert one.parent.tolist() == two.parent.tolist()


def test_who_is_lost_is_outside() -> None:
    graph = nx.cycle_graph(6)
    tree = spanning_tree(graph, {2})
    assert tree is not None
    assert tree.agents == (0, 1, 3, 4, 5)
    assert tree.parent[2] == OUTSIDE
    assert tree.depth[2] == -1
    assert set(map(frozenset, edges_of(tree))) == {frozenset(p) for p in ((3, 4), (4, 5), (5, 0), (0, 1))}


def test_what_is_not_connected_has_no_tree() -> None:
    assert spanning_tree(nx.path_graph(5), {2}) is None
    assert spanning_tree(nx.path_graph(2), {0, 1}) is None
    alone = spanning_tree(nx.path_graph(3), {1, 2})
    assert alone is not None
    assert (alone.root, alone.agents) == (0, (0,))


@pytest.mark.timeout(60)  # half a second on an idle core; hours if it were quadratic
def test_a_hundred_thousand_agents_have_a_flat_tree() -> None:
    order = np.random.default_rng(1).permutation(100_000).tolist()
    tree = spanning_tree(Graph(100_000, [*pairwise(range(100_000)), *pairwise(order)]))
    assert tree is not None
    assert len(tree.agents) == 100_000
    assert tree.depth.max() < 20
