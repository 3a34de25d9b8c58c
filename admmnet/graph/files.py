"""Network files: ``.edges``, ``.csv``, ``.adjlist``, ``.json`` (node-link), ``.graphml``, ``.gml``.

The two line formats and node-link are read here, so that a fault is reported with its line or edge and no
duplicate is merged in silence; the other two are read by networkx.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert

from admmnet.errors import RequestError, short
from admmnet.files import drafted, load_json
from admmnet.form_errors import said
from admmnet.graph.simple import DIRECTED, MULTIGRAPH, Collector, Graph, check_topology

if TYPE_CHECKING:
    import networkx as nx

EDGES = "edges:"
"""Start of a topology that lists its edges, ``edges:0-1,1-2,2-0``: what a graph given in memory is called."""


def read_topology(path: Path) -> Graph:
    """Network in a file with one of the suffixes `SUFFIXES`; what is missing or no network is refused."""
    read, _ = _format(path)
    return read(text_of(path), str(path))


def text_of(path: Path) -> str:
    """Content of a text file; RequestError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RequestError(f"{path}: no such file: correct the path") from None
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: cannot be read: not UTF-8 text at byte {error.start}") from None


def paired(edges: Iterable[str], source: str) -> Collector:
    """Edges such as ``0-1``, of a source."""
    collector = Collector(source)
    for edge in edges:
        first, dash, second = edge.partition("-")
        if not dash:
            raise collector.fault(f"expected pairs of agents such as 0-1, got {short(edge)}")
        collector.edge(first.strip(), second.strip())
    return collector


def named(topology: str) -> str:
    """Name of a topology for people: the first edges of one that lists many."""
    edges = topology.split(",")
    if not topology.startswith(EDGES) or len(topology) <= 40:
        return topology
    return f"{','.join(edges[:3])},... ({len(edges)} edges)"


def write_topology(graph: Graph | nx.Graph, path: str | os.PathLike[str]) -> None:
    """Write a network, in the format of the path's suffix, so that `load_topology` gives it back; without attributes.

    Raises
    ------
    RequestError
        If the suffix is unknown, the graph is not a network, or the file cannot be written.
    """
    if not isinstance(path, str | os.PathLike):
        raise RequestError(f"path is a {type(path).__name__}: give the path of a file")
    target = Path(path)
    _, write = _format(target)
    text = write(check_topology(graph))
    try:
        with drafted(target) as draft:
            draft.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise RequestError(f"{target}: cannot be written: {error.strerror}") from None


def _format(path: Path) -> tuple[Callable[[str, str], Graph], Callable[[Graph], str]]:
    try:
        return _FORMATS[path.suffix.lower()]
    except KeyError:
        suffix = short(path.suffix) if path.suffix else "none"
        raise RequestError(f"{path}: a topology file ends in {', '.join(SUFFIXES)}; its suffix is {suffix}") from None


