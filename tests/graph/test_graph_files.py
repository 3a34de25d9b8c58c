"""Topology files: every format, round trips, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet.errors import RequestError
from admmnet.graph import SPECS, SUFFIXES, check_topology, describe, load_topology, write_topology
from admmnet.graph.files import named
from tests.graph_checks import refusal, same


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("spec", [*SPECS, "path:2", "star:40"])
def test_writing_and_reading_gives_the_graph_back(suffix: str, spec: str, tmp_path: Path) -> None:
    graph = load_topology(spec)
    path = tmp_path / f"graph{suffix}"
    write_topology(graph, path)
    first = path.read_bytes()
    assert same(load_topology(str(path)), graph)
    write_topology(graph, str(path))
    assert path.read_bytes() == first


@settings(max_examples=25, deadline=None, database=None)
@given(st.integers(2, 12), st.integers(0, 2**20), st.sampled_from(SUFFIXES))
def test_files_keep_the_agents_numbers_in_whatever_order(
    tmp_path_factory: pytest.TempPathFactory, agents: int, seed: int, suffix: str
) -> None:
    graph = load_topology(f"erdos-renyi:{agents}:0.5", seed=seed)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(reversed(list(graph)))
    shuffled.add_edges_from((j, i) for i, j in reversed(list(graph.edges())))
    path = tmp_path_factory.mktemp("shuffled") / f"graph{suffix}"
    networkx_writer(suffix)(shuffled, path)
    assert same(load_topology(path), graph)


def networkx_writer(suffix: str) -> Callable[[nx.Graph, Path], None]:
    writers: dict[str, Callable[[nx.Graph, Path], Any]] = {
        ".edges": nx.write_edgelist,  # with the empty attributes in braces
        ".edgelist": nx.write_edgelist,
        ".csv": lambda graph, path: nx.write_edgelist(graph, path, delimiter=",", data=False),
        ".adjlist": nx.write_adjlist,
        # by hand: the keyword that names the edges differs between versions of networkx
        ".json": lambda graph, path: path.write_text(node_link(graph, graph.edges())),
        ".graphml": nx.write_graphml_xml,
        ".gml": nx.write_gml,
    }
    return writers[suffix]


TRIANGLE = [(0, 1), (0, 2), (1, 2)]
GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">{}</graph></graphml>'


def node_link(nodes: Iterable[object], pairs: Iterable[tuple[object, object]], **more: object) -> str:
    edges = [{"source": i, "target": j, "weight": 2} for i, j in pairs]
    return json.dumps({"nodes": [{"id": node, "pos": [1, 2]} for node in nodes], "edges": edges} | more)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.edges", "# a triangle\n\n0 1  # first\r\n2\t0\n 1 2 {'weight': 3}\n"),
        ("bom.edges", "\ufeff0 1\n1 2\n2 0"),
        ("UPPER.EDGES", "0 1\n1 2\n2 0"),
        ("both.adjlist", "0 1 2\n1 0 2\n2 0 1\n"),
        ("one.adjlist", "# half\n2 1 0\n1 0\n0\n"),
        ("a.json", node_link([2, 0, 1], [(1, 0), (2, 0), (2, 1)], multigraph=False)),
        ("strings.json", node_link("201", [("1", "0"), ("2", "0"), ("2", "1")])),
        ("links.json", node_link([2, 0, 1], [(1, 0), (2, 0), (2, 1)]).replace("edges", "links")),
        ("a.graphml", GRAPHML.format('<node id="0"/><node id="1"/><node id="2"/><edge source="1" target="0"/>'
                                     '<edge source="2" target="0"/><edge id="e" source="1" target="2"/>')),
        ("ids.gml", "graph [ node [ id 0 ] node [ id 1 ] node [ id 2 ] edge [ source 0 target 1 ] "
                    "edge [ source 0 target 2 ] edge [ source 1 target 2 weight 3.5 ] ]"),
        ("labels.gml", 'graph [ node [ id 7 label "0" ] node [ id 8 label "1" ] node [ id 9 label 2 ] '
                       "edge [ source 7 target 8 ] edge [ source 7 target 9 ] edge [ source 8 target 9 ] ]"),
    ],
)  # fmt: skip
def test_handwritten_files_are_read(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    graph = load_topology(str(tmp_path / name))
    assert list(graph.edges()) == TRIANGLE
    assert not any(data for _, data in graph.nodes(data=True))
    assert not any(data for _, _, data in graph.edges(data=True))
    assert graph.graph == {}


EDGE = "edge [ source 0 target 1 ]"
REFUSED = [
    ("loop.edges", "0 1\n# so\n1 1\n", "line 3: self-loop 1-1"),
    ("twice.edges", "0 1\n1 2\n0 1\n", "line 3: parallel edge 0-1: line 1 has it already"),
    ("back.edges", "0 1\n1 2\n2 1\n", "line 3: parallel edge 2-1: line 2 has it already"),
    ("parts.edges", "0 1\n2 3\n", "not connected, it has 2 parts: {0, 1}, {2, 3}; add edges that join them"),
    ("many.edges", "".join(f"{2 * i} {2 * i + 1}\n" for i in range(50)), "50 parts: {0, 1}, {2, 3}, {4, 5}, ...;"),
    ("big.edges", "".join(f"{i} {i + 1}\n" for i in range(40) if i != 20), "parts: {0, 1, 2, 3, ... 21 agents}"),
    ("one.edges", "1 2\n2 3\n", "there is 3 and no 0; subtract 1 from every number"),
    ("gap.edges", "0 1\n1 4\n4 2\n", "line 2: agents are numbered 0..N-1 without gaps, but there is 4 and no 3"),
    ("name.edges", "0 1\n1 b\n", "line 2: agents are numbered 0..N-1, got 'b'"),
    ("zero.edges", "0 1\n1 02\n", "line 2: agents are numbered 0..N-1, got '02'"),
    ("huge.edges", "0 1\n1 1000000\n", "line 2: agent '1000000' is beyond the limit of 1,000,000 agents"),
    ("digits.edges", f"0 1\n1 {'7' * 5000}\n", "is beyond the limit"),
    ("weight.edges", "0 1 -0.5\n", "line 1: expected two agents such as '0 1', got '0 1 -0.5'"),
    ("comma.edges", "0,1\n", "line 1: expected two agents such as '0 1', got '0,1'"),
    ("empty.edges", "# nothing\n", "a network needs at least 2 agents, got 0"),
    ("twice.adjlist", "0 1\n1 0 0\n", "line 2: parallel edge 1-0: line 1 has it already"),
    ("single.adjlist", "0\n", "a network needs at least 2 agents, got 1"),
    ("again.adjlist", "0 1 1\n", "line 1: parallel edge 0-1"),
    ("parts.adjlist", "0 1\n2\n", "not connected, it has 2 parts: {0, 1}, {2}"),
    ("name.adjlist", "0 1\n# so\n1 Lund\n", "line 3: agents are numbered 0..N-1, got 'Lund'"),
    ("broken.json", '{"nodes": [', "cannot be read as JSON"),
    ("deep.json", "[" * 100_000, "cannot be read as JSON"),
    ("list.json", "[1, 2]", "expected a node-link object with 'nodes' and either 'edges' or 'links'"),
    ("both.json", '{"nodes": [], "edges": [], "links": []}', "either 'edges' or 'links'"),
    ("scalar.json", '{"nodes": 3, "edges": []}', "'nodes' must be a list, got 3"),
    ("noid.json", '{"nodes": [{"name": 0}], "edges": []}', "nodes[0] must be an object with 'id'"),
    ("end.json", '{"nodes": [{"id": 0}], "edges": [{"source": 0}]}', "edges[0] must be an object with"),
    ("float.json", node_link([0.0, 1], []), "agents are numbered 0..N-1, got 0.0"),
    ("double.json", node_link([0, 1, 1], []), "a node is listed twice under 'nodes'"),
    ("directed.json", node_link([0, 1], [(0, 1)], directed=True), "directed graph"),
    ("multi.json", node_link([0, 1], [(0, 1)], multigraph=True), "multigraph"),
    ("twice.json", node_link([0, 1], [(0, 1), (1, 0)]), "parallel edge 1-0: it is listed twice"),
    ("ghost.json", node_link([0, 1], [(0, 2)]), "edge 0-2: agent 2 is not under 'nodes'"),
    ("broken.graphml", "<graphml", "cannot be read as GraphML"),
    ("other.graphml", "<svg/>", "cannot be read as GraphML"),
    ("named.graphml", GRAPHML.format('<node id="n0"/><node id="n1"/>'), "agents are numbered 0..N-1, got 'n0'"),
    ("twice.graphml", GRAPHML.format('<edge source="0" target="1"/>' * 2), "multigraph: parallel edges"),
    ("directed.graphml", GRAPHML.format("").replace("undirected", "directed"), "directed graph"),
    ("arrow.graphml", GRAPHML.format('<edge directed="true" source="0" target="1"/>'), "directed graph"),
    ("broken.gml", "graph [ node [", "cannot be read as GML"),
    ("nothing.gml", "", "cannot be read as GML"),
    ("directed.gml", "graph [ directed 1 node [ id 0 ] node [ id 1 ] ]", "directed graph"),
    ("multi.gml", "graph [ multigraph 1 node [ id 0 ] node [ id 1 ] ]", "multigraph"),
    ("named.gml", 'graph [ node [ id 0 label "Lund" ] node [ id 1 label "b" ] ]', "0..N-1, got 'Lund'"),
    ("half.gml", 'graph [ node [ id 0 label "0" ] node [ id 1 ] ]', "label all or none"),
    ("same.gml", 'graph [ node [ id 0 label "1" ] node [ id 1 label 1 ] ]', "two nodes have the same label"),
    (
        "twice.gml",
        f"graph [ node [ id 0 ] node [ id 1 ] {EDGE} {EDGE} ]",
        "parallel edge: edge #1 (0--1) is duplicated",
    ),
]


@pytest.mark.parametrize(("name", "text", "words"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_a_wrong_file_is_refused_with_the_place(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    message = refusal(str(tmp_path / name))
    assert words in message
    assert message.startswith(str(tmp_path / name))
    assert len(message) < len(str(tmp_path)) + 250


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "none.edges: no such file" in refusal(str(tmp_path / "none.edges"))
    (tmp_path / "folder.edges").mkdir()
    assert "cannot be read" in refusal(str(tmp_path / "folder.edges"))
    (tmp_path / "binary.edges").write_bytes(b"0 1\n\xff\xfe")
    assert "not UTF-8 text at byte 4" in refusal(str(tmp_path / "binary.edges"))
    (tmp_path / "graph.txt").write_text("0 1\n", encoding="utf-8")
    assert "ends in .edges, .edgelist, .csv, .json, .graphml, .gml, .adjlist; its suffix is '.txt'" in refusal(
        str(tmp_path / "graph.txt")
    )


def test_only_networks_are_written_and_only_where_possible(tmp_path: Path) -> None:
    ring = load_topology("ring:5")
    with pytest.raises(RequestError, match=r"a topology file ends in \.edges"):
        write_topology(ring, tmp_path / "ring.txt")
    with pytest.raises(RequestError, match="cannot be written: No such file or directory"):
        write_topology(ring, tmp_path / "nowhere" / "ring.edges")
    with pytest.raises(RequestError, match="not connected"):
        write_topology(nx.empty_graph(3), tmp_path / "empty.edges")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (nx.DiGraph([(0, 1)]), "mine: directed graph"),
        (nx.MultiGraph([(0, 1)]), "mine: multigraph"),
        (nx.Graph([(0, 1), (1, 1)]), "mine: self-loop 1-1"),
        (nx.Graph([("a", "b")]), "mine: agents are numbered 0..N-1, got 'a'"),
        (nx.Graph([(0, -1)]), "mine: agents are numbered 0..N-1, got -1"),
        (nx.Graph(), "mine: a network needs at least 2 agents, got 0"),
    ],
)
def test_a_networkx_graph_is_checked(graph: nx.Graph, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_topology(graph, "mine")
    assert str(caught.value).startswith(words)


def test_fifty_thousand_agents_are_read_in_linear_time(tmp_path: Path) -> None:
    ring = load_topology("ring:50000")
    write_topology(ring, tmp_path / "ring.edges")
    assert load_topology(str(tmp_path / "ring.edges")).number_of_edges() == 50_000
    facts = describe(ring)
    assert (facts.diameter, facts.algebraic_connectivity, facts.spectral_gap) == (None, None, None)


def test_a_topology_of_many_edges_has_a_short_name() -> None:
    many = "edges:" + ",".join(f"{i}-{i + 1}" for i in range(20))
    assert named(many) == "edges:0-1,1-2,2-3,... (20 edges)"
    for short in ("edges:0-1,1-2", f"{'a' * 50}.edges"):
        assert named(short) == short
