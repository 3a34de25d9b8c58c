"""Moving vectors between neighbours. A transport knows arrays and agents, never what they mean.

``World`` is the set of processes before there is a graph; ``Transport`` is what the loop talks to. As they stand here
all agents are in one process: the reference, which the forms for MPI and ZeroMQ must equal bitwise.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from admmnet.errors import AdmmnetError, RequestError, RunError

if TYPE_CHECKING:
    from admmnet.graph.simple import Graph, Tree
    from admmnet.identity.keys import Identity
    from admmnet.transport.hosts import Network
    from admmnet.transport.zmq.meeting import Start
    from admmnet.types import Integers, Matrix, Total, Vector

Outgoing = Mapping[int, "Vector | None"]
"""Agent to the vector it broadcasts this round; None for silence."""
Inbox = dict[int, "Vector"]
"""Neighbour that broadcast to its vector."""
Trees = Callable[[frozenset[int]], "Tree | None"]
"""Spanning tree of a round where some agents are lost; None where the round is void."""

SINGLE = 64
"""Up to this many agents every agent is a block of its own: small runs are bitwise equal everywhere."""
LARGEST, FEWEST = 128, 8
"""Above that: most agents of an automatic block, and how many blocks there are at least."""
Blocks = tuple[tuple[tuple[int, ...], ...], ...]
"""Of every process its blocks, each a tuple of agents that are solved together, in ascending order."""
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


class World:
    """The processes of a run before they are connected: this one alone.

    ``lasting``: the run folder is kept; else its ledgers need not reach the disk, but accounts do.
    """

    rank, size, name = 0, 1, "local"
    """Number of this process, and of all; as the summary calls the transport."""
    shared_folder = True
    """Whether all processes write one run folder; else each has a folder of its own."""
    graph: Graph | None = None
    """The network that the processes were started for, where they know of one."""
    network: Network | None = None
    """Its network file, which lists a signing key a process."""
    identity: Identity | None = None
    """Signing key of this process, as that file lists it."""
    start: Start | None = None
    """Start of a run over ZeroMQ in which this process is; None elsewhere."""
    journal: Any = None
    """``HostJournal`` of the agent of this process, if it is on a host of its own."""

    def __init__(self, *, lasting: bool = True) -> None:
        self.lasting = lasting

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        """Collect one JSON value, or error, of every process, in rank order; None of those outside the start.

        Over ZeroMQ a value has the form of its ``topic`` (``running.topics``).
        """
        return [value if isinstance(value, AdmmnetError) else json.loads(json.dumps(value))]

    def blame(self, agent: int, fault: str, kind: type[AdmmnetError] = RequestError) -> NoReturn:
        """Raise that an agent has said what cannot be, at all processes alike."""
        raise kind(fault).of_all()

    def reject(self, agent: int, fault: str) -> NoReturn:
        """End the start, or the run, by a RunError, because of what a neighbour sent."""
        raise RunError(fault)

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """End all processes at once with this exit code; on hosts of their own they are told the reason."""
        sys.exit(code)

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Spread the graph's agents over the processes, by ``layout.layout``."""
        return Transport(self, graph, block)