def fields_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that say something: number and words, without comments."""
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.partition("#")[0].split()
        if fields:
            yield number, fields


def listed(text: str, source: str) -> Collector:
    """Edges of the text of an ``.edges`` file, which need not join all agents."""
    collector = Collector(source)
    for line, fields in fields_of(text):
        # behind the agents stands what networkx knows of the edge, or its weight: neither means anything here
        if len(fields) != 2 and not (len(fields) > 2 and (fields[2].startswith("{") or _is_weight(fields[2:]))):
            raise collector.fault(f"expected two agents such as '0 1', got {short(' '.join(fields))}", line)
        collector.edge(fields[0], fields[1], line)
    return collector


def _is_weight(fields: list[str]) -> bool:
    try:
        return len(fields) == 1 and float(fields[0]) > 0
    except ValueError:
        return False


def _read_csv(text: str, source: str) -> Graph:
    """As ``.edges`` with commas, below a line that names the columns, if there is one."""
    head, _, rest = text.partition("\n")
    first = head.split(",")[0].strip().strip('"')
    plain = (text if first.isdecimal() else "\n" + rest).replace(",", " ").replace('"', "")
    return listed(plain, source).graph()


def _read_adjlist(text: str, source: str) -> Graph:
    collector = Collector(source)
    around: dict[int, set[int]] = {}
    for line, fields in fields_of(text):
        head = collector.agent(fields[0], line)
        mine = around.setdefault(head, set())
        for field in fields[1:]:
            neighbour = collector.agent(field, line)
            # an adjacency list may name an edge at both of its ends, but at each only once
            if neighbour in mine or head not in around.get(neighbour, ()):
                collector.edge(head, neighbour, line)
            mine.add(neighbour)
    return collector.graph()


class _Node(Struct):
    id: Any


class _Edge(Struct):
    source: Any
    target: Any


class _NodeLink(Struct):
    nodes: list[_Node]
    edges: list[_Edge] | None = None
    links: list[_Edge] | None = None
    directed: Any = False
    multigraph: Any = False


def _read_json(text: str, source: str) -> Graph:
    collector, found = Collector(source), None
    try:
        found = load_json(text)
        data = convert(found, _NodeLink)
    except ValueError as error:
        raise collector.fault(f"cannot be read as node-link JSON: {said(error, found)}") from None
    if (data.edges is None) == (data.links is None):
        raise collector.fault("expected a node-link object with 'nodes' and either 'edges' or 'links'")
    if data.directed:
        raise collector.fault(DIRECTED)
    nodes = {collector.agent(node.id) for node in data.nodes}
    if len(nodes) != len(data.nodes):
        raise collector.fault("a node is listed twice under 'nodes'; list every agent once")
    for edge in data.edges or data.links or ():
        for end in (edge.source, edge.target):
            if collector.agent(end) not in nodes:
                raise collector.fault(
                    f"edge {edge.source}-{edge.target}: agent {end} is not under 'nodes'; add it there"
                )
        collector.edge(edge.source, edge.target)
    if data.multigraph:
        raise collector.fault(MULTIGRAPH)
    return collector.graph()


def _read_gml(text: str, source: str) -> Graph:
    # labels are the names where there are any (networkx writes them so); else the ids are
    label = "label" if re.search(r"\blabel\b", text) else "id"
    return check_topology(_by_networkx("GML", "read_gml", text, source, label=label), source)


def _by_networkx(name: str, reader: str, text: str, source: str, **how: str) -> Any:
    import networkx as nx

    try:
        return getattr(nx, reader)(io.BytesIO(text.encode()), **how)
    except Exception as error:  # its parsers raise KeyError, AttributeError, RecursionError, ... on garbage
        message = " ".join(str(error).split()) or type(error).__name__
    if message.startswith("edge #") and "is duplicated" in message:
        raise RequestError(f"{source}: parallel edge: {message}; list every edge once, in one direction")
    if message.startswith("directed=true edge"):
        raise RequestError(f"{source}: {DIRECTED}")
    raise RequestError(f"{source}: cannot be read as {name}: {message[:150]}")


def _written(graph: Graph, head: str, separator: str) -> str:
    """An edge a line, below a line of its own."""
    return "".join(f"{line}\n" for line in (head, *(f"{i}{separator}{j}" for i, j in graph.edges)))


def _header(graph: Graph) -> str:
    return f"# {len(graph)} agents, {len(graph.edges)} edges"


def _generated(generator: str, graph: Graph) -> str:
    import networkx as nx

    return "".join(f"{line}\n" for line in getattr(nx, generator)(graph.networkx))


def _write_json(graph: Graph) -> str:
    nodes = ",\n".join(f'    {{"id": {node}}}' for node in graph)
    edges = ",\n".join(f'    {{"source": {i}, "target": {j}}}' for i, j in graph.edges)
    head = '{\n  "directed": false,\n  "multigraph": false,\n  "graph": {},\n'
    return f'{head}  "nodes": [\n{nodes}\n  ],\n  "edges": [\n{edges}\n  ]\n}}\n'


_LIST = (lambda text, source: listed(text, source).graph(), lambda graph: _written(graph, _header(graph), " "))
_FORMATS: dict[str, tuple[Callable[[str, str], Graph], Callable[[Graph], str]]] = {
    **dict.fromkeys((".edges", ".edgelist"), _LIST),
    ".csv": (_read_csv, lambda graph: _written(graph, "source,target", ",")),
    ".json": (_read_json, _write_json),
    ".graphml": (
        lambda text, source: check_topology(_by_networkx("GraphML", "read_graphml", text, source), source),
        lambda graph: _generated("generate_graphml", graph),
    ),
    ".gml": (_read_gml, lambda graph: _generated("generate_gml", graph)),
    ".adjlist": (_read_adjlist, lambda graph: f"{_header(graph)}\n{_generated('generate_adjlist', graph)}"),
}

SUFFIXES = tuple(_FORMATS)
"""File name endings of the formats."""
