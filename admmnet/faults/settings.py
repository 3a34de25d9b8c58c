"""Simulated faults: the rest of section [network] of a run's settings."""

from __future__ import annotations

from typing import Annotated, ClassVar

from admmnet.errors import RequestError
from admmnet.settings import Section, about


class FaultSettings(Section, frozen=True, kw_only=True):
    """Graphs that take turns, lost messages, absent agents."""

    table: ClassVar[str] = "network"
    topology_schedule: Annotated[str, about(metavar="FILE")] | None = None
    """file of graphs that take turns: lines such as '0-9 ring:5'"""
    drop: Annotated[float, about(ge=0, lt=1)] = 0.0
    """share of messages that are lost, simulated"""
    offline: Annotated[str, about(metavar="AGENT:FIRST-LAST,...")] | None = None
    """simulated absences: 3:10-19,4:25-"""
    trouble_seed: Annotated[int, about(ge=0)] | None = None
    """seed of simulated trouble (default: --seed, else 0)"""

    def check(self) -> None:
        """Check faults against each other."""
        if self.trouble_seed is not None and not self.drop:
            raise RequestError(f"trouble_seed = {self.trouble_seed} goes with drop: nothing else is drawn")
