"""Trees along which the rounds of a run are summed, and what is sent along them, under simulated faults."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from admmnet.faults.model import FaultModel
from admmnet.graph.simple import Graph
from admmnet.graph.tree import Tree, spanning_tree
from admmnet.transport import Trees
from admmnet.types import Total

MOST_TREES = 16
"""Trees that are kept for further rounds."""


class RoundTrees:
    """Spanning trees of the rounds of a run, which its simulated faults may change or leave without one.

    Absent agents stay outside; in ``masked`` sums, and before the first round, that leaves the round without one.
    """

    def __init__(self, graph: Graph, faults: FaultModel | None, *, masked: bool = False) -> None:
        self._graph, self._faults, self._masked = graph, faults, masked
        self._every = cache(partial(spanning_tree, graph))
        self._known: dict[tuple[int, frozenset[int]], Tree | None] = {}

    def at(self, round: int) -> Trees:
        """Tree of a round where some agents are lost for good; None of a void one."""
        place, away, whole = 0, self._away(round), self._masked or round < 0
        if self._faults is not None and self._faults.schedule is not None:
            place = self._faults.schedule.at(max(round, 0))
        return partial(self._tree, place, away, whole)

    def carrying(self, round: int) -> Trees:
        """Tree that carries a round's sum: with who is away, who says nothing and whose process goes on."""
        trees = self.at(round)
        if not self._away(round):
            return trees
        return lambda lost: None if trees(lost) is None else self._every(lost)

    def _away(self, round: int) -> frozenset[int]:
        """Agents that are away; stages before the first round have its faults."""
        if self._faults is None:
            return frozenset()
        return frozenset(np.flatnonzero(~self._faults.members(max(round, 0))).tolist())

    def _tree(self, place: int, away: frozenset[int], whole: bool, lost: frozenset[int]) -> Tree | None:
        if whole and away - lost:
            return None
        lost |= away
        key = place, lost
        if key not in self._known:
            if len(self._known) >= MOST_TREES:
                self._known.pop(next(iter(self._known)))
            graph = self._graph
            if self._faults is not None and self._faults.schedule is not None:
                graph = Graph(len(graph), self._faults.schedule.edges[place])
            self._known[key] = spanning_tree(graph, lost)
        return self._known[key]

    def messages(self, round: int, tree: Tree, total: Total) -> NDArray[np.int64]:
        """Messages of every agent in a round, shape (N,), eq. (92): a lost one is repeated until it has arrived."""
        if self._faults is None or not self._faults.drop:
            return tree.messages(total.agents)
        links, tries, below = self._faults.links, self._faults.tries(max(round, 0)), tree.below
        parents, up = tree.parent[below], tree.upward(total.agents)[below]
        found = np.zeros(len(tree.parent), dtype=np.int64)
        found[below] = np.where(up, tries[links.place(below, parents)], 0)
        np.add.at(found, parents, tries[links.place(parents, below)])
        return found

    def notes(self, done: int) -> tuple[str, ...]:
        """How many of so many rounds were void, where no agent is lost."""
        if self._faults is None:
            return ()
        void = [round for round in range(done) if self.at(round)(frozenset()) is None]
        if not void:
            return ()
        return (
            f"{len(void)} of {done} rounds were void, round {void[0]} first: an agent was away or the round's graph "
            "was not connected; their cost stays charged",
        )
