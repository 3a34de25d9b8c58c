"""Networks from specs and files are those of networkx; what is no network is refused with its place."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.graph import load_topology, network_of, write_topology
from admmnet.graph.files import SUFFIXES, named
from admmnet.graph.simple import check_topology
from admmnet.graph.specs import SPECS, is_random


def same(first: nx.Graph, second: nx.Graph) -> bool:
    """Equal nodes, edges and neighbours, in equal order, without attributes."""
    edges: list[Any] = [[(i, j, {}) for i, j in graph.edges] for graph in (first, second)]
    return (
        list(first.nodes(data=True)) == list(second.nodes(data=True)) == [(i, {}) for i in first]
        and [*first.edges(data=True)] == [*second.edges(data=True)] == edges[0] == edges[1]
        and [list(first[i]) for i in first] == [list(second[i]) for i in second]
    )


def refusal(source: Any, seed: int = 0) -> str:
    with pytest.raises(RequestError) as caught:
        check_topology(source, "mine") if hasattr(source, "edges") else load_topology(source, seed=seed)
    return str(caught.value)


MADE = {
    "ring:7": nx.cycle_graph(7),
    "path:2": nx.path_graph(2),
    "star:5": nx.star_graph(4),
    "complete:6": nx.complete_graph(6),
    "grid:3x4": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)),
    "grid:1x4": nx.path_graph(4),
    "torus:3x4": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4, periodic=True)),
    "erdos-renyi:20:0.3": nx.gnp_random_graph(20, 0.3, seed=0),
    "erdos-renyi:4:1": nx.complete_graph(4),
    "small-world:20:4:0.1": nx.watts_strogatz_graph(20, 4, 0.1, seed=0),
    "regular:20:3": nx.random_regular_graph(3, 20, seed=0),
    "barabasi-albert:20:2": nx.barabasi_albert_graph(20, 2, seed=0),
    "geometric:20:0.4": nx.random_geometric_graph(20, 0.4, seed=0),
}


@pytest.mark.parametrize("spec", MADE)
def test_a_spec_is_the_generator_of_networkx(spec: str) -> None:
    graph = load_topology(spec)
    assert nx.utils.edges_equal(graph.edges(), MADE[spec].edges())
    assert list(graph) == list(range(len(graph)))
    assert list(graph.edges()) == sorted(tuple(sorted(edge)) for edge in graph.edges())
    assert same(graph, check_topology(graph).networkx)
    if spec in SPECS:
        assert is_random(spec) is (len({tuple(load_topology(spec, seed=seed).edges()) for seed in range(4)}) > 1)


def test_random_specs_take_the_first_connected_draw() -> None:
    draws = [nx.gnp_random_graph(12, 0.15, seed=seed) for seed in range(100)]
    first = next(seed for seed in range(100) if nx.is_connected(draws[seed]))
    assert first > 0
    for seed in (0, first):
        found = load_topology("erdos-renyi:12:0.15", seed=seed)
        assert nx.utils.edges_equal(found.edges(), draws[first].edges())
    for spec, degree in (("regular:100:90", 90), ("regular:5:4", 4)):  # by their complements
        assert {degree} == {count for _, count in load_topology(spec).degree()}


@pytest.mark.parametrize(
    ("words", "specs"),
    [
        ("a ring needs N >= 3", ["ring:2"]),
        ("N must be a whole number", ["ring:five", "ring:٣"]),
        ("expected ring:N", ["ring"]),
        ("at least 2 agents, got 1", ["path:1"]),
        ("12,497,500 edges", ["complete:5000"]),
        ("beyond the limit", ["ring:1000001"]),
        ("R >= 1 and C >= 1", ["grid:0x4"]),
        ("two whole numbers", ["grid:3"]),
        ("a torus needs", ["torus:2x4"]),
        ("0 < P <= 1", ["erdos-renyi:20:0", "erdos-renyi:20:1.5"]),
        ("P must be a number", ["erdos-renyi:20:much"]),
        ("too small for 20 agents", ["erdos-renyi:20:0.01"]),
        ("2 <= K < N", ["small-world:20:1:0.1", "regular:6:1", "regular:6:6"]),
        ("an even K", ["small-world:20:3:0.1"]),
        ("0 <= P <= 1", ["small-world:20:4:-0.1"]),
        ("N*K even", ["regular:5:3"]),
        ("1 <= M < N", ["barabasi-albert:5:5"]),
        ("0 < RADIUS <= 2", ["geometric:20:0"]),
        ("the radius 0.01 is too small", ["geometric:90:0.01"]),
        ("did you mean ring:9?", ["rings:9"]),
        ("did you mean ring:5?", ["Ring:5:5"]),
        ("unknown", ["x" * 5000]),
        ("no such file", ["my/graph"]),
        ("pairs of agents", ["edges:0-1,12"]),
    ],
)
def test_a_wrong_spec_is_refused_with_the_bound(words: str, specs: list[str]) -> None:
    for spec in specs:
        message = refusal(spec)
        assert words in message
        assert len(message) < 400
        if not spec.startswith("edges:"):
            assert spec[:30] in message
            assert "seed must be 0 or more" in refusal(spec, seed=-1)


def node_link(nodes: Iterable[object], pairs: Iterable[tuple[object, object]], **more: object) -> str:
    edges = [{"source": i, "target": j, "weight": 2} for i, j in pairs]
    return json.dumps({"nodes": [{"id": node, "pos": [1, 2]} for node in nodes], "edges": edges} | more)


WRITERS: dict[str, Callable[[nx.Graph, Path], Any]] = {
    ".edges": nx.write_edgelist,  # with the empty attributes in braces
    ".edgelist": nx.write_edgelist,
    ".csv": lambda graph, path: nx.write_edgelist(graph, path, delimiter=",", data=False),
    ".adjlist": nx.write_adjlist,
    # by hand: the keyword that names the edges differs between versions of networkx
    ".json": lambda graph, path: path.write_text(node_link(graph, graph.edges())),
    ".graphml": nx.write_graphml_xml,
    ".gml": nx.write_gml,
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_give_graphs_back_in_whatever_order_they_stand(suffix: str, tmp_path: Path) -> None:
    for spec in (*SPECS, "path:2", "star:40"):
        graph, path = load_topology(spec), tmp_path / f"graph{suffix}"
        write_topology(graph, path)
        assert same(load_topology(path), graph)
        turned = nx.Graph()
        turned.add_nodes_from(reversed(list(graph)))
        turned.add_edges_from((j, i) for i, j in reversed(list(graph.edges())))
        WRITERS[suffix](turned, path)
        assert same(load_topology(path), graph)


GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">{}</graph></graphml>'
LABELS = """graph [ node [ id 7 label "0" ] node [ id 8 label "1" ] node [ id 9 label 2 ]
    edge [ source 7 target 8 ] edge [ source 7 target 9 ] edge [ source 8 target 9 ] ]"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.edges", "# a triangle\n\n0 1  # first\r\n2\t0\n 1 2 {'weight': 3}\n"),
        ("BOM.EDGES", "\ufeff0 1 0.5\n1 2\n2 0"),
        ("head.csv", 'from,to\n"0",1\n2,0\n1,2\n'),
        ("bare.csv", '"0",1\n2,0\n1,2\n'),
        ("one.adjlist", "# half\n2 1 0\n1 0\n0\n"),
        ("links.json", node_link("201", [("1", "0"), ("2", "0"), ("2", "1")]).replace("edges", "links")),
        ("labels.gml", LABELS),
    ],
)
def test_files_by_hand_are_read(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert same(load_topology(str(tmp_path / name)), load_topology("ring:3"))


TWICE = "edge [ source 0 target 1 ]" * 2
REFUSED = [
    ("loop.edges", "0 1\n# so\n1 1\n", "line 3: self-loop 1-1"),
    ("twice.edges", "0 1\n1 2\n2 1\n", "line 3: parallel edge 2-1: line 2 has it already"),
    ("parts.edges", "0 1\n2 3\n", "not connected, it has 2 parts: {0, 1}, {2, 3}"),
    ("many.edges", "".join(f"{2 * i} {2 * i + 1}\n" for i in range(50)), "50 parts: {0, 1}, {2, 3}, {4, 5}, ...;"),
    ("big.edges", "".join(f"{i} {i + 1}\n" for i in range(40) if i != 20), "{0, 1, 2, 3, ... 21 agents}"),
    ("one.edges", "1 2\n2 3\n", "there is 3 and no 0; subtract 1 from every number"),
    ("gap.edges", "0 1\n1 4\n4 2\n", "line 2: agents are numbered 0..N-1 without gaps, but there is 4 and no 3"),
    ("zero.edges", "0 1\n1 02\n", "line 2: agents are numbered 0..N-1, got '02'"),
    ("huge.edges", f"0 1\n1 {'7' * 5000}\n", "is beyond the limit"),
    ("least.edges", "0 1\n1 1000000\n", "line 2: agent '1000000' is beyond the limit"),
    ("weight.edges", "0 1 -0.5\n", "line 1: expected two agents"),
    ("empty.edges", "# nothing\n", "at least 2 agents, got 0"),
    ("matrix.csv", "0,1,1\n1,0,0\n0,0,0\n", "expected two agents"),
    ("again.adjlist", "0 1\n1 0 0\n", "line 2: parallel edge 1-0"),
    ("alone.adjlist", "0 1\n2\n", "not connected"),
    ("deep.json", "[" * 100_000, "cannot be read as node-link JSON: nested too deep"),
    ("both.json", '{"nodes": [], "edges": [], "links": []}', "either 'edges' or 'links'"),
    ("scalar.json", '{"nodes": 3, "edges": []}', "nodes: expected a list"),
    ("noid.json", '{"nodes": [{"name": 0}], "edges": []}', "nodes[0]: missing key `id`"),
    ("float.json", node_link([0.0, 1], []), "got 0.0"),
    ("double.json", node_link([0, 1, 1], []), "a node is listed twice"),
    ("directed.json", node_link([0, 1], [(0, 1)], directed=True), "directed graph"),
    ("multi.json", node_link([0, 1], [(0, 1)], multigraph=True), "multigraph"),
    ("ghost.json", node_link([0, 1], [(0, 2)]), "edge 0-2: agent 2 is not under 'nodes'"),
    ("broken.graphml", "<graphml", "cannot be read as GraphML"),
    ("twice.graphml", GRAPHML.format('<edge source="0" target="1"/>' * 2), "multigraph"),
    ("arrow.graphml", GRAPHML.format('<edge directed="true" source="0" target="1"/>'), "directed graph"),
    ("directed.gml", "graph [ directed 1 node [ id 0 ] node [ id 1 ] ]", "directed graph"),
    ("half.gml", 'graph [ node [ id 0 label "0" ] node [ id 1 ] ]', "node #1 has no 'label'"),
    ("same.gml", 'graph [ node [ id 0 label "1" ] node [ id 1 label 1 ] ]', "two nodes have the same number"),
    ("twice.gml", f"graph [ node [ id 0 ] node [ id 1 ] {TWICE} ]", "parallel edge"),
    ("matrix.npy", "", "its suffix is '.npy'"),
    ("bytes.edges", "0 1\n\udcff", "not UTF-8 text at byte 4"),
]


@pytest.mark.parametrize(("name", "text", "words"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_a_wrong_file_is_refused_with_the_place(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    message = refusal(str(tmp_path / name))
    assert words in message
    assert message.startswith(str(tmp_path / name))
    assert len(message) < len(str(tmp_path)) + 250


def test_no_network_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    one_way = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert "directed graph" in refusal(nx.from_numpy_array(one_way, create_using=nx.DiGraph))
    with pytest.raises(RequestError, match=r"ndarray.* where A equals its transpose, networkx.from_numpy_array"):
        check_topology(one_way)
    for pairs in ([(0, 1), (1, 1)], [(0, -1)], [(False, True)], [(0, "1"), (1, 2)]):
        assert refusal(nx.Graph(pairs)).startswith("mine: ")
    assert refusal(nx.MultiGraph([(0, 1)])).startswith("mine: ")
    (tmp_path / "folder.edges").mkdir()
    assert "cannot be read" in refusal(tmp_path / "folder.edges")
    assert "no such file" in refusal(tmp_path / "none.edges")
    for graph, path in ((nx.path_graph(3), "a.txt"), (nx.path_graph(3), "none/a.edges"), (nx.empty_graph(3), "a.csv")):
        with pytest.raises(RequestError):
            write_topology(graph, tmp_path / path)
    assert list(tmp_path.iterdir()) == [tmp_path / "folder.edges"]
    assert len(load_topology("ring:6", agents=6)) == 6
    with pytest.raises(RequestError, match="6 nodes but --agents says 5"):
        load_topology("ring:6", agents=5)


def test_plain_specs_do_without_networkx_and_one_of_many_edges_has_a_short_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert named("edges:" + ",".join(f"{i}-{i + 1}" for i in range(20))) == "edges:0-1,1-2,2-3,... (20 edges)"
    for short in ("edges:0-1,1-2", f"{'a' * 50}.edges"):
        assert named(short) == short
    monkeypatch.setitem(sys.modules, "networkx", None)  # importing it raises
    for spec in ("ring:7", "torus:3x4", "erdos-renyi:12:0.3", "edges:0-1,1-2"):
        graph = network_of(spec)
        assert check_topology(graph) is graph
        assert [copy.deepcopy(graph)[i] for i in graph] == [graph[i] for i in graph]
