"""Moving vectors between neighbours. A transport knows arrays and agents, never what they mean.

``World`` is the set of processes before there is a graph; ``Transport`` is what the loop talks to. Both come
in a local form (one process), an MPI form and a ZeroMQ form; the same conformance tests run over every one.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.transport.layout import layout

if TYPE_CHECKING:
    from admmnet.graph.simple import Graph
    from admmnet.graph.tree import Tree
    from admmnet.identity.keys import Identity
    from admmnet.transport.begun import Begun
    from admmnet.transport.hosts.network import Network
    from admmnet.types import Integers, Matrix, Total, Vector

Outgoing = Mapping[int, "Vector | None"]
"""Agent to the vector it broadcasts this round; None for silence."""
Inbox = dict[int, "Vector"]
"""Agent to {neighbour that broadcast: its vector}."""
Trees = Callable[[frozenset[int]], "Tree | None"]
"""Spanning tree of a round where some agents are lost; None where the round is void."""

_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


class World(Protocol):
    """The processes of a run before they are connected."""

    rank: int
    size: int
    """Number of this process, and of all."""
    name: str
    """As the summary calls the transport."""
    shared_folder: bool
    """Whether all processes write one run folder; else each has a folder of its own."""
    lasting: bool
    """Whether the run folder is kept; else its ledgers need not reach the disk, but accounts do."""

    graph: Graph | None = None
    """The network that the processes were started for, where they know of one."""
    network: Network | None = None
    """Its network file, which lists a signing key a process."""
    identity: Identity | None = None
    """Signing key of this process, as that file lists it."""
    start: Begun | None = None
    """Start of a run over hosts of their own; None elsewhere."""

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        """Collect one JSON value, or ``Failed``, of every process, in rank order; None of those outside the start.

        Over ZeroMQ a value has the form of its ``topic`` (``running.topics``).
        """

    def blame(self, agent: int, fault: str, kind: type[AdmmnetError] = RequestError) -> NoReturn:
        """Raise that an agent has said what cannot be, at all processes alike."""
        raise kind(fault).of_all()

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """End all processes at once with this exit code; on hosts of their own they are told the reason."""

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Spread the graph's agents over the processes, by ``layout.layout``."""


class Transport(ABC):
    """Rounds of messages between neighbours, and what the run folder needs to know of all agents.

    Attributes
    ----------
    layout : Layout
        Agents of every block and process.
    agents : tuple of int
        Those of this process, ascending.
    away : dict
        Agents that take no part in this start, and since which round.
    """

    def __init__(self, world: World, graph: Graph, block: int = 1) -> None:
        self.world: World = world
        self.layout = layout(graph, block, world.size)
        self.away: dict[int, int] = {}
        owners = self.layout.owners
        self.agents = owners[world.rank]
        self._owner = {i: rank for rank, own in enumerate(owners) for i in own}
        self._crossing = [(i, j) for i in self.agents for j in graph[i] if self._owner[j] != world.rank]
        ranks = sorted({self._owner[j] for _, j in self._crossing})
        # agents whose vectors go to, and come from, each neighbouring process, in ascending order
        self._to = {rank: sorted({i for i, j in self._crossing if self._owner[j] == rank}) for rank in ranks}
        self._from = {rank: sorted({j for _, j in self._crossing if self._owner[j] == rank}) for rank in ranks}

    @abstractmethod
    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """Send vectors of this process's agents to neighbours in other processes; return those that these have sent.

        Parameters
        ----------
        outgoing : mapping
            Every agent of this process to a float64 vector of shape (d,), or None.
        round : int
            Round, the same everywhere.
        """

    @abstractmethod
    def reduce(self, outgoing: Mapping[int, Integers | None], trees: Trees, round: int, size: int) -> Total | None:
        """Sum vectors of integers over all agents, modulo 2^64, along the edges of a tree: up to its root, and down.

        Parameters
        ----------
        outgoing : mapping
            Every agent of this process to an int64 vector, or None; who is left out gives None.
        trees : callable
            Tree of the round, the same everywhere, where the given agents are lost.
        round : int
            Round, the same everywhere.
        size : int
            Length of the vectors, the same everywhere, at least 1.

        Returns
        -------
        Total or None
            The same at every process that goes on; None of a void round, and where nobody gives a vector: in a total
            there is somebody.

        Raises
        ------
        RunError
            If an agent's vector has another length, and one loss ends all.
        """

    def hearer(self, agent: int) -> int:
        """First agent of this process that an agent of another one speaks to."""
        return next(i for i, j in self._crossing if j == agent)

    def reject(self, agent: int, fault: str) -> None:
        """End the start, or the run, by a RunError, because of what an agent sent."""
        raise RunError(fault)

    def accuse(self, agent: int, fault: str) -> None:
        """As ``reject``, because of what an agent has said to all; it need not see a fault itself."""
        self.reject(agent, fault)

    @abstractmethod
    def collect(self, rows: Matrix) -> Matrix:
        """Stack the rows of all agents at every process: (local agents, k) to (N, k), in agent order.

        Rows of agents that take no part are nan.
        """

    def close(self) -> None:  # noqa: B027 (not all hold anything)
        """Free what the transport holds."""


def is_writer(transport: Transport) -> bool:
    """Whether this process writes what is one for the network: of a shared folder the first one."""
    return transport.world.rank == 0 or not transport.world.shared_folder


def launched_size() -> int:
    """Return the number of processes that an MPI launcher says it started, 1 without a launcher."""
    if "PMIX_RANK" in os.environ and not any(name in os.environ for name in _SIZE_VARIABLES):
        return 2  # such launchers give no size: let MPI itself say
    sizes = (os.environ.get(name, "") for name in _SIZE_VARIABLES)
    return max((int(size) for size in sizes if size.isdecimal()), default=1)


def open_world(transport: str = "auto") -> World:
    """Processes of this run: MPI under a launcher or on request, else this process alone.

    A launcher whose processes do not find each other is refused.
    """
    from admmnet.transport.local import LocalWorld

    launched = launched_size()
    if transport in ("local", "zmq") or (transport == "auto" and launched == 1):
        if launched > 1 and transport != "auto":
            how = "runs in one process" if transport == "local" else "starts its processes itself"
            raise RequestError(
                f"--transport {transport} {how}, but the launcher started {launched}; "
                "leave out mpirun, or take --transport mpi"
            )
        return LocalWorld()  # of zmq: the process that starts the others
    from admmnet.transport.mpi import MPIWorld

    world = MPIWorld()
    if world.size == 1 and launched > 1:
        raise RequestError(
            f"the launcher started {launched} processes that do not see each other: mpirun and the MPI library "
            f"({world.library}) do not belong together; use the mpirun beside this Python"
        )
    return world
