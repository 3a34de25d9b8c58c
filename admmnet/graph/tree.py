"""Public spanning trees: a function of the graph alone, the same at every process (docs/methods.md, eq. (90))."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from admmnet.graph.simple import Graph, search

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
