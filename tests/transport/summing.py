"""Processes that sum, with messages in random order.

They are threads of which one runs at a time. A seeded scheduler delivers frames. Mailbox and sums are the real ones.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Set
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from admmnet.graph.tree import Tree, spanning_tree
from admmnet.transport.sweep import Sweep
from admmnet.transport.zmq.mailbox import Fate, Mailbox
from admmnet.transport.zmq.sums import Sums
from admmnet.transport.zmq.wire import Frame, Kind, integers, payload_of
from admmnet.types import Integers, Total

ROUNDS = 5
LINK = bytes(range(16))


class Killed(BaseException):
    """Ends the thread of a process."""


class Process:
    """What ``Sums`` needs of ``Membership``, and the thread that sums."""

    def __init__(self, network: Network, rank: int) -> None:
        self.network, self.rank, self.step = network, rank, 0
        self.around = sorted(network.graph[rank])
        self.mailbox = Mailbox(dict.fromkeys(self.around))
        for peer in self.around:
            self.mailbox.open(peer, LINK)
        self.numbers = dict.fromkeys(self.around, 0)
        self.sent: dict[int, int] = {}
        self.missing: Callable[[], Set[int]] | None = None
        self.killed = self.ended = self.finished = False
        self.error: BaseException | None = None
        self.totals: list[Total | None] = []
        self.reasons: list[str] = []
        owners = [(i,) for i in sorted(network.graph)]
        sweep: Callable[[Tree], Sweep] = lambda tree: Sweep.of(tree, owners, rank)  # noqa: E731
        whole: Callable[[frozenset[int]], Tree | None] = lambda lost: spanning_tree(network.graph, lost)  # noqa: E731
        self.sums = Sums(self, 0, sweep, whole, len(network.graph), {})  # type: ignore[arg-type]
        self.go = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._main, daemon=True)

    def _main(self) -> None:
        self.go.acquire()
        try:
            if self.killed:
                raise Killed
            for round in range(ROUNDS):
                self._pause(None)  # computing: frames are not looked at
                part = {self.rank: vector(self.rank, round) if (self.rank + round) % 7 else None}
                self.totals.append(self.sums.reduce(part, partial(self.network.tree, round), 3))
            self.finished = True
        except Killed:
            pass
        except BaseException as error:  # told by the scheduler
            self.error = error
        self.ended = True
        self.network.back.release()

    def _pause(self, missing: Callable[[], Set[int]] | None) -> None:
        self.missing = missing
        self.network.back.release()
        self.go.acquire()
        if self.killed:
            raise Killed

    # of Membership

    def wait(self, missing: Callable[[], Set[int]]) -> None:
        while missing():
            self._pause(missing)

    def send(self, peer: int, kind: Kind, **fields: Any) -> None:
        self.numbers[peer] += 1
        frame = Frame(kind, LINK, self.rank, sequence=self.numbers[peer], **fields)
        self.network.under_way[self.rank, peer].append(frame)

    def lose(self, process: int, reason: str) -> None:
        self.reasons.append(reason)

    def check(self) -> None:
        raise Killed

    def take(self, frame: Frame) -> None:
        fate = self.mailbox.judge(frame, None)
        assert fate in (Fate.NOW, Fate.EARLY), (fate, frame)


def vector(agent: int, round: int) -> Integers:
    return np.random.default_rng([agent, round]).integers(-(2**63), 2**63, 3, dtype=np.int64)


class Recorded(Process):
    """What it sends is changed by ``spoil``."""

    def __init__(self, network: Network, rank: int) -> None:
        super().__init__(network, rank)
        self.spoil: Callable[[Kind, Integers], Integers] = lambda kind, words: words

    def send(self, peer: int, kind: Kind, **fields: Any) -> None:
        if kind in (Kind.UP, Kind.DOWN):
            words = self.spoil(kind, integers(fields["payload"]))
            fields["payload"] = payload_of(np.asarray(words, dtype=np.int64), "<i8")
        super().send(peer, kind, **fields)


class Network:
    """Processes on a random graph, and who does what next."""

    def __init__(self, seed: int) -> None:
        self.stream = np.random.default_rng(seed)
        size = int(self.stream.integers(3, 8))
        tree = nx.from_prufer_sequence(self.stream.integers(0, size, size - 2).tolist())
        extra = nx.gnp_random_graph(size, float(self.stream.choice([0.1, 0.5, 0.9])), seed=seed)
        self.graph = nx.compose(tree, extra)
        edges = sorted(self.graph.edges)
        # what a schedule leaves of the graph in each round: it may fall apart, and is void then
        shares = self.stream.choice([0.6, 1.0, 1.0], ROUNDS)
        self.graphs = [nx.Graph(e for e in edges if self.stream.random() < share) for share in shares]
        for graph in self.graphs:
            graph.add_nodes_from(self.graph)
        self.under_way = {(i, j): deque[Frame]() for i, j in self.graph.to_directed().edges}
        self.back = threading.Semaphore(0)
        self.processes = [Process(self, rank) for rank in range(size)]

    def tree(self, round: int, lost: frozenset[int]) -> Tree | None:
        return spanning_tree(self.graphs[round], lost)

    def run(self) -> None:
        try:
            for process in self.processes:
                process.thread.start()
                self._let(process)
            while not all(process.ended for process in self.processes):
                moves = self._moves()
                if not moves and any(process.reasons for process in self.processes):
                    return  # somebody was blamed, which ends the start
                assert moves, "all wait, and nothing is under way"
                moves[int(self.stream.integers(len(moves)))]()
                for process in self.processes:
                    if process.error is not None:
                        raise process.error
        finally:
            for process in self.processes:
                self._end(process)

    def _let(self, process: Process) -> None:
        process.go.release()
        self.back.acquire()

    def _end(self, process: Process) -> None:
        if not process.ended:
            process.killed = True
            self._let(process)

    def _moves(self) -> list[Callable[[], None]]:
        """Frames to deliver, and processes to let run."""
        moves: list[Callable[[], None]] = []
        for process in self.processes:
            if not process.ended and (process.missing is None or not process.missing()):
                moves.append(partial(self._let, process))
            if not process.ended and process.missing is not None:  # it waits, so it looks at what comes
                moves += [partial(self._deliver, j, process) for j in process.around if self.under_way[j, process.rank]]
        return moves

    def _deliver(self, sender: int, process: Process) -> None:
        process.take(self.under_way[sender, process.rank].popleft())


def check(network: Network) -> None:
    """Check that all have one total of each round, and the right one."""
    first, *others = network.processes
    assert len(first.totals) == ROUNDS
    for round, total in enumerate(first.totals):
        if total is not None:
            assert set(total.agents) == {i for i in range(len(network.graph)) if (i + round) % 7}
            sums = [sum(int(vector(i, round)[k]) for i in total.agents) for k in range(3)]
            assert [int(x) % 2**64 for x in total.value] == [x % 2**64 for x in sums]
    for other in others:
        assert [said(total) for total in other.totals] == [said(total) for total in first.totals]


def said(total: Total | None) -> Any:
    return None if total is None else (total.value.tolist(), total.agents)


def path_of(size: int, liar: int) -> tuple[list[Recorded], Recorded]:
    """Processes on a path, one of which will lie."""
    network = Network(0)
    network.graph = nx.path_graph(size)
    network.graphs = [network.graph] * ROUNDS
    network.under_way = {(i, j): deque() for i, j in network.graph.to_directed().edges}
    processes = [Recorded(network, rank) for rank in range(size)]
    network.processes = list(processes)
    return processes, processes[liar]
