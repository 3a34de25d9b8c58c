"""Simulated faults: the rest of section [network] of a run's settings."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.errors import RequestError
from admmnet.settings import in_network


@dataclass(frozen=True, kw_only=True)
class FaultSettings:
    """Graphs that take turns, lost messages, absent agents."""

    topology_schedule: str | None = in_network(
        None, "file of graphs that take turns: lines such as '0-9 ring:5'", metavar="FILE"
    )
    drop: float = in_network(0.0, "share of messages that are lost, simulated", within="[0, 1)")
    offline: str | None = in_network(None, "simulated absences: 3:10-19,4:25-", metavar="AGENT:FIRST-LAST,...")
    trouble_seed: int | None = in_network(
        None, "seed of simulated trouble (default: --seed, else 0)", within="[0, inf)"
    )

    def check(self) -> None:
        """Check faults against each other."""
        if self.trouble_seed is not None and not self.drop:
            raise RequestError(f"trouble_seed = {self.trouble_seed} goes with drop: nothing else is drawn")
