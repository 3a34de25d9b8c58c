"""The links of a graph as arrays: every edge in both directions, in the order of senders and receivers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from admmnet.graph.simple import Graph


class Links:
    """Directed edges of a connected graph with nodes 0..N-1.

    Attributes
    ----------
    agents : int
        N.
    sender, receiver : ndarray of int, shape (links,)
        Sorted by sender, then receiver.
    back : ndarray of int, shape (links,)
        Place of every link's opposite.
    start : ndarray of int, shape (N + 1,)
        Links of sender i are start[i] to start[i + 1] - 1; their opposites are those that it receives by.
    """

    def __init__(self, graph: Graph) -> None:
        self.agents = len(graph)
        edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
        self._keys = np.sort(np.concatenate([self._key(*edges.T), self._key(*edges.T[::-1])]))
        self.sender, self.receiver = np.divmod(self._keys, self.agents)
        self.back = np.searchsorted(self._keys, self._key(self.receiver, self.sender))
        self.start = np.searchsorted(self.sender, np.arange(self.agents + 1))

    def _key(self, sender: NDArray[np.int64], receiver: NDArray[np.int64]) -> NDArray[np.int64]:
        return sender * self.agents + receiver

    def place(self, sender: NDArray[np.int64], receiver: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of some links."""
        return np.asarray(np.searchsorted(self._keys, self._key(sender, receiver)))

    def of(self, agent: int) -> slice:
        """Links of one sender, in the order of its neighbours."""
        return slice(int(self.start[agent]), int(self.start[agent + 1]))

    def every(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether a mask over links holds for all links of each sender, shape (N,)."""
        return np.asarray(np.logical_and.reduceat(mask, self.start[:-1]))

    def mask(self, edges: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
        """Links of some of the graph's edges, both directions, shape (links,)."""
        chosen = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
        places = np.searchsorted(self._keys, self._key(*chosen.T))
        found = np.zeros(len(self._keys), dtype=bool)
        found[places] = found[self.back[places]] = True
        return found
