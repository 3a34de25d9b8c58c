"""The virtual clock: what rounds would have taken where computing and sending take time. Nothing sleeps.

docs/methods.md eq. (38); docs/simulate.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from admmnet.faults.delays import COMPUTE, LATENCY, STRAGGLERS, fault_stream
from admmnet.faults.model import FaultModel, RoundFaults
from admmnet.graph.tree import Tree
from admmnet.types import Vector


def _factors(seed: int, kind: int, round: int, size: int, jitter: float) -> Vector:
    """Lognormal factors of mean 1 and standard deviation ``jitter``, shape (size,)."""
    if jitter == 0.0:
        return np.ones(size)
    variance = math.log1p(jitter * jitter)
    normal = fault_stream(seed, kind, round).standard_normal(size)
    return np.asarray(np.exp(math.sqrt(variance) * normal - 0.5 * variance))


class VirtualClock:
    """When every agent may start its next round, eq. (38), where vectors have ``payload`` bytes.

    Attributes
    ----------
    start : ndarray of shape (N,)
        Seconds at which each agent starts the next round.
    worked : ndarray of shape (N,)
        Seconds each agent has computed.
    ends : list of float
        Network's time after each round: when its last agent may go on.
    """

    def __init__(self, model: FaultModel, payload: int) -> None:
        assert model.delays is not None
        self._model, self._delays, self._payload = model, model.delays, payload
        self.start = np.zeros(model.links.agents)
        self.worked = np.zeros(model.links.agents)
        self.ends: list[float] = []

    def advance(self, round: int, faults: RoundFaults, spoke: NDArray[np.bool_]) -> float:
        """Go through one round; return the network's time after it.

        ``spoke``, of shape (N,), has the agents that broadcast a vector; the others' silence takes the latency alone.
        """
        links, delays = self._model.links, self._delays
        work = self._work(round, faults)
        done = self.start + work
        size = np.where(spoke, self._payload / delays.bandwidth, 0.0)
        arrival = np.where(faults.present, done[links.sender] + self._way(round) + size[links.sender], -np.inf)
        # the links by which an agent receives are the opposites of those by which it sends
        last = np.maximum.reduceat(arrival[links.back], links.start[:-1])
        return self._end(np.maximum(done, last), work, faults)

    def advance_sum(self, round: int, faults: RoundFaults, tree: Tree | None, numbers: int) -> float:
        """Go through one round of a sum of so many numbers along a tree: up to the root, then down, eqs. (38), (91).

        A message that is lost is sent again at once, as often as it takes. In a void round, of no tree, nobody waits.
        """
        links, work = self._model.links, self._work(round, faults)
        ready = self.start + work
        if tree is not None:
            each = self._way(round) + 8 * numbers / self._delays.bandwidth
            each *= self._model.tries(round) if self._model.drop else 1
            below = tree.below
            below = below[np.argsort(tree.depth[below], kind="stable")]
            parents = tree.parent[below]
            levels = np.flatnonzero(np.diff(tree.depth[below], prepend=0))
            spans = [slice(*ends) for ends in zip(levels, [*levels[1:], len(below)], strict=True)]
            up, down = each[links.place(below, parents)], each[links.place(parents, below)]
            for span in reversed(spans):
                np.maximum.at(ready, parents[span], ready[below[span]] + up[span])
            for span in spans:
                ready[below[span]] = ready[parents[span]] + down[span]
        return self._end(ready, work, faults)

    def _work(self, round: int, faults: RoundFaults) -> Vector:
        """Seconds that every agent computes in a round."""
        delays, seed, agents = self._delays, self._model.seed, self._model.links.agents
        slow = np.ones(agents)
        if self._model.straggle:
            late = fault_stream(seed, STRAGGLERS, round).random(agents) < self._model.straggle
            slow = np.where(late, delays.slow, 1.0)
        work = delays.compute * slow * _factors(seed, COMPUTE, round, agents, delays.jitter)
        return np.where(faults.online, work, 0.0)

    def _way(self, round: int) -> Vector:
        """Latency of every link in a round."""
        delays, links = self._delays, self._model.links
        return delays.latency * _factors(self._model.seed, LATENCY, round, len(links.sender), delays.jitter)

    def _end(self, after: Vector, work: Vector, faults: RoundFaults) -> float:
        """Set the clocks of the next round."""
        if faults.online.any():
            # who was away comes back no sooner than the first of the others goes on
            after = np.where(faults.online, after, np.maximum(self.start, after[faults.online].min()))
        self.start, self.worked = after, self.worked + work
        self.ends.append(float(after.max()))
        return self.ends[-1]

    def summary(self) -> dict[str, float | int]:
        """Total, median and longest round in seconds, whose own computing took longest, and how much is waiting."""
        rounds = np.diff(self.ends, prepend=0.0)
        slowest = int(self.worked.argmax())
        total = self.ends[-1]
        return {
            "total": total,
            "median_round": float(np.median(rounds)),
            "longest_round": float(rounds.max()),
            "slowest_agent": slowest,
            "slowest_agent_computing": float(self.worked[slowest]),
            "waiting_share": float(1.0 - self.worked.mean() / total) if total else 0.0,
        }
