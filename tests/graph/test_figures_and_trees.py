"""Figures, parts and spanning trees of networks agree with networkx and with their definitions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from admmnet.graph import describe, load_topology, network_of, write_topology
from admmnet.graph.files import SUFFIXES
from admmnet.graph.simple import OUTSIDE, Graph, check_topology, parts_of, spanning_tree

SHIPPED = Path(__file__).parents[2] / "topologies"
SPECS = ["path:2", "path:9", "ring:8", "star:7", "complete:5", "grid:3x4", "erdos-renyi:25:0.2"]


@pytest.mark.parametrize("spec", [*SPECS, "two sides"])
def test_figures_and_parts_agree_with_networkx(spec: str) -> None:
    sides = check_topology(nx.complete_bipartite_graph(3, 3))  # the lowest eigenvalue of its weights is the largest
    ours = sides if spec == "two sides" else network_of(spec, seed=3)
    graph, facts, degree = ours.networkx, describe(ours), dict(ours.networkx.degree())
    assert (facts.nodes, facts.edges) == (len(graph), graph.number_of_edges())
    assert (facts.degree_min, facts.degree_max) == (min(degree.values()), max(degree.values()))
    assert facts.degree_mean == pytest.approx(2 * facts.edges / facts.nodes)
    assert (facts.diameter, facts.is_bipartite) == (nx.diameter(graph), nx.is_bipartite(graph))
    assert facts.algebraic_connectivity == pytest.approx(nx.laplacian_spectrum(graph)[1], abs=1e-8)
    weights = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        weights[i, j] = weights[j, i] = 1 / (1 + max(degree[i], degree[j]))
    weights += np.diag(1 - weights.sum(axis=1))
    # the gap is also 1 - ||W - 11^T/N||, for the weights are symmetric and their rows sum to 1
    assert facts.spectral_gap == pytest.approx(1 - np.linalg.norm(weights - 1 / len(graph), 2), rel=1e-9, abs=1e-12)
    for some in (set(range(0, len(graph), 2)), set(range(len(graph))) - {1, 4}):
        assert parts_of(ours, some) == sorted(nx.connected_components(graph.subgraph(some)), key=min)
        assert ours.among(some).edges == tuple(sorted(tuple(sorted(pair)) for pair in graph.subgraph(some).edges))
    assert [list(ours[i]) for i in ours] == [sorted(graph[i]) for i in graph]


def test_the_table_of_shipped_files_is_true() -> None:
    lines = (SHIPPED / "README.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| [")]
    rows = {first[1:].partition("]")[0]: rest[:6] for _, first, *rest in cells}
    files = [path for path in SHIPPED.iterdir() if path.suffix in SUFFIXES]
    assert rows.keys() == {path.name for path in files}
    for path in files:
        facts = describe(network_of(path))
        sizes = [str(facts.nodes), str(facts.edges), f"{facts.degree_min}-{facts.degree_max}", str(facts.diameter)]
        assert rows[path.name] == [*sizes, f"{facts.algebraic_connectivity:.3f}", f"{facts.spectral_gap:.3f}"]


@pytest.mark.parametrize("spec", [*SPECS, "path:6", "barabasi-albert:30:2"])
def test_a_tree_spans_its_graph_breadth_first_from_near_the_centre(spec: str) -> None:
    graph = load_topology(spec, seed=4)
    tree = spanning_tree(nx.disjoint_union(graph, nx.empty_graph(1)), {len(graph)})
    assert tree is not None
    found = nx.DiGraph([(int(tree.parent[i]), i) for i in tree.agents if i != tree.root])
    assert set(found) == set(graph)
    assert nx.is_arborescence(found)
    assert all(graph.has_edge(*edge) for edge in found.edges)
    distance = nx.single_source_shortest_path_length(graph, tree.root)
    assert tree.depth.tolist() == [*(distance[i] for i in graph), -1]
    assert tree.depth.max() <= nx.radius(graph) + (not nx.is_tree(graph))
    for i in tree.agents:
        assert sorted(tree.branches[i]) == sorted({i} | nx.descendants(found, i))
    for speaking in (set(graph), {i for i in graph if i % 3 == 0}, {len(graph) - 1}):
        goes = [i != tree.root and bool(speaking & set(tree.branches[i])) for i in graph]
        sent = [found.out_degree(i) + goes[i] for i in graph]
        assert tree.messages(sorted(speaking)).tolist() == [*sent, 0]


def test_trees_leave_out_those_that_are_lost_and_ties_go_to_the_lowest() -> None:
    ring = nx.Graph([(4, 3), (0, 4), (2, 1), (3, 2), (1, 0)])  # neighbours in another order than their numbers
    lost: list[tuple[nx.Graph, set[int]]] = [(nx.cycle_graph(6), {2}), (nx.path_graph(3), {1, 2}), (ring, set())]
    tree, alone, middle = (spanning_tree(*of) for of in lost)
    assert tree is not None
    assert alone is not None
    assert middle is not None
    assert (tree.agents, tree.root) == ((0, 1, 3, 4, 5), 5)
    assert tree.parent.tolist() == [5, 0, OUTSIDE, 4, 5, -1]
    assert (alone.root, alone.agents) == (0, (0,))
    assert middle.parent.tolist() == [1, -1, 1, 2, 0]  # of 0 and its furthest, 2, the middle
    assert spanning_tree(nx.path_graph(5), {2}) is None
    assert spanning_tree(nx.path_graph(2), {0, 1}) is None


@pytest.mark.timeout(60)  # two seconds on an idle core; hours if it were quadratic
def test_fifty_thousand_agents_are_read_and_have_a_flat_tree(tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(50_000).tolist()
    graph = Graph(50_000, {(min(pair), max(pair)) for pair in (*pairwise(range(50_000)), *pairwise(order))})
    write_topology(graph, tmp_path / "large.edges")
    assert network_of(tmp_path / "large.edges").edges == graph.edges
    tree = spanning_tree(graph)
    assert tree is not None
    assert tree.depth.max() < 20
    facts = describe(graph)
    assert (facts.diameter, facts.algebraic_connectivity, facts.spectral_gap) == (None, None, None)
