"""Simulated faults: the rest of section [network] of a run's settings."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.errors import RequestError
from admmnet.settings import in_network


@dataclass(frozen=True, kw_only=True)
class FaultSettings:
    """Graphs that take turns, lost messages, absent and slow agents."""

    topology_schedule: str | None = in_network(
        None, "file of graphs that take turns: lines such as '0-9 ring:5'", metavar="FILE", chosen=True
    )
    drop: float = in_network(0.0, "share of messages that are lost, simulated", within="[0, 1)", chosen=True)
    drop_burst: float = in_network(
        1.0, "mean rounds in a row that a lossy link loses", within="[1, 1e+06]", chosen=True
    )
    straggle: float = in_network(
        0.0, "share of rounds in which an agent is slow, by the virtual clock", within="[0, 1]"
    )
    offline: str | None = in_network(
        None, "simulated absences: 3:10-19,4:25-", metavar="AGENT:FIRST-LAST,...", chosen=True
    )
    delay: str | None = in_network(
        None,
        "delays of the virtual clock: compute=0.05,latency=0.02,jitter=0.5,bandwidth=1e6,slow=10",
        metavar="KEY=X,...",
    )
    trouble_seed: int | None = in_network(
        None, "seed of simulated trouble (default: --seed, else 0)", within="[0, inf)", chosen=True
    )

    def check(self) -> None:
        """Check faults against each other."""
        if self.drop_burst != 1.0 and self.drop == 0.0:
            raise RequestError(
                f"drop_burst = {self.drop_burst:g} goes with drop > 0: it is the length of bursts of lost messages"
            )
        if self.straggle > 0.0 and self.delay is None:
            raise RequestError(
                f"straggle = {self.straggle:g} goes with delay: slow rounds show on the virtual clock alone"
            )
        if self.trouble_seed is not None and not (self.drop or self.straggle or self.delay is not None):
            raise RequestError(
                f"trouble_seed = {self.trouble_seed} goes with drop, straggle or delay: nothing else is drawn"
            )
