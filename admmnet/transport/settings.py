"""The network: most of section [network] of a run's settings."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.errors import RequestError
from admmnet.settings import Auto, in_network, in_table

_deadline = in_table("network", within="[0.1, 1e6]", scope="zmq", resume=True, hosts=True)


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Graph, processes, deadlines."""

    topology: str | None = in_network(None, "graph file or spec such as ring:5", metavar="FILE|SPEC", everyday=10)
    topology_seed: int | None = in_network(None, "seed of a random graph (default: --seed, else 0)", within="[0, inf)")
    agents: int | None = in_network(
        None, "number of agents (default: the graph's, the ranks', 5)", within="[2, inf)", everyday=11
    )
    transport: str = in_network(
        "auto",
        "how agents are run; auto: mpi under mpirun, else local; zmq: one process an agent",
        choices=("auto", "local", "mpi", "zmq"),
        resume=True,
        hosts=True,
        everyday=12,
    )
    block: int | Auto = in_network(
        "auto",
        "agents solved together; auto: 1 up to 64 agents, above an eighth of them, at most 128",
        within="[1, 10000]",
    )
    connect_deadline: float = _deadline(60.0, "seconds until the next zmq process must have come")
    heartbeat_deadline: float = _deadline(10.0, "seconds without a sign of life until a zmq process is lost")
    round_deadline: float | Auto = in_network(
        "auto",
        within="[0.1, 1e6]",
        scope="network",
        resume=True,
        hosts=True,
        help="seconds for a zmq agent's part of a round, or a wait in MPI; auto: docs/hosts.md",
    )
    shutdown_deadline: float = _deadline(10.0, "seconds in which zmq agents must end after an error")

    def check(self) -> None:
        """Check what goes with the transport, and with the graph."""
        if self.transport == "zmq" and self.block not in ("auto", 1):
            raise RequestError(
                f"block = {self.block} does not go with transport = 'zmq', where every agent is a process of its own: "
                "give 1, or leave it out"
            )
        if self.topology_seed and self.topology is not None:
            from admmnet.graph.specs import check_seed

            check_seed("topology_seed =", self.topology, self.topology_seed)
