"""The virtual clock: what rounds would have taken where computing and sending take time. Nothing sleeps.

docs/algorithms.md eq. (38); docs/trouble.md.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.faults.model import Trouble, Weather

STRAGGLERS, COMPUTE, LATENCY = 2, 3, 4
"""Kinds of random numbers; ``weather`` has the other."""
_TROUBLE = 2**31
"""First word of the spawn keys of trouble: streams of agents start with the agent's number, which is smaller."""


def trouble_stream(seed: int, kind: int, round: int) -> np.random.Generator:
    """Random numbers of one kind of trouble and round; no other part of a run shares them."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_TROUBLE, kind, round))
    return np.random.Generator(np.random.PCG64(sequence))


@dataclass(frozen=True)
class Delays:
    """What takes how long.

    Attributes
    ----------
    compute : float
        Mean seconds an agent computes a round.
    latency : float
        Mean seconds that a message, or the sign that there is none, is on its way.
    jitter : float
        Standard deviation of both, as a share of their means; they are lognormal.
    bandwidth : float
        Bytes a second over a link, added to the latency.
    slow : float
        Factor of a straggler's computing.
    """

    compute: float = 0.0
    latency: float = 0.0
    jitter: float = 0.0
    bandwidth: float = math.inf
    slow: float = 10.0

    def words(self) -> str:
        """The settings in words, for a note."""
        rate = "" if math.isinf(self.bandwidth) else f", {self.bandwidth:g} bytes a second"
        spread = f", both with a standard deviation of {100 * self.jitter:g} %" if self.jitter else ""
        return f"{self.compute:g} s a round of computing, {self.latency:g} s a message{spread}{rate}"


_BOUNDS = {
    "compute": (0.0, "at least 0 (seconds)"),
    "latency": (0.0, "at least 0 (seconds)"),
    "jitter": (0.0, "at least 0 (a share of the mean)"),
    "bandwidth": (1e-12, "at least 1e-12 (bytes a second)"),
    "slow": (1.0, "at least 1 (a factor)"),
}
_MOST = 1e12


def parse_delay(text: str, *, straggle: float) -> Delays:
    """Delays such as ``compute=0.05,latency=0.02,jitter=0.5,bandwidth=1e6,slow=10``.

    Parameters
    ----------
    text : str
        Keys and values, each key at most once; those left out keep the defaults of ``Delays``.
    straggle : float
        Probability of a straggler, without which ``slow`` means nothing.

    Raises
    ------
    RequestError
        Naming key, value and bound.
    """
    values: dict[str, float] = {}
    for entry in text.split(","):
        key, equals, number = (part.strip() for part in entry.partition("="))
        where = f"delay = {text!r}: "
        if not equals or key not in _BOUNDS:
            close = difflib.get_close_matches(key, _BOUNDS, n=1)
            hint = f"; did you mean {close[0]}?" if close and key not in _BOUNDS else ""
            raise RequestError(
                f"{where}{entry.strip()!r} is not KEY=X with a key of {', '.join(_BOUNDS)}{hint}"
            )
        if key in values:
            raise RequestError(f"{where}{key} is given twice; give it once")
        low, bound = _BOUNDS[key]
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not low <= value <= _MOST:
            raise RequestError(
                f"{where}{key} = {number} is not allowed: it must be {bound} and at most {_MOST:g}"
            )
        values[key] = value
    if "slow" in values and straggle == 0.0:
        raise RequestError(f"delay = {text!r}: slow goes with straggle > 0, the share of slow rounds")
    return Delays(**values)


def _factors(seed: int, kind: int, round: int, size: int, jitter: float) -> Vector:
    """Lognormal factors of mean 1 and standard deviation ``jitter``, shape (size,)."""
    if jitter == 0.0:
        return np.ones(size)
    variance = math.log1p(jitter * jitter)
    normal = trouble_stream(seed, kind, round).standard_normal(size)
    return np.asarray(np.exp(math.sqrt(variance) * normal - 0.5 * variance))


class VirtualClock:
    """When every agent may start its next round, eq. (38).

    Parameters
    ----------
    trouble : Trouble
        With delays.
    payload : int
        Bytes of a vector.

    Attributes
    ----------
    start : ndarray of shape (N,)
        Seconds at which each agent starts the next round.
    worked : ndarray of shape (N,)
        Seconds each agent has computed.
    ends : list of float
        Network's time after each round: when its last agent may go on.
    """

    def __init__(self, trouble: Trouble, payload: int) -> None:
        assert trouble.delays is not None
        self._trouble, self._delays, self._payload = trouble, trouble.delays, payload
        self.start = np.zeros(trouble.links.agents)
        self.worked = np.zeros(trouble.links.agents)
        self.ends: list[float] = []

    def advance(self, round: int, weather: Weather, spoke: NDArray[np.bool_]) -> float:
        """Go through one round; return the network's time after it.

        Parameters
        ----------
        round : int
        weather : Weather
            Of this round.
        spoke : ndarray of bool, shape (N,)
            Agents that broadcast a vector; the others' silence takes the latency alone.
        """
        links, delays, seed = self._trouble.links, self._delays, self._trouble.seed
        slow = np.ones(links.agents)
        if self._trouble.straggle:
            late = trouble_stream(seed, STRAGGLERS, round).random(links.agents) < self._trouble.straggle
            slow = np.where(late, delays.slow, 1.0)
        work = delays.compute * slow * _factors(seed, COMPUTE, round, links.agents, delays.jitter)
        work = np.where(weather.online, work, 0.0)
        done = self.start + work
        way = delays.latency * _factors(seed, LATENCY, round, len(links.sender), delays.jitter)
        size = np.where(spoke, self._payload / delays.bandwidth, 0.0)
        arrival = np.where(weather.present, done[links.sender] + way + size[links.sender], -np.inf)
        # the links by which an agent receives are the opposites of those by which it sends
        last = np.maximum.reduceat(arrival[links.back], links.start[:-1])
        after = np.maximum(done, last)
        if weather.online.any():
            # who was away comes back no sooner than the first of the others goes on
            after = np.where(weather.online, after, np.maximum(self.start, after[weather.online].min()))
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
