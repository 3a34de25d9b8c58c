"""Figures of topologies, and the topology files we ship."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from admmnet.graph import SUFFIXES, check_topology, describe, load_topology

SHIPPED = Path(__file__).parents[2] / "topologies"
FILES = sorted(path for path in SHIPPED.iterdir() if path.suffix in SUFFIXES)


# --- figures ---


@pytest.mark.parametrize(
    ("spec", "diameter", "connectivity"),
    [
        ("path:2", 1, 2.0),
        ("ring:10", 5, 2 - 2 * math.cos(2 * math.pi / 10)),
        ("path:6", 5, 2 - 2 * math.cos(math.pi / 6)),
        ("star:7", 2, 1.0),
        ("complete:8", 1, 8.0),
        ("torus:4x4", 4, 2.0),
    ],
)
def test_figures_of_graphs_with_a_closed_form(spec: str, diameter: int, connectivity: float) -> None:
    facts = describe(load_topology(spec))
    assert facts.diameter == diameter
    assert facts.algebraic_connectivity == pytest.approx(connectivity, rel=1e-9)


def test_figures_agree_with_networkx_and_the_definition_of_metropolis_weights() -> None:
    graph = load_topology("erdos-renyi:25:0.2", seed=3)
    facts = describe(graph)
    degree = dict(graph.degree())
    assert facts.diameter == nx.diameter(graph)
    assert (facts.degree_min, facts.degree_max) == (min(degree.values()), max(degree.values()))
    assert facts.degree_mean == pytest.approx(2 * facts.edges / facts.nodes)
    # the gap is also 1 - ||W - 11^T/N||, for the weights are symmetric and their rows sum to 1
    weights = np.zeros((25, 25))
    for i, j in graph.edges():
        weights[i, j] = weights[j, i] = 1 / (1 + max(degree[i], degree[j]))
    weights += np.diag(1 - weights.sum(axis=1))
    assert facts.spectral_gap == pytest.approx(1 - np.linalg.norm(weights - 1 / 25, 2), rel=1e-9)


def test_the_gap_is_that_of_the_lowest_eigenvalue_where_it_is_the_largest_in_size() -> None:
    facts = describe(check_topology(nx.complete_bipartite_graph(3, 3)))  # W = (I + A) / 4: 1, 1/4, -1/2
    assert facts.spectral_gap == pytest.approx(0.5, rel=1e-12)


def test_facts_as_a_dictionary_go_into_json() -> None:
    data = json.loads(json.dumps(asdict(describe(load_topology("complete:4")))))
    assert data["nodes"] == 4
    assert data["edges"] == 6
    assert data["is_bipartite"] is False
    assert describe(load_topology("grid:3x4")).is_bipartite


# --- the files we ship ---


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_shipped_file_loads_under_the_number_in_its_name(path: Path) -> None:
    graph = load_topology(str(path))
    size = re.search(r"-(\d+)(?:x(\d+))?\.", path.name)
    if size:
        assert len(graph) == int(size[1]) * int(size[2] or 1)


def test_the_table_of_shipped_files_is_complete_and_true() -> None:
    rows = {}
    for line in (SHIPPED / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith("["):
            rows[cells[0].partition("]")[0][1:]] = cells[1:7]
    expected = {}
    for path in FILES:
        facts = describe(load_topology(str(path)))
        expected[path.name] = [
            str(facts.nodes),
            str(facts.edges),
            f"{facts.degree_min}-{facts.degree_max}",
            str(facts.diameter),
            f"{facts.algebraic_connectivity:.3f}",
            f"{facts.spectral_gap:.3f}",
        ]
    assert rows == expected