class Transport:
    """Rounds of messages between neighbours, and what the run folder needs to know of all agents.

    Attributes
    ----------
    blocks, owners : tuple
        Agents of the blocks of every process, and of every process.
    agents : tuple of int
        Those of this process, ascending.
    writes : bool
        Whether this process writes what is one for the network: of a shared folder the first one.
    away : dict
        Agents that take no part in this start, and since which round.
    """

    def __init__(self, world: World, graph: Graph, block: int = 1) -> None:
        self.world, self.graph = world, graph
        self.blocks = layout(graph, block, world.size)
        self.owners = owners_of(self.blocks)
        self.agents = self.owners[world.rank]
        self.writes = world.rank == 0 or not world.shared_folder
        self.away: dict[int, int] = {}

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """Send vectors of this process's agents to neighbours in other processes; return those that these have sent.

        Parameters
        ----------
        outgoing : mapping
            Every agent of this process to a float64 vector of shape (d,), or None.
        round : int
            Round, the same everywhere.
        """
        return {}

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
        """
        import numpy as np  # here: the command line starts faster

        from admmnet.types import Total

        count, tree = len(self.graph), trees(frozenset(self.away))
        if tree is None:
            return None
        # of every agent whether it is in the sum, and then the sum
        part, inside = np.zeros(count + size, dtype=np.int64), set(tree.agents)
        for i in self.agents:
            vector = outgoing.get(i)
            if vector is not None and i in inside:
                assert vector.size == size  # a single number would stand for all
                part[i] = 1
                part[count:] += vector  # arrays of integers wrap around
        total = self._added(part, tree, round)
        agents = tuple(np.flatnonzero(total[:count]).tolist())
        return Total(total[count:].copy(), agents) if agents else None

    def _added(self, part: Integers, tree: Tree, round: int) -> Integers:
        """Sum of the parts of all processes, in any order."""
        return part

    def collect(self, rows: Matrix) -> Matrix:
        """Stack the rows of all agents at every process: (local agents, k) to (N, k), in agent order.

        Rows of agents that take no part are nan.
        """
        return rows.copy()

    def close(self) -> None:
        """Free what the transport holds."""


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
    launched = launched_size()
    if transport in ("local", "zmq") or (transport == "auto" and launched == 1):
        if launched > 1 and transport != "auto":
            how = "runs in one process" if transport == "local" else "starts its processes itself"
            raise RequestError(
                f"--transport {transport} {how}, but the launcher started {launched}; "
                "leave out mpirun, or take --transport mpi"
            )
        return World()  # of zmq: the process that starts the others
    from admmnet.transport.mpi import MPIWorld

    world = MPIWorld()
    if world.size == 1 and launched > 1:
        raise RequestError(
            f"the launcher started {launched} processes that do not see each other: mpirun and the MPI library "
            f"({world.library}) do not belong together; use the mpirun beside this Python"
        )
    return world


def owners_of(blocks: Blocks) -> tuple[tuple[int, ...], ...]:
    """Agents of every process, ascending."""
    return tuple(tuple(sorted(i for block in own for i in block)) for own in blocks)


def automatic_block(agents: int, size: int) -> int:
    """Agents a block where the setting is ``auto``: it depends on the processes only where they outnumber blocks.

    Every process has one then: of as many agents each as there can be, the last of fewer, where that leaves none out.
    """
    wanted, most = 1 if agents <= SINGLE else min(LARGEST, agents // FEWEST), -(-agents // size)
    return max(1, min(wanted, most if -(-agents // most) == size else agents // size))


def layout(graph: Graph, block: int, size: int) -> Blocks:
    """Cut the agents into blocks and deal these to processes, neighbours close together.

    Agents are taken in their own order, or in the reverse Cuthill-McKee order where that makes the sum over
    edges of the distance between their places shorter. The blocks do not depend on the number of processes. With
    as many processes as agents, agent i is at process i.

    Parameters
    ----------
    graph : networkx.Graph
        Nodes 0 to N - 1.
    block : int
        Agents a block; the last one may have fewer.
    size : int
        Number of processes.

    Raises
    ------
    RequestError
        If there are more processes than agents or than blocks.
    """
    agents = len(graph)
    if size > agents:
        raise RequestError(
            f"{size} ranks for {agents} agents: there must be at most one rank an agent; "
            f"start {agents} ranks or fewer, or take a graph with more agents"
        )
    alone = size == agents or size == block == 1  # no neighbours to bring together
    order = list(range(agents)) if alone else _order(graph)
    blocks = [tuple(sorted(order[start : start + block])) for start in range(0, agents, block)]
    if size > len(blocks):
        raise RequestError(
            f"{size} ranks for {len(blocks)} blocks of {block} agents: there must be at most one rank a block; "
            f"start {len(blocks)} ranks or fewer, or lower --block to {agents // size}"
        )
    edges = [rank * len(blocks) // size for rank in range(size + 1)]
    return tuple(tuple(sorted(blocks[low:high])) for low, high in pairwise(edges))


def _order(graph: Graph) -> list[int]:
    import numpy as np  # here: the command line starts faster

    agents = len(graph)
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    natural = int(np.abs(edges[:, 0] - edges[:, 1]).sum())
    if natural <= len(edges):  # a path: no order is shorter
        return list(range(agents))
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    ends = np.concatenate([edges, edges[:, ::-1]])
    # sorted by rows and columns, so that the order of the edges in a file makes no difference
    matrix = coo_array((np.ones(len(ends)), ends.T), shape=(agents, agents)).tocsr()
    matrix.sort_indices()
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    place = np.empty(agents, dtype=np.int64)
    place[order] = np.arange(agents)
    distance = int(np.abs(place[edges[:, 0]] - place[edges[:, 1]]).sum())
    return [int(i) for i in order] if distance < natural else list(range(agents))
