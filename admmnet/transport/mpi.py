"""Agents over MPI ranks: a distributed-graph communicator and neighbourhood collectives.

Every wait polls a non-blocking operation and backs off: five ranks on two cores is the normal case, and a
rank that spins takes its core from one that computes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NoReturn

import networkx as nx
import numpy as np
from mpi4py import MPI

from admmnet.errors import RunError
from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.transport.layout import layout
from admmnet.types import Matrix, Vector

SPINS = 20
"""Tests of a pending operation before the first pause."""
SHORTEST_PAUSE, LONGEST_PAUSE = 20e-6, 1e-3
"""Seconds. A pause is 2% of the time waited so far, between these."""


def wait(request: Any) -> None:
    """Wait for an MPI request without starving the other ranks of this machine."""
    for _ in range(SPINS):
        if request.Test():
            return
    start = time.perf_counter()
    while not request.Test():
        waited = time.perf_counter() - start
        time.sleep(min(max(0.02 * waited, SHORTEST_PAUSE), LONGEST_PAUSE))


class MPIWorld:
    """All ranks of MPI's world communicator."""

    name = "mpi"
    shared_folder = True
    graph = None

    def __init__(self) -> None:
        self._comm = MPI.COMM_WORLD
        self.rank = int(self._comm.rank)
        self.size = int(self._comm.size)
        self.library = str(MPI.Get_library_version()).splitlines()[0].strip()

    def gather(self, value: Any) -> list[Any]:
        """See ``World.gather``: JSON, never pickle."""
        mine = np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)
        sizes = np.empty(self.size, dtype=np.int64)
        wait(self._comm.Iallgather(np.array([mine.size], dtype=np.int64), sizes))
        everything = np.empty(int(sizes.sum()), dtype=np.uint8)
        wait(self._comm.Iallgatherv(mine, (everything, sizes.tolist())))
        return [json.loads(part.tobytes()) for part in np.split(everything, np.cumsum(sizes)[:-1])]

    def abort(self, code: int) -> NoReturn:
        """End every rank."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._comm.Abort(code)
        sys.exit(code)

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        """Connect ranks whose agents are neighbours."""
        return MPITransport(self, self._comm, graph, block)


class MPITransport:
    """One message a pair of neighbouring ranks and round; agents of one rank hear each other in memory.

    A round is two neighbourhood collectives: who speaks (one byte an agent with a neighbour there), then the
    vectors of those who do. Silence sends no payload.
    """

    def __init__(self, world: World, comm: Any, graph: nx.Graph, block: int = 1) -> None:
        self.world = world
        self.layout = layout(graph, block, world.size)
        owners = self.layout.owners
        owner = {i: rank for rank, own in enumerate(owners) for i in own}
        self._owners = owners
        self._places = np.concatenate(owners)
        self.agents = owners[world.rank]
        self.lost: dict[int, int] = {}
        self._neighbours = {i: sorted(graph[i]) for i in self.agents}
        crossing = [(i, j) for i in self.agents for j in self._neighbours[i] if owner[j] != world.rank]
        self._ranks = sorted({owner[j] for _, j in crossing})
        # agents whose vectors go to, and come from, each neighbouring rank, in ascending order
        self._to = [sorted({i for i, j in crossing if owner[j] == rank}) for rank in self._ranks]
        self._from = [sorted({j for _, j in crossing if owner[j] == rank}) for rank in self._ranks]
        self._world_comm = comm
        self._comm = comm.Create_dist_graph_adjacent(self._ranks, self._ranks)

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``."""
        arrived: dict[int, Vector] = {i: sent for i, sent in outgoing.items() if sent is not None}
        if self._ranks:
            arrived |= self._exchange_across(outgoing)
        return {
            i: {j: arrived[j].copy() for j in around if j in arrived}
            for i, around in self._neighbours.items()
        }

    def _exchange_across(self, outgoing: Outgoing) -> dict[int, Vector]:
        # the length of a vector, 0 for silence: a receiver needs no other knowledge of what comes
        lengths = [[0 if (v := outgoing[i]) is None else v.size for i in block] for block in self._to]
        out = np.array([length for block in lengths for length in block], dtype=np.int64)
        coming = np.empty(sum(map(len, self._from)), dtype=np.int64)
        wait(
            self._comm.Ineighbor_alltoallv(
                (out, list(map(len, self._to))), (coming, list(map(len, self._from)))
            )
        )
        sent = [v for block in self._to for i in block if (v := outgoing[i]) is not None]
        payload = np.concatenate(sent) if sent else np.empty(0)
        splits = np.split(coming, np.cumsum(list(map(len, self._from)))[:-1])
        buffer = np.empty(int(coming.sum()))
        wait(
            self._comm.Ineighbor_alltoallv(
                (payload, [sum(block) for block in lengths]), (buffer, [int(part.sum()) for part in splits])
            )
        )
        vectors = np.split(buffer, np.cumsum(coming)[:-1])
        senders = [j for block in self._from for j in block]
        return {j: vector for j, vector in zip(senders, vectors, strict=True) if vector.size}

    def reject(self, agent: int, fault: str) -> NoReturn:
        """See ``Transport.reject``: one loss ends all."""
        raise RunError(fault)

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        width = rows.shape[1]
        everything = np.empty((sum(map(len, self._owners)), width))
        counts = [len(block) * width for block in self._owners]
        wait(self._world_comm.Iallgatherv(np.ascontiguousarray(rows), (everything, counts)))
        ordered = np.empty_like(everything)
        ordered[self._places] = everything
        return ordered

    def close(self) -> None:
        """Free the graph communicator."""
        self._comm.Free()
