"""How long computing and sending take, and the random numbers of simulated trouble (docs/trouble.md)."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass

import numpy as np

from admmnet.errors import RequestError

LOSSES, STRAGGLERS, COMPUTE, LATENCY, REPEATS = 1, 2, 3, 4, 5
"""Kinds of random numbers."""
_TROUBLE = 2**31
"""First word of the spawn keys of trouble: streams of agents start with the agent's number, which is smaller."""


def fault_stream(seed: int, kind: int, round: int) -> np.random.Generator:
    """Random numbers of one kind of trouble and round; no other part of a run shares them."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_TROUBLE, kind, round))
    return np.random.Generator(np.random.PCG64(sequence))


@dataclass(frozen=True)
class Delays:
    """What takes how long."""

    compute: float = 0.0
    """Mean seconds an agent computes a round."""
    latency: float = 0.0
    """Mean seconds that a message, or the sign that there is none, is on its way."""
    jitter: float = 0.0
    """Standard deviation of both, as a share of their means; they are lognormal."""
    bandwidth: float = math.inf
    """Bytes a second over a link, added to the latency."""
    slow: float = 10.0
    """Factor of a straggler's computing."""

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

    Each key at most once; those left out keep the defaults of ``Delays``. ``slow`` means nothing without ``straggle``.
    """
    values: dict[str, float] = {}
    for entry in text.split(","):
        key, equals, number = (part.strip() for part in entry.partition("="))
        where = f"delay = {text!r}: "
        if not equals or key not in _BOUNDS:
            close = difflib.get_close_matches(key, _BOUNDS, n=1)
            hint = f"; did you mean {close[0]}?" if close and key not in _BOUNDS else ""
            raise RequestError(f"{where}{entry.strip()!r} is not KEY=X with a key of {', '.join(_BOUNDS)}{hint}")
        if key in values:
            raise RequestError(f"{where}{key} is given twice; give it once")
        low, bound = _BOUNDS[key]
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not low <= value <= _MOST:
            raise RequestError(f"{where}{key} = {number} is not allowed: it must be {bound} and at most {_MOST:g}")
        values[key] = value
    if "slow" in values and straggle == 0.0:
        raise RequestError(f"delay = {text!r}: slow goes with straggle > 0, the share of slow rounds")
    return Delays(**values)
