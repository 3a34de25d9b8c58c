"""The run's own graph says what networkx's says."""

from __future__ import annotations

import copy
import pickle
import sys

import networkx as nx
import pytest

from admmnet.graph import Graph, check_topology, network_of
from admmnet.graph.simple import parts_of

SPECS = ["ring:7", "grid:1x6", "torus:3x4", "star:5", "erdos-renyi:12:0.3"]


@pytest.mark.parametrize("spec", SPECS)
def test_it_says_what_networkx_says(spec: str) -> None:
    ours = network_of(spec, seed=2)
    theirs = ours.networkx
    assert type(theirs) is nx.Graph
    assert (list(ours), len(ours)) == (list(theirs), len(theirs))
    assert list(ours.edges) == sorted(tuple(sorted(edge)) for edge in theirs.edges)
    assert [list(ours[i]) for i in ours] == [sorted(theirs[i]) for i in theirs]
    assert [(i, ours.degree(i)) for i in ours] == list(theirs.degree())
    pairs = [(i, j) for i in range(-1, len(ours) + 1) for j in ours]
    assert [ours.has_edge(*pair) for pair in pairs] == [theirs.has_edge(*pair) for pair in pairs]
    assert len(ours) not in ours


def test_parts_are_those_of_networkx() -> None:
    for seed in range(20):
        theirs = nx.gnp_random_graph(15, 0.12, seed=seed)
        ours = Graph(15, theirs.edges)
        some = set(range(0, 15, 2))
        assert parts_of(ours) == list(nx.connected_components(theirs))
        assert parts_of(ours, some) == sorted(nx.connected_components(theirs.subgraph(some)), key=min)


def test_it_is_copied_and_checked_as_it_is() -> None:
    graph = network_of("ring:5")
    assert check_topology(graph) is graph
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert (list(other.edges), other[0]) == (list(graph.edges), (1, 4))


def test_plain_specs_do_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)  # importing it raises
    for spec in (*SPECS, "edges:0-1,1-2"):
        assert len(network_of(spec)) > 2
    with pytest.raises(ImportError):
        network_of("small-world:20:4:0.1")
