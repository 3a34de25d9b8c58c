"""Agents over MPI ranks: a distributed-graph communicator and neighbourhood collectives.

Every wait polls a non-blocking operation and backs off: five ranks on two cores is the normal case, and a
rank that spins takes its core from one that computes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI

from admmnet.errors import KINDS, AdmmnetError, RunError
from admmnet.graph.simple import Graph, Tree
from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.transport.stall import STALL
from admmnet.types import Integers, Matrix

SPINS = 20
"""Tests of a pending operation before the first pause."""
SHORTEST_PAUSE, LONGEST_PAUSE = 50e-6, 1e-3
"""Seconds. A pause is 5% of the time waited so far, between these."""
ABORT = 10.0
"""Seconds that MPI has to end all ranks: its Abort may hang."""


def wait(request: Any) -> None:
    """Wait for an MPI request without starving the other ranks of this machine."""
    with STALL:
        for _ in range(SPINS):
            if request.Test():
                return
        start = time.perf_counter()
        while not request.Test():
            waited = time.perf_counter() - start
            time.sleep(min(max(0.05 * waited, SHORTEST_PAUSE), LONGEST_PAUSE))


class MPIWorld(World):
    """All ranks of MPI's world communicator."""

    name = "mpi"

    def __init__(self) -> None:
        super().__init__()
        self._comm = MPI.COMM_WORLD
        self.rank, self.size = int(self._comm.rank), int(self._comm.size)
        self.library = str(MPI.Get_library_version()).splitlines()[0].strip()
        if self.size > 1:
            name = f"rank {self.rank} on {MPI.Get_processor_name()}"
            threading.Thread(target=STALL.watch, args=(name, self.rank), daemon=True).start()

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        """See ``World.gather``: JSON, never pickle."""
        word = [value.exit_code, str(value)] if isinstance(value, AdmmnetError) else [None, value]
        mine = np.frombuffer(json.dumps(word).encode(), dtype=np.uint8)
        sizes = np.empty(self.size, dtype=np.int64)
        wait(self._comm.Iallgather(np.array([mine.size], dtype=np.int64), sizes))
        everything = np.empty(int(sizes.sum()), dtype=np.uint8)
        wait(self._comm.Iallgatherv(mine, (everything, sizes.tolist())))
        words = [json.loads(part.tobytes()) for part in np.split(everything, np.cumsum(sizes)[:-1])]
        return [said if code is None else KINDS.get(code, RunError)(said) for code, said in words]

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        """End every rank."""
        sys.stdout.flush()
        sys.stderr.flush()
        STALL.deadline, STALL.code = ABORT, code
        with STALL:
            self._comm.Abort(code)
        sys.exit(code)

    def connect(self, graph: Graph, block: int = 1) -> Transport:
        """Connect ranks whose agents are neighbours."""
        return MPITransport(self, self._comm, graph, block)


class MPITransport(Transport):
    """One message a pair of neighbouring ranks and round; agents of one rank hear each other in memory.

    A round is two neighbourhood collectives: the length of every vector, 0 for silence, then the vectors. Silence
    sends no payload.
    """

    def __init__(self, world: World, comm: Any, graph: Graph, block: int = 1) -> None:
        super().__init__(world, graph, block)
        owners, here = self.owners, self.agents
        owner = {i: rank for rank, own in enumerate(owners) for i in own}
        edges = [(i, j, owner[j]) for i in here for j in graph[i] if owner[j] != world.rank]
        ranks = sorted({rank for *_, rank in edges})
        # agents whose vectors go to, and come from, each neighbouring process, in ascending order
        self._to = {rank: sorted({i for i, _, there in edges if there == rank}) for rank in ranks}
        self._from = {rank: sorted({j for _, j, there in edges if there == rank}) for rank in ranks}
        self._world_comm = comm
        wait(comm.Ibarrier())  # what blocks in MPI spins until the last one comes
        with STALL:
            self._comm = comm.Create_dist_graph_adjacent(ranks, ranks)
        self._places = np.argsort(np.concatenate(owners))  # of agents among rows by rank

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        """See ``Transport.exchange``."""
        if not self._to:
            return {}
        said = {i: np.empty(0) if sent is None else sent for i, sent in outgoing.items()}
        lengths = [[said[i].size for i in block] for block in self._to.values()]
        counts = [len(block) for block in self._from.values()]
        coming = np.empty(sum(counts), dtype=np.int64)
        out = np.array([length for block in lengths for length in block], dtype=np.int64)
        wait(self._comm.Ineighbor_alltoallv((out, list(map(len, lengths))), (coming, counts)))
        payload = np.concatenate([said[i] for block in self._to.values() for i in block])
        sizes = [int(part.sum()) for part in np.split(coming, np.cumsum(counts)[:-1])]
        buffer = np.empty(int(coming.sum()))
        wait(self._comm.Ineighbor_alltoallv((payload, list(map(sum, lengths))), (buffer, sizes)))
        senders = [j for block in self._from.values() for j in block]
        arrays = np.split(buffer, np.cumsum(coming)[:-1])
        return {j: array for j, array in zip(senders, arrays, strict=True) if array.size}

    def _added(self, part: Integers, tree: Tree, round: int) -> Integers:
        total = np.empty_like(part)
        wait(self._world_comm.Iallreduce(part.view(np.uint64), total.view(np.uint64)))
        return total

    def collect(self, rows: Matrix) -> Matrix:
        """See ``Transport.collect``."""
        width = rows.shape[1]
        everything, counts = np.empty((len(self.graph), width)), [len(own) * width for own in self.owners]
        wait(self._world_comm.Iallgatherv(np.ascontiguousarray(rows), (everything, counts)))
        return everything[self._places]

    def close(self) -> None:
        """Free the graph communicator."""
        with STALL:
            self._comm.Free()
