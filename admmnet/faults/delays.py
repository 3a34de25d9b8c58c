"""How long computing and sending take, and the random numbers of simulated trouble (docs/simulate.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from admmnet.errors import RequestError
from admmnet.registry import meant
from admmnet.settings import in_network, settings_in

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

    compute: float = in_network(0.0, "mean seconds an agent computes a round", within="[0, 1e12]")
    latency: float = in_network(0.0, "mean seconds of a message, or of its absence, on its way", within="[0, 1e12]")
    jitter: float = in_network(0.0, "deviation of both over their means; they are lognormal", within="[0, 1e12]")
    bandwidth: float = in_network(math.inf, "bytes a second, added to the latency", within="[1e-12, 1e12]")
    slow: float = in_network(10.0, "factor of a straggler's computing", within="[1, 1e12]")

    def words(self) -> str:
        """The settings in words, for a note."""
        rate = "" if math.isinf(self.bandwidth) else f", {self.bandwidth:g} bytes a second"
        spread = f", both with a standard deviation of {100 * self.jitter:g} %" if self.jitter else ""
        return f"{self.compute:g} s a round of computing, {self.latency:g} s a message{spread}{rate}"


def parse_delay(text: str, *, straggle: float) -> Delays:
    """Delays such as ``compute=0.05,latency=0.02,jitter=0.5,bandwidth=1e6,slow=10``.

    Each key at most once; those left out keep the defaults of ``Delays``. ``slow`` means nothing without ``straggle``.
    """
    known, values = settings_in(Delays), dict[str, float]()
    for entry in text.split(","):
        key, equals, number = (part.strip() for part in entry.partition("="))
        where = f"delay = {text!r}: "
        if not equals or key not in known:
            hint = "" if key in known else meant(key, known)
            raise RequestError(f"{where}{entry.strip()!r} is not KEY=X: {hint}the keys are {', '.join(known)}")
        if key in values:
            raise RequestError(f"{where}{key} is given twice; give it once")
        try:
            values[key] = known[key].parse(number)
        except RequestError as error:
            raise RequestError(f"{where}{error}") from None
    if "slow" in values and straggle == 0.0:
        raise RequestError(f"delay = {text!r}: slow goes with straggle > 0, the share of slow rounds")
    return Delays(**values)
