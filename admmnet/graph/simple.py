"""The graph that a run works on: agents, edges and neighbours in order. Importing networkx takes longer than numpy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Any


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

    def has_edge(self, i: int, j: int) -> bool:
        """Whether two agents are neighbours."""
        return i in self and j in self._around[i]

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
    found = []
    for start in sorted(left):
        if start in left:
            left.discard(start)
            part, front = {start}, [start]
            while front:
                front = sorted({j for i in front for j in graph[i]} & left)
                left.difference_update(front)
                part.update(front)
            found.append(part)
    return found
