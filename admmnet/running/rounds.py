"""One round of a run: agents propose, what they say is exchanged or summed, and they take it in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import networkx as nx

from admmnet.faults.model import FaultModel
from admmnet.graph.tree import Tree
from admmnet.running.node import Node, taking_part
from admmnet.running.trees import RoundTrees
from admmnet.solvers.batch import run_batched
from admmnet.transport import Transport
from admmnet.transport.edge import exchange

if TYPE_CHECKING:
    from admmnet.methods.base import Method
    from admmnet.running.receipts import Receipts


class Rounds:
    """Rounds of a run on its graph.

    Attributes
    ----------
    seconds : dict
        Wall time in proposals, ``solve``, and in between, ``exchange``.
    summed : tuple of (Tree or None, int)
        Tree of the last sum, None for none, and how many numbers its vectors have.
    """

    def __init__(
        self,
        method: Method,
        graph: nx.Graph,
        faults: FaultModel | None,
        blocks: list[list[Node]],
        transport: Transport,
        receipts: Receipts | None = None,
    ) -> None:
        self._method, self._faults, self._blocks, self._transport = method, faults, blocks, transport
        self._nodes = [node for block in blocks for node in block]
        self._receipts = receipts
        self._trees = RoundTrees(graph, faults)
        self.summed: tuple[Tree | None, int] = (None, 0)
        self.seconds = {"solve": 0.0, "exchange": 0.0}

    def run(self, round: int) -> bool:
        """Let the agents propose and take in a round; return whether any agent of this process said something."""
        begin, transport = time.perf_counter(), self._transport
        now = None if self._faults is None else self._faults.at(round)
        taking = taking_part(self._blocks, now, transport.lost)
        for node in self._nodes:
            node.outgoing = None  # who is offline says nothing
        for block in taking:
            run_batched([node.proposal(round) for node in block])
        solved = time.perf_counter()
        agents = [node for block in taking for node in block]
        for node in agents:
            node.ledger.commit()  # what was charged is on its way to the disk before anything is sent
        if self._method.verb == "reduce":
            self._sum(round)
        else:
            outgoing = {node.id: node.outgoing for node in self._nodes}
            words = None if self._receipts is None else self._receipts.signed(round, outgoing)
            inbox = exchange(transport, outgoing, round, self._method.size, words)
            if self._receipts is not None:
                self._receipts.take(round, inbox)
            for node in agents:
                node.absorb(inbox[node.id])
        self.seconds["solve"] += solved - begin
        self.seconds["exchange"] += time.perf_counter() - solved
        return any(node.outgoing is not None for node in agents)

    def _sum(self, round: int) -> None:
        trees = self._trees.at(round)
        outgoing = {node.id: node.outgoing for node in self._nodes}
        total = self._transport.reduce(outgoing, trees, round, self._method.sum_size)
        if self._receipts is not None:
            self._receipts.summed(round, {node.id: node.theta for node in self._nodes}, total)
        tree = trees(frozenset(self._transport.lost))
        self.summed = (None, 0)
        if total is not None and tree is not None:
            self.summed = (tree, total.value.size)
            total.value.flags.writeable = False  # one array for all agents of this process
            messages = self._trees.messages(round, tree, total)
            for node in self._nodes:
                node.count(int(messages[node.id]), total.value.size)
        for node in self._nodes:
            node.receive(total)

    def notes(self, done: int) -> tuple[str, ...]:
        """What the reader of a run of so many rounds must know of them."""
        return self._trees.notes(done) if self._method.verb == "reduce" else ()
