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

from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.transport.layout import Hosting
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
        self.rank, self.size = int(self._comm.rank), int(self._comm.size)
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


class MPITransport(Hosting):
    """One message a pair of neighbouring ranks and round; agents of one rank hear each other in memory.

    A round is two neighbourhood collectives: the length of every vector, 0 for silence, then the vectors. Silence
    sends no payload.
    """

    def __init__(self, world: World, comm: Any, graph: nx.Graph, block: int = 1) -> None:
        super().__init__(world, graph, block)
        self._world_comm, ranks = comm, list(self._to)
        self._comm = comm.Create_dist_graph_adjacent(ranks, ranks)

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``."""
        vectors: dict[int, Vector] = {i: sent for i, sent in outgoing.items() if sent is not None}
        if self._to:
            vectors |= self._exchange_across(outgoing)
        return self._deliver(vectors)

    def _exchange_across(self, outgoing: Outgoing) -> dict[int, Vector]:
        lengths = [
            [0 if (v := outgoing[i]) is None else v.size for i in block] for block in self._to.values()
        ]
        counts = [len(block) for block in self._from.values()]
        coming = np.empty(sum(counts), dtype=np.int64)
        out = np.array([length for block in lengths for length in block], dtype=np.int64)
        wait(self._comm.Ineighbor_alltoallv((out, list(map(len, lengths))), (coming, counts)))
        sent = [v for block in self._to.values() for i in block if (v := outgoing[i]) is not None]
        payload = np.concatenate(sent) if sent else np.empty(0)
        sizes = [int(part.sum()) for part in np.split(coming, np.cumsum(counts)[:-1])]
        buffer = np.empty(int(coming.sum()))
        wait(self._comm.Ineighbor_alltoallv((payload, list(map(sum, lengths))), (buffer, sizes)))
        senders = [j for block in self._from.values() for j in block]
        vectors = np.split(buffer, np.cumsum(coming)[:-1])
        return {j: vector for j, vector in zip(senders, vectors, strict=True) if vector.size}

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        owners, width = self.layout.owners, rows.shape[1]
        everything = np.empty((len(self._owner), width))
        counts = [len(own) * width for own in owners]
        wait(self._world_comm.Iallgatherv(np.ascontiguousarray(rows), (everything, counts)))
        ordered = np.empty_like(everything)
        ordered[np.concatenate(owners)] = everything
        return ordered

    def close(self) -> None:
        """Free the graph communicator."""
        self._comm.Free()
