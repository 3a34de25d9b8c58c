"""Moving vectors between neighbours. A transport knows arrays and agents, never what they mean.

``World`` is the set of processes before there is a graph; ``Transport`` is what the loop talks to. Both come
in a local form (one process) and an MPI form; the same conformance tests run over every transport.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from admmnet.errors import RequestError

if TYPE_CHECKING:
    import networkx as nx

    from admmnet.types import Matrix, Vector

Spoken = Mapping[int, "Vector | None"]
"""Agent to the vector it broadcasts this round; None for silence."""
Heard = dict[int, dict[int, "Vector"]]
"""Agent to {neighbour that spoke: its vector}."""

_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


class World(Protocol):
    """The processes of a run before they are connected."""

    rank: int
    size: int
    name: str

    def gather(self, value: Any) -> list[Any]:
        """Collect one JSON value from every process, in rank order, at every process."""

    def abort(self, code: int) -> NoReturn:
        """End all processes at once with this exit code."""

    def connect(self, graph: nx.Graph) -> Transport:
        """Spread the graph's agents over the processes."""

    def blocks(self, agents: int) -> Sequence[range]:
        """Agents of every process: contiguous, sizes differing by at most one."""


class Transport(Protocol):
    """Rounds of messages between neighbours, and what the records need to know of all agents."""

    world: World
    agents: range

    def exchange(self, spoken: Spoken, round: int) -> Heard:
        """Send what this process's agents say to their neighbours and return what they hear.

        Parameters
        ----------
        spoken : mapping
            Every agent of this process to a float64 vector of shape (d,), or None.
        round : int
            Round, the same everywhere.
        """

    def collect(self, rows: Matrix) -> Matrix:
        """Stack the rows of all agents at every process: (local agents, k) to (N, k), in agent order."""

    def close(self) -> None:
        """Free what the transport holds."""


def blocks(agents: int, size: int) -> list[range]:
    """Contiguous blocks of agents, one a process, sizes differing by at most one.

    Raises
    ------
    RequestError
        If there are more processes than agents.
    """
    if size > agents:
        raise RequestError(
            f"{size} ranks for {agents} agents: there must be at most one rank an agent; "
            f"start {agents} ranks or fewer, or take a graph with more agents"
        )
    edges = [rank * agents // size for rank in range(size + 1)]
    return [range(low, high) for low, high in pairwise(edges)]


def launched_size() -> int:
    """Return the number of processes that an MPI launcher says it started, 1 without a launcher."""
    if "PMIX_RANK" in os.environ and not any(name in os.environ for name in _SIZE_VARIABLES):
        return 2  # such launchers give no size: let MPI itself say
    return max(
        (int(os.environ[name]) for name in _SIZE_VARIABLES if os.environ.get(name, "").isdecimal()), default=1
    )


def open_world(transport: str = "auto") -> World:
    """Processes of this run: MPI under a launcher or on request, else this process alone.

    Raises
    ------
    RequestError
        If the launcher's processes do not find each other.
    """
    from admmnet.transport.local import LocalWorld

    launched = launched_size()
    if transport == "local" or (transport == "auto" and launched == 1):
        if launched > 1 and transport == "local":
            raise RequestError(
                f"--transport local runs in one process, but the launcher started {launched}; "
                "leave out mpirun, or take --transport mpi"
            )
        return LocalWorld()
    from admmnet.transport.mpi import MPIWorld

    world = MPIWorld()
    if world.size == 1 and launched > 1:
        raise RequestError(
            f"the launcher started {launched} processes that do not see each other: mpirun and the MPI library "
            f"({world.library}) do not belong together; use the mpirun beside this Python"
        )
    return world
