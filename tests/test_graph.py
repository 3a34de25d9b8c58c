"""Topologies: every spec and format, round trips, what is refused, figures and the files we ship."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet.contradictions import is_random
from admmnet.errors import RequestError
from admmnet.graph import (
    SPECS,
    SUFFIXES,
    check_topology,
    default_topology,
    describe,
    load_topology,
    write_topology,
)

SHIPPED = Path(__file__).parent.parent / "topologies"
FILES = sorted(path for path in SHIPPED.iterdir() if path.suffix in SUFFIXES)


def same(first: nx.Graph, second: nx.Graph) -> bool:
    """Equal nodes, edges and attributes, in equal order."""
    return (
        list(first.nodes(data=True)) == list(second.nodes(data=True))
        and list(first.edges(data=True)) == list(second.edges(data=True))
        and [list(first[i]) for i in first] == [list(second[i]) for i in second]
    )


def refusal(source: str, seed: int = 0) -> str:
    with pytest.raises(RequestError) as caught:
        load_topology(source, seed=seed)
    message = str(caught.value)
    assert message.count("\n") <= 1
    return message


# --- specs ---


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_gives_a_clean_network_and_the_same_one_twice(spec: str) -> None:
    graph = load_topology(spec)
    assert type(graph) is nx.Graph
    assert list(graph) == list(range(len(graph)))
    assert list(graph.edges()) == sorted(tuple(sorted(edge)) for edge in graph.edges())
    assert nx.is_connected(graph)
    assert same(graph, load_topology(spec))
    assert same(graph, check_topology(graph))


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


def test_random_specs_differ_by_seed_and_take_the_first_connected_draw() -> None:
    seeds = [0, 1, 2, 3]
    graphs = [load_topology("erdos-renyi:20:0.3", seed=seed) for seed in seeds]
    assert len({tuple(graph.edges()) for graph in graphs}) == len(seeds)
    first = next(seed for seed in range(1000) if nx.is_connected(nx.gnp_random_graph(12, 0.15, seed=seed)))
    assert first > 0
    assert nx.utils.edges_equal(
        load_topology("erdos-renyi:12:0.15").edges(), nx.gnp_random_graph(12, 0.15, seed=first).edges()
    )


@pytest.mark.parametrize("spec", ["regular:20:17", "regular:100:90", "regular:5:4"])
def test_dense_regular_graphs_are_regular_and_quick(spec: str) -> None:
    degree = int(spec.rpartition(":")[2])
    assert {degree} == {count for _, count in load_topology(spec).degree()}


@pytest.mark.parametrize("agents", [2, 3, 5, 40])
def test_the_default_is_a_connected_random_graph(agents: int) -> None:
    for seed in range(8):
        graph = default_topology(agents, seed)
        assert len(graph) == agents
        assert same(graph, load_topology(f"erdos-renyi:{agents}:0.5", seed=seed))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("ring:2", "a ring needs N >= 3 agents, got 2; for two agents use path:2"),
        ("ring:-1", "a ring needs N >= 3 agents, got -1"),
        ("ring:five", "N must be a whole number, got 'five'; the form is ring:N"),
        ("ring:" + "9" * 5000, "N must be a whole number"),
        ("ring:٣", "N must be a whole number"),
        ("ring", "expected ring:N, for example ring:5"),
        ("ring:5:6", "expected ring:N, for example ring:5"),
        ("path:1", "a network needs at least 2 agents, got 1"),
        ("star:0", "a network needs at least 2 agents, got 0"),
        ("complete:1", "a network needs at least 2 agents, got 1"),
        ("complete:5000", "12,497,500 edges, the limit is 10,000,000; choose a sparser graph"),
        ("ring:1000001", "1,000,001 agents are beyond the limit of 1,000,000"),
        ("grid:1x1", "a network needs at least 2 agents, got 1"),
        ("grid:0x4", "R >= 1 and C >= 1, got 0x4"),
        ("grid:3", "RxC must be two whole numbers such as 3x4, got '3'"),
        ("grid:3xfour", "RxC must be a whole number, got 'four'"),
        ("torus:2x4", "a torus needs R >= 3 and C >= 3, got 2x4; use grid"),
        ("erdos-renyi:20:0", "erdos-renyi needs 0 < P <= 1, got 0.0"),
        ("erdos-renyi:20:1.5", "erdos-renyi needs 0 < P <= 1, got 1.5"),
        ("erdos-renyi:20:nan", "erdos-renyi needs 0 < P <= 1, got nan"),
        ("erdos-renyi:20:much", "P must be a number, got 'much'"),
        ("erdos-renyi:1:0.5", "a network needs at least 2 agents, got 1"),
        ("erdos-renyi:20:0.01", "the probability P=0.01 is too small for 20 agents, raise it"),
        ("small-world:20:1:0.1", "small-world needs 2 <= K < N, got K=1 with N=20"),
        ("small-world:20:20:0.1", "small-world needs 2 <= K < N, got K=20 with N=20"),
        ("small-world:20:3:0.1", "small-world needs an even K, got 3; use 2 or 4"),
        ("small-world:20:4:-0.1", "small-world needs 0 <= P <= 1, got -0.1"),
        ("regular:5:3", "regular needs N*K even, got 5*3"),
        ("regular:5:5", "regular needs 2 <= K < N, got K=5 with N=5"),
        ("regular:6:1", "regular needs 2 <= K < N, got K=1 with N=6"),
        ("barabasi-albert:5:5", "barabasi-albert needs 1 <= M < N, got M=5 with N=5"),
        ("barabasi-albert:5:0", "barabasi-albert needs 1 <= M < N, got M=0 with N=5"),
        ("geometric:20:0", "geometric needs 0 < RADIUS <= 2"),
        ("geometric:200:0.01", "the radius 0.01 is too small for 200 agents, raise it"),
        ("rign:5", "did you mean ring:5?"),
        ("wheel:5", "barabasi-albert:20:2"),
        ("", "unknown"),
        ("x" * 5000, "unknown"),
        ("my/graph", "no such file"),
        ("graph.txt", "no such file"),
    ],
)
def test_a_wrong_spec_is_refused_with_the_bound(spec: str, words: str) -> None:
    message = refusal(spec)
    assert words in message
    assert (spec if len(spec) < 38 else spec[:30]) in message


def test_a_negative_seed_is_refused() -> None:
    assert "seed must be 0 or more, got -1" in refusal("erdos-renyi:5:0.5", seed=-1)


@pytest.mark.parametrize("agents", [1, 0, -3])
def test_the_default_needs_two_agents(agents: int) -> None:
    with pytest.raises(RequestError, match=f"a network needs at least 2 agents, got {agents}"):
        default_topology(agents)


def test_the_number_of_agents_must_fit(tmp_path: Path) -> None:
    write_topology(load_topology("ring:6"), tmp_path / "six.edges")
    for source in ("ring:6", str(tmp_path / "six.edges")):
        assert len(load_topology(source, agents=6)) == 6
        with pytest.raises(RequestError, match="the topology has 6 nodes but --agents says 5"):
            load_topology(source, agents=5)


# --- files ---


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
    graph = default_topology(agents, seed)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(reversed(list(graph)))
    shuffled.add_edges_from((j, i) for i, j in reversed(list(graph.edges())))
    path = tmp_path_factory.mktemp("shuffled") / f"graph{suffix}"
    networkx_writer(suffix)(shuffled, path)
    assert same(load_topology(path), graph)


def networkx_writer(suffix: str) -> Callable[[nx.Graph, Path], None]:
    def write_json(graph: nx.Graph, path: Path) -> None:
        # by hand: the keyword that names the edges differs between versions of networkx
        path.write_text(node_link(graph, graph.edges()), encoding="utf-8")

    writers: dict[str, Callable[[nx.Graph, Path], None]] = {
        ".edges": nx.write_edgelist,  # with the empty attributes in braces
        ".adjlist": nx.write_adjlist,
        ".json": write_json,
        ".graphml": nx.write_graphml_xml,
        ".gml": nx.write_gml,
    }
    return writers[suffix]


TRIANGLE = [(0, 1), (0, 2), (1, 2)]
GRAPHML = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    '<graph edgedefault="undirected">{}</graph></graphml>'
)


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


REFUSED = [
    ("loop.edges", "0 1\n# so\n1 1\n", "line 3: self-loop 1-1"),
    ("twice.edges", "0 1\n1 2\n0 1\n", "line 3: parallel edge 0-1: line 1 has it already"),
    ("back.edges", "0 1\n1 2\n2 1\n", "line 3: parallel edge 2-1: line 2 has it already"),
    ("parts.edges", "0 1\n2 3\n", "not connected, it has 2 parts: {0, 1}, {2, 3}; add edges that join them"),
    (
        "many.edges",
        "".join(f"{2 * i} {2 * i + 1}\n" for i in range(50)),
        "50 parts: {0, 1}, {2, 3}, {4, 5}, ...;",
    ),
    (
        "big.edges",
        "".join(f"{i} {i + 1}\n" for i in range(40) if i != 20),
        "parts: {0, 1, 2, 3, ... 21 agents}",
    ),
    ("one.edges", "1 2\n2 3\n", "there is 3 and no 0; subtract 1 from every number"),
    (
        "gap.edges",
        "0 1\n1 4\n4 2\n",
        "line 2: agents are numbered 0..N-1 without gaps, but there is 4 and no 3",
    ),
    ("name.edges", "0 1\n1 b\n", "line 2: agents are numbered 0..N-1, got 'b'"),
    ("zero.edges", "0 1\n1 02\n", "line 2: agents are numbered 0..N-1, got '02'"),
    ("minus.edges", "-1 0\n", "line 1: agents are numbered 0..N-1, got '-1'"),
    ("huge.edges", "0 1\n1 1000000\n", "line 2: agent '1000000' is beyond the limit of 1,000,000 agents"),
    ("digits.edges", f"0 1\n1 {'7' * 5000}\n", "is beyond the limit"),
    ("weight.edges", "0 1 0.5\n", "line 1: expected two agents such as '0 1', got '0 1 0.5'"),
    ("comma.edges", "0,1\n", "line 1: expected two agents such as '0 1', got '0,1'"),
    ("empty.edges", "# nothing\n", "a network needs at least 2 agents, got 0"),
    ("loop.adjlist", "0 1\n1 0 1\n", "line 2: self-loop 1-1"),
    ("twice.adjlist", "0 1\n1 0 0\n", "line 2: parallel edge 1-0: line 1 has it already"),
    ("again.adjlist", "0 1 1\n", "line 1: parallel edge 0-1"),
    ("parts.adjlist", "0 1\n2\n", "not connected, it has 2 parts: {0, 1}, {2}"),
    ("single.adjlist", "0\n", "a network needs at least 2 agents, got 1"),
    ("name.adjlist", "0 1\n# so\n1 Lund\n", "line 3: agents are numbered 0..N-1, got 'Lund'"),
    ("broken.json", '{"nodes": [', "cannot be read as JSON"),
    ("deep.json", "[" * 100_000, "cannot be read as JSON"),
    ("list.json", "[1, 2]", "expected a node-link object with 'nodes' and either 'edges' or 'links'"),
    ("noedges.json", '{"nodes": []}', "either 'edges' or 'links'"),
    ("both.json", '{"nodes": [], "edges": [], "links": []}', "either 'edges' or 'links'"),
    ("scalar.json", '{"nodes": 3, "edges": []}', "'nodes' must be a list, got 3"),
    ("noid.json", '{"nodes": [{"name": 0}], "edges": []}', "nodes[0] must be an object with 'id'"),
    ("end.json", '{"nodes": [{"id": 0}], "edges": [{"source": 0}]}', "edges[0] must be an object with"),
    ("bool.json", '{"nodes": [{"id": true}], "edges": []}', "agents are numbered 0..N-1, got True"),
    ("float.json", node_link([0.0, 1], []), "agents are numbered 0..N-1, got 0.0"),
    ("double.json", node_link([0, 1, 1], []), "a node is listed twice under 'nodes'"),
    ("directed.json", node_link([0, 1], [(0, 1)], directed=True), "directed graph"),
    ("multi.json", node_link([0, 1], [(0, 1)], multigraph=True), "multigraph"),
    ("twice.json", node_link([0, 1], [(0, 1), (1, 0)]), "parallel edge 1-0: it is listed twice"),
    ("ghost.json", node_link([0, 1], [(0, 2)]), "edge 0-2: agent 2 is not under 'nodes'"),
    ("loop.json", node_link([0, 1], [(1, 1)]), "self-loop 1-1"),
    ("broken.graphml", "<graphml", "cannot be read as GraphML"),
    ("empty.graphml", "", "cannot be read as GraphML"),
    ("other.graphml", "<svg/>", "cannot be read as GraphML"),
    (
        "named.graphml",
        GRAPHML.format('<node id="n0"/><node id="n1"/>'),
        "agents are numbered 0..N-1, got 'n0'",
    ),
    (
        "twice.graphml",
        GRAPHML.format('<edge id="e" source="0" target="1"/><edge id="e" source="1" target="0"/>'),
        "multigraph: parallel edges",
    ),
    (
        "twice2.graphml",
        GRAPHML.format('<edge source="0" target="1"/><edge source="1" target="0"/>'),
        "parallel edges 0-1",
    ),
    ("loop.graphml", GRAPHML.format('<edge source="0" target="0"/>'), "self-loop 0-0"),
    ("directed.graphml", GRAPHML.format("").replace("undirected", "directed"), "directed graph"),
    ("arrow.graphml", GRAPHML.format('<edge directed="true" source="0" target="1"/>'), "directed graph"),
    ("broken.gml", "graph [ node [", "cannot be read as GML"),
    ("scalar.gml", "graph [ node 3 node 4 ]", "cannot be read as GML"),
    ("umlaut.gml", 'graph [ name "Malmö" ]', "cannot be read as GML"),
    ("nothing.gml", "", "cannot be read as GML"),
    ("directed.gml", "graph [ directed 1 node [ id 0 ] node [ id 1 ] ]", "directed graph"),
    ("multi.gml", "graph [ multigraph 1 node [ id 0 ] node [ id 1 ] ]", "multigraph"),
    ("named.gml", 'graph [ node [ id 0 label "Lund" ] node [ id 1 label "b" ] ]', "0..N-1, got 'Lund'"),
    ("half.gml", 'graph [ node [ id 0 label "0" ] node [ id 1 ] ]', "label all or none"),
    ("same.gml", 'graph [ node [ id 0 label "1" ] node [ id 1 label 1 ] ]', "two nodes have the same label"),
    (
        "twice.gml",
        "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] edge [ source 1 target 0 ] ]",
        "parallel edge: edge #1 (1--0) is duplicated",
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
    assert "ends in .edges, .json, .graphml, .gml, .adjlist; its suffix is '.txt'" in refusal(
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
        (nx.MultiGraph([(0, 1), (1, 0)]), "mine: parallel edges 0-1"),
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


def test_facts_as_a_dictionary_go_into_json() -> None:
    data = json.loads(json.dumps(describe(load_topology("complete:4")).as_dict()))
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
