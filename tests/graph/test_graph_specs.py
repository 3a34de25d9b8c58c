"""Topologies from specs: what each one gives, and which are refused."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from admmnet.errors import RequestError
from admmnet.graph import SPECS, check_topology, is_random, load_topology, write_topology
from tests.graph_checks import refusal, same


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_gives_a_clean_network_and_the_same_one_twice(spec: str) -> None:
    graph = load_topology(spec)
    assert type(graph) is nx.Graph
    assert list(graph) == list(range(len(graph)))
    assert list(graph.edges()) == sorted(tuple(sorted(edge)) for edge in graph.edges())
    assert nx.is_connected(graph)
    assert same(graph, load_topology(spec))
    assert same(graph, check_topology(graph).networkx)


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        ("ring:7", nx.cycle_graph(7)),
        ("path:2", nx.path_graph(2)),
        ("star:5", nx.star_graph(4)),
        ("complete:6", nx.complete_graph(6)),
        ("grid:1x4", nx.path_graph(4)),
        ("erdos-renyi:20:0.3", nx.gnp_random_graph(20, 0.3, seed=0)),
        ("erdos-renyi:4:1", nx.complete_graph(4)),
        ("small-world:20:4:0.1", nx.watts_strogatz_graph(20, 4, 0.1, seed=0)),
        ("regular:20:3", nx.random_regular_graph(3, 20, seed=0)),
        ("barabasi-albert:20:2", nx.barabasi_albert_graph(20, 2, seed=0)),
        ("geometric:20:0.4", nx.random_geometric_graph(20, 0.4, seed=0)),
    ],
)
def test_a_spec_is_the_networkx_generator(spec: str, made: nx.Graph) -> None:
    assert nx.utils.edges_equal(load_topology(spec).edges(), made.edges())


@pytest.mark.parametrize("spec", SPECS)
def test_a_seed_decides_the_graphs_that_are_said_to_be_random(spec: str) -> None:
    graphs = {tuple(load_topology(spec, seed=seed).edges()) for seed in range(4)}
    assert is_random(spec) is (len(graphs) > 1)


def test_grids_are_numbered_row_by_row() -> None:
    assert set(load_topology("grid:3x4")[5]) == {1, 4, 6, 9}
    assert set(load_topology("torus:3x4")[0]) == {1, 3, 4, 8}
    assert set(load_topology("grid:11x12")[12]) == {0, 13, 24}


def test_random_specs_take_the_first_connected_draw() -> None:
    first = next(seed for seed in range(1000) if nx.is_connected(nx.gnp_random_graph(12, 0.15, seed=seed)))
    assert first > 0
    assert nx.utils.edges_equal(
        load_topology("erdos-renyi:12:0.15").edges(), nx.gnp_random_graph(12, 0.15, seed=first).edges()
    )


@pytest.mark.parametrize("spec", ["regular:20:17", "regular:100:90", "regular:5:4"])
def test_dense_regular_graphs_are_regular_and_quick(spec: str) -> None:
    degree = int(spec.rpartition(":")[2])
    assert {degree} == {count for _, count in load_topology(spec).degree()}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("ring:2", "a ring needs N >= 3 agents, got 2; for two agents use path:2"),
        ("ring:five", "N must be a whole number, got 'five'; the form is ring:N"),
        ("ring:٣", "N must be a whole number"),
        ("ring", "expected ring:N, for example ring:5"),
        ("path:1", "a network needs at least 2 agents, got 1"),
        ("complete:5000", "12,497,500 edges, the limit is 10,000,000; choose a sparser graph"),
        ("ring:1000001", "1,000,001 agents are beyond the limit of 1,000,000"),
        ("grid:0x4", "R >= 1 and C >= 1, got 0x4"),
        ("grid:3", "RxC must be two whole numbers such as 3x4, got '3'"),
        ("grid:3xfour", "RxC must be two whole numbers such as 3x4, got '3xfour'"),
        ("torus:2x4", "a torus needs R >= 3 and C >= 3, got 2x4; use grid"),
        ("erdos-renyi:20:0", "erdos-renyi needs 0 < P <= 1, got 0.0"),
        ("erdos-renyi:20:nan", "erdos-renyi needs 0 < P <= 1, got nan"),
        ("erdos-renyi:20:much", "P must be a number, got 'much'"),
        ("erdos-renyi:20:0.01", "the probability P=0.01 is too small for 20 agents, raise it"),
        ("small-world:20:1:0.1", "small-world needs 2 <= K < N, got K=1 with N=20"),
        ("small-world:20:3:0.1", "small-world needs an even K, got 3; use 2 or 4"),
        ("small-world:20:4:-0.1", "small-world needs 0 <= P <= 1, got -0.1"),
        ("regular:5:3", "regular needs N*K even, got 5*3"),
        ("regular:6:1", "regular needs 2 <= K < N, got K=1 with N=6"),
        ("barabasi-albert:5:5", "barabasi-albert needs 1 <= M < N, got M=5 with N=5"),
        ("geometric:20:0", "geometric needs 0 < RADIUS <= 2"),
        ("geometric:200:0.01", "the radius 0.01 is too small for 200 agents, raise it"),
        ("Ring:5", "did you mean ring:5?"),
        ("rings:9", "did you mean ring:9?"),
        ("wheel:5", "barabasi-albert:20:2"),
        ("", "unknown"),
        ("x" * 5000, "unknown"),
        ("my/graph", "no such file"),
        ("graph.txt", "no such file: correct the path"),
    ],
)
def test_a_wrong_spec_is_refused_with_the_bound(spec: str, words: str) -> None:
    message = refusal(spec)
    assert words in message
    assert (spec if len(spec) < 38 else spec[:30]) in message
    assert "seed must be 0 or more, got -1" in refusal(spec, seed=-1)


def test_the_number_of_agents_must_fit(tmp_path: Path) -> None:
    write_topology(load_topology("ring:6"), tmp_path / "six.edges")
    for source in ("ring:6", str(tmp_path / "six.edges")):
        assert len(load_topology(source, agents=6)) == 6
        with pytest.raises(RequestError, match="the topology has 6 nodes but --agents says 5"):
            load_topology(source, agents=5)
