"""The model at the end of a run, from released vectors alone: post-processing, it costs nothing."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np

from admmnet.errors import RequestError
from admmnet.transport import Transport
from admmnet.transport.edge import exchange
from admmnet.types import Matrix, Vector

AGREEMENT = 1e-3
"""Share of the disagreement that gossip leaves at most."""
MOST_ROUNDS = 10_000
"""Most rounds of gossip."""


class TailAverage:
    """Running mean of every agent's released vector over the last half of the rounds."""

    def __init__(self, rounds: int) -> None:
        self._first = rounds // 2
        self.count = 0
        self.sum: Matrix | None = None

    def add(self, round: int, theta: Matrix) -> None:
        """Take in a round's vectors, shape (N, d)."""
        if round >= self._first:
            self.sum = theta.copy() if self.sum is None else self.sum + theta
            self.count += 1

    def mean(self) -> Matrix:
        """Return the mean, shape (N, d)."""
        assert self.sum is not None
        return self.sum / self.count


def gossip(transport: Transport, graph: nx.Graph, theta: Matrix, round: int) -> tuple[Matrix, int]:
    """Average released vectors over the graph with Metropolis weights until the agents nearly agree."""
    steps = gossip_rounds(graph)
    own: dict[int, Vector] = {i: theta[i] for i in transport.agents}
    for step in range(steps):
        inbox = exchange(transport, dict(own), round + step, theta.shape[1])
        own = {
            i: vector + sum(_weight(graph, i, j) * (inbox[i][j] - vector) for j in sorted(inbox[i]))
            for i, vector in own.items()
        }
    return transport.collect(np.stack([own[i] for i in transport.agents])), steps


def _weight(graph: nx.Graph, i: int, j: int) -> float:
    return 1.0 / (1.0 + float(max(graph.degree(i), graph.degree(j))))


def gossip_rounds(graph: nx.Graph) -> int:
    """Rounds after which the second eigenvalue of the Metropolis matrix has shrunk to ``AGREEMENT``, eq. (24).

    Raises
    ------
    RequestError
        If that takes more than ``MOST_ROUNDS``, or the graph is too large for its spectrum.
    """
    from admmnet.graph import describe

    gap = describe(graph).spectral_gap
    slowest = 1.0 if gap is None else max(1.0 - gap, 0.0)
    if slowest < AGREEMENT:
        return 1
    steps = math.inf if slowest >= 1.0 else math.log(AGREEMENT) / math.log(slowest)
    if steps > MOST_ROUNDS:
        raise RequestError(
            f"answer = 'gossip' needs more than {MOST_ROUNDS} rounds on this graph of {len(graph)} agents, or its "
            "spectrum is not computed (above 2000 agents); take answer = 'last' or a better connected graph"
        )
    return math.ceil(steps)
