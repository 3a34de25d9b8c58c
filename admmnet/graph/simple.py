"""The graph that a run works on, and its public spanning trees: both the same at every process.

Importing networkx takes longer than numpy. Trees are a function of the graph alone (docs/methods.md, eq. (90)).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from admmnet.errors import RequestError, short


class Graph:
    """A simple undirected graph on the agents 0 to N - 1, or on some agents that keep their numbers.

    What a run needs of a ``networkx.Graph`` is here, by the same names. Functions of networkx and methods of other
    packages are given ``graph.networkx``.

    ``edges`` are pairs in any order, each once; the attribute has them as (lower, higher), in order.
    """

    def __init__(self, agents: int | Iterable[int], edges: Iterable[tuple[int, int]] = ()) -> None:
        self.edges = tuple(sorted((i, j) if i < j else (j, i) for i, j in edges))
        numbers = range(agents) if isinstance(agents, int) else sorted(agents)
        around: dict[int, list[int]] = {i: [] for i in numbers}
        for i, j in self.edges:  # in order, so neighbours are in ascending order, too
            around[i].append(j)
            around[j].append(i)
        self._around = {i: tuple(others) for i, others in around.items()}

    def __len__(self) -> int:
        """N."""
        return len(self._around)

    def __iter__(self) -> Iterator[int]:
        """Agents, ascending."""
        return iter(self._around)

    def __contains__(self, agent: object) -> bool:
        """Whether there is such an agent."""
        return agent in self._around

    def __getitem__(self, agent: int) -> tuple[int, ...]:
        """Neighbours, ascending."""
        return self._around[agent]

    def degree(self, agent: int) -> int:
        """Number of neighbours."""
        return len(self._around[agent])

    def among(self, agents: Collection[int]) -> Graph:
        """Return these agents with the edges between them."""
        return Graph(agents, ((i, j) for i, j in self.edges if i in agents and j in agents))

    @cached_property
    def networkx(self) -> Any:
        """The same as a ``networkx.Graph`` without attributes, nodes and edges in order."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self)
        graph.add_edges_from(self.edges)
        return graph


def parts_of(graph: Graph, among: Collection[int] | None = None) -> list[set[int]]:
    """Connected components of a graph, or of what is left of it with some agents alone, by their lowest agents."""
    left = set(graph if among is None else among)
    around = graph if among is None else {i: [j for j in graph[i] if j in left] for i in left}
    found = list[set[int]]()
    for start in sorted(left):
        if start in left:
            found.append(set(search(around, start)))
            left -= found[-1]
    return found


def search(around: Graph | Mapping[int, Iterable[int]], start: int) -> dict[int, tuple[int, int]]:
    """Parent and depth of everybody that a breadth-first search finds, in its order."""
    found, queue = {start: (-1, 0)}, deque([start])
    while queue:
        i = queue.popleft()
        for j in around[i]:
            if j not in found:
                found[j] = (i, found[i][1] + 1)
                queue.append(j)
    return found


# what makes a graph a network: simple, undirected, connected, its agents numbered 0..N-1

MAX_NODES = 1_000_000
"""Most agents a network may have."""
MAX_EDGES = 10_000_000
"""Most edges a network may have: a Python graph of that size takes several gigabytes."""

RENUMBER = "networkx.convert_node_labels_to_integers(graph) numbers them"
DIRECTED = "directed graph; agents exchange both ways, give an undirected one"
MULTIGRAPH = "multigraph: parallel edges mean nothing here; list every edge once, in one direction"

_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)


