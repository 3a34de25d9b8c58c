"""The network: section [network] of a run's settings, with the trouble that is simulated on it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from admmnet.errors import RequestError
from admmnet.settings import Auto, Section, about

TRANSPORTS = ("auto", "local", "mpi", "zmq")
_Deadline = Annotated[float, about(ge=0.1, le=1e6, scope="zmq", resume=True, hosts=True)]


class NetworkSettings(Section, frozen=True, kw_only=True):
    """Graph, processes, deadlines; graphs that take turns, lost messages, absent agents."""

    table: ClassVar[str] = "network"
    topology: Annotated[str, about(metavar="FILE|SPEC", everyday=10)] | None = None
    """graph file or spec such as ring:5"""
    topology_seed: Annotated[int, about(ge=0)] | None = None
    """seed of a random graph (default: --seed, else 0)"""
    agents: Annotated[int, about(ge=2, everyday=11)] | None = None
    """number of agents (default: the graph's, the ranks', 5)"""
    transport: Annotated[str, about(choices=TRANSPORTS, resume=True, hosts=True, everyday=12)] = "auto"
    """how agents are run; auto: mpi under mpirun, else local; zmq: one process an agent"""
    block: Annotated[int, about(ge=1, le=10_000)] | Auto = "auto"
    """agents solved together; auto: 1 up to 64 agents, above an eighth of them, at most 128"""
    connect_deadline: _Deadline = 60.0
    """seconds until the next zmq process must have come"""
    heartbeat_deadline: _Deadline = 10.0
    """seconds without a sign of life until a zmq process is lost"""
    round_deadline: Annotated[float, about(ge=0.1, le=1e6, resume=True, hosts=True)] | Auto = "auto"
    """seconds for a zmq agent's part of a round, or a wait in MPI; auto: docs/hosts.md"""
    shutdown_deadline: _Deadline = 10.0
    """seconds in which zmq agents must end after an error"""

    topology_schedule: Annotated[str, about(metavar="FILE")] | None = None
    """file of graphs that take turns: lines such as '0-9 ring:5'"""
    drop: Annotated[float, about(ge=0, lt=1)] = 0.0
    """share of messages that are lost, simulated"""
    offline: Annotated[str, about(metavar="AGENT:FIRST-LAST,...")] | None = None
    """simulated absences: 3:10-19,4:25-"""
    trouble_seed: Annotated[int, about(ge=0)] | None = None
    """seed of simulated trouble (default: --seed, else 0)"""

    def check(self) -> None:
        """Check what goes with the transport, with the graph, and faults against each other."""
        if self.trouble_seed is not None and not self.drop:
            raise RequestError(f"trouble_seed = {self.trouble_seed} goes with drop: nothing else is drawn")
        if self.transport == "zmq" and self.block not in ("auto", 1):
            raise RequestError(
                f"block = {self.block} does not go with transport = 'zmq', where every agent is a process of its own: "
                "give 1, or leave it out"
            )
        if self.topology_seed and self.topology is not None:
            from admmnet.graph.specs import check_seed

            check_seed("topology_seed =", self.topology, self.topology_seed)
