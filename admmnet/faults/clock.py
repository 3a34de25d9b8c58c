"""The virtual clock: what rounds would have taken where computing and sending take time. Nothing sleeps.

docs/algorithms.md eq. (38); docs/trouble.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from admmnet.faults.delays import COMPUTE, LATENCY, STRAGGLERS, fault_stream
from admmnet.faults.model import FaultModel, RoundFaults
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
        links, delays, seed = self._model.links, self._delays, self._model.seed
        slow = np.ones(links.agents)
        if self._model.straggle:
            late = fault_stream(seed, STRAGGLERS, round).random(links.agents) < self._model.straggle
            slow = np.where(late, delays.slow, 1.0)
        work = delays.compute * slow * _factors(seed, COMPUTE, round, links.agents, delays.jitter)
        work = np.where(faults.online, work, 0.0)
        done = self.start + work
        way = delays.latency * _factors(seed, LATENCY, round, len(links.sender), delays.jitter)
        size = np.where(spoke, self._payload / delays.bandwidth, 0.0)
        arrival = np.where(faults.present, done[links.sender] + way + size[links.sender], -np.inf)
        # the links by which an agent receives are the opposites of those by which it sends
        last = np.maximum.reduceat(arrival[links.back], links.start[:-1])
        after = np.maximum(done, last)
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