class Collector:
    """Takes the agents and edges of one source in any order and refuses what is not a network.

    Every method raises `RequestError` naming the source and, where the format has lines, the line.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: dict[int, int] = {}  # agent -> line of its first mention, 0 without lines
        self._edges: dict[tuple[int, int], int] = {}

    def fault(self, message: str, line: int = 0) -> RequestError:
        """Error about the source, at a line if there is one."""
        return RequestError(f"{self._source}, line {line}: {message}" if line else f"{self._source}: {message}")

    def agent(self, label: object, line: int = 0) -> int:
        """Take one agent by its label, an int or its decimal digits, and return its number."""
        number = _number(label)
        if number is None:
            raise self.fault(f"agents are numbered 0..N-1, got {short(label)}; {RENUMBER}", line)
        if number >= MAX_NODES:
            raise self.fault(f"agent {short(label)} is beyond the limit of {MAX_NODES:,} agents", line)
        self._lines.setdefault(number, line)
        return number

    def edge(self, first: object, second: object, line: int = 0) -> None:
        """Take one undirected edge, once."""
        i, j = self.agent(first, line), self.agent(second, line)
        if i == j:
            raise self.fault(f"self-loop {i}-{j}; an agent is never its own neighbour, remove it", line)
        key = (i, j) if i < j else (j, i)
        if key in self._edges:
            before = self._edges[key]
            where = f"line {before} has it already" if before else "it is listed twice"
            raise self.fault(f"parallel edge {i}-{j}: {where}; list every edge once, in one direction", line)
        if len(self._edges) >= MAX_EDGES:
            raise self.fault(f"more than {MAX_EDGES:,} edges; choose a sparser graph", line)
        self._edges[key] = line

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """All that were taken, (lower, higher), in sorted order."""
        return tuple(sorted(self._edges))

    def graph(self) -> Graph:
        """Network of all that was taken, with its nodes and edges in sorted order."""
        count = len(self._lines)
        if count < 2:
            raise self.fault(f"a network needs at least 2 agents, got {count}")
        largest = max(self._lines)
        if largest != count - 1:
            missing = next(number for number in range(count) if number not in self._lines)
            raise self.fault(
                f"agents are numbered 0..N-1 without gaps, but there is {largest} and no {missing}; "
                + ("subtract 1 from every number" if missing == 0 and largest == count else "renumber the agents"),
                self._lines[largest],
            )
        graph = Graph(count, self._edges)
        parts = parts_of(graph)
        if len(parts) > 1:
            shown = ", ".join(_members(part) for part in parts[:3]) + (", ..." if len(parts) > 3 else "")
            raise self.fault(f"not connected, it has {len(parts)} parts: {shown}; add edges that join them")
        return graph


def check_topology(graph: Any, name: str = "graph") -> Graph:
    """Network of a networkx graph on 0..N-1 (ints or decimal strings), or the network that it is already.

    A RequestError, which calls it `name`, says why it is no network.
    """
    if isinstance(graph, Graph):
        return graph
    import networkx as nx

    collector = Collector(name)
    if not isinstance(graph, nx.Graph):
        hint = ""
        if hasattr(graph, "shape"):
            hint = "; where A equals its transpose, networkx.from_numpy_array(A) makes one of the matrix"
        raise collector.fault(f"it is a {type(graph).__name__}, and must be a networkx.Graph{hint}")
    if graph.is_directed():
        raise collector.fault(DIRECTED)
    if graph.is_multigraph():
        raise collector.fault(MULTIGRAPH)
    if len({collector.agent(label) for label in graph}) < len(graph):
        raise collector.fault("two nodes have the same number; give every agent its own")
    for first, second in graph.edges():
        collector.edge(first, second)
    return collector.graph()


def _number(label: object) -> int | None:
    if isinstance(label, str):
        # ten digits are beyond the limit already; longer ones need not be converted
        return int(label[:10]) if _NUMBER.fullmatch(label) else None
    if isinstance(label, bool) or not hasattr(label, "__index__"):
        return None
    number: int = label.__index__()
    return number if number >= 0 else None


def _members(part: Collection[int]) -> str:
    some = [*map(str, sorted(part)[:4]), f"... {len(part)} agents"] if len(part) > 6 else map(str, sorted(part))
    return "{" + ", ".join(some) + "}"


OUTSIDE = -2
"""Parent of who is not in a tree."""


class Tree(Struct, frozen=True, eq=False, dict=True):
    """A spanning tree of some of the agents 0 to N - 1, those of ``agents``, ascending.

    ``parent`` (N,) is -1 at the root and ``OUTSIDE`` of others, ``depth`` (N,) the edges to the root, -1 of others.
    """

    root: int
    parent: NDArray[np.int64]
    depth: NDArray[np.int64]
    agents: tuple[int, ...]

    @property
    def children(self) -> NDArray[np.int64]:
        """Number of children of every agent, shape (N,)."""
        return np.bincount(self.parent[self.parent >= 0], minlength=len(self.parent))

    @property
    def below(self) -> NDArray[np.int64]:
        """Agents in the tree but its root, ascending."""
        inside = np.array(self.agents)
        return np.asarray(inside[inside != self.root])

    @property
    def deepest_first(self) -> NDArray[np.int64]:
        """Agents in the tree but its root, those that are the furthest from it first."""
        return self.below[np.argsort(-self.depth[self.below], kind="stable")]

    @cached_property
    def branches(self) -> dict[int, list[int]]:
        """Agents at and below each agent in the tree, in no order."""
        found = {i: [i] for i in self.agents}
        for i in self.deepest_first.tolist():
            found[int(self.parent[i])] += found[i]
        return found

    def upward(self, speaking: Sequence[int]) -> NDArray[np.bool_]:
        """Whether numbers go up from an agent, shape (N,): where it or somebody below it speaks."""
        speaks = np.zeros(len(self.parent), dtype=bool)
        speaks[list(speaking)] = True
        if len(speaking) < len(self.agents):
            for i in self.deepest_first:
                speaks[self.parent[i]] |= speaks[i]
        return speaks

    def messages(self, speaking: Sequence[int]) -> NDArray[np.int64]:
        """Messages with numbers of every agent in a sum, shape (N,): to its parent and its children, eq. (92)."""
        found, below = self.children, self.below
        found[below] += self.upward(speaking)[below]
        return found


def spanning_tree(graph: Graph | Mapping[int, Iterable[int]], without: Collection[int] = ()) -> Tree | None:
    """Breadth-first spanning tree from a centre, neighbours in ascending order.

    The centre is the middle of a longest shortest path as two searches find it: from the lowest agent to the furthest,
    from there to the furthest; of several the lowest. None where the agents left ``without`` some are not connected, or
    there are none.
    """
    out = frozenset(without)
    around = {i: sorted(j for j in graph[i] if j not in out) for i in range(len(graph)) if i not in out}
    if not around or len(first := search(around, min(around))) < len(around):
        return None
    path = search(around, _furthest(first))
    centre = _furthest(path)
    for _ in range(path[centre][1] // 2):
        centre = path[centre][0]
    parent = np.full(len(graph), OUTSIDE, dtype=np.int64)
    depth = np.full(len(graph), -1, dtype=np.int64)
    for agent, (above, steps) in search(around, centre).items():
        parent[agent], depth[agent] = above, steps
    return Tree(centre, parent, depth, tuple(around))


def _furthest(found: dict[int, tuple[int, int]]) -> int:
    """Lowest of the agents that are the furthest from the start."""
    most = next(reversed(found.values()))[1]
    return min(agent for agent, (_, steps) in found.items() if steps == most)
