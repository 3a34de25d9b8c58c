"""One round of a run: agents propose, their messages are exchanged or summed, and they take them in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from admmnet.log import say
from admmnet.methods.sums import SumMethod
from admmnet.running.attempts import Attempts
from admmnet.running.node import Node, propose_all, taking_part
from admmnet.running.notes import attempt_notes
from admmnet.running.plan import Plan
from admmnet.running.together import Together
from admmnet.running.trees import RoundTrees
from admmnet.transport import Transport
from admmnet.transport.edge import exchange

if TYPE_CHECKING:
    from admmnet.running.checkpoint.keeper import Keeper
    from admmnet.types import Vector


class Rounds:
    """Rounds of a run on its graph."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        blocks: list[list[Node]],
        attempts: Attempts | None,
        keeper: Keeper | None = None,
    ) -> None:
        self._method, self._faults, self._transport = plan.method, plan.faults, transport
        self._nodes = [node for block in blocks for node in block]
        start = transport.world.start
        self._graph = None if start is None or start.changed is None else plan.graph
        self._keeper, self._attempts = keeper, attempts
        self._trees = RoundTrees(plan.graph, plan.faults, masked=attempts is not None)
        self.heard: dict[int, Vector] = {}  # what agents of this process heard from others in the last round
        plain = plan.faults is None and attempts is None and self._graph is None and not transport.away
        self._together = Together.of(self._nodes) if plain else None
        transport.inward = self._together is None
        self.seconds = {"solve": 0.0, "exchange": 0.0}  # wall time in proposals, and in between

    def run(self, round: int) -> bool:
        """Let the agents propose and take in a round; return whether any agent of this process said something."""
        begin, transport, keeper = time.perf_counter(), self._transport, self._keeper
        now = None if self._faults is None else self._faults.at(max(round, 0))  # stages have the first round's
        taking = taking_part(self._nodes, now, self._graph)
        for node in self._nodes:
            node.outgoing = None  # who is offline says nothing
        if self._attempts is not None:
            number, members = self._attempts.begin(round) if keeper is None or round not in keeper.void else (0, ())
            taking = [node for node in taking if node.id in members]
            for node in self._nodes:
                node.door.attempt(number, members)
        together = self._together
        if together is not None:
            together.propose(round)
        else:
            propose_all(taking, round)
        solved = time.perf_counter()
        for node in taking:
            node.ledger.commit()  # what was charged is on its way to the disk before anything is sent
            if node.ledger.refused_at == round:
                say("refused", f"the budget of agent {node.id} affords nothing more", "warning", agent=node.id)
        if keeper is not None:
            keeper.post(round, taking)
        if self._method.verb == "reduce":
            self._sum(round)
        else:
            outgoing = {node.id: node.outgoing for node in self._nodes}
            inbox = exchange(transport, outgoing, round, self._method.size)
            self.heard = {j: vector for vectors in inbox.values() for j, vector in vectors.items()}
            if together is not None:
                together.absorb(self.heard)
            for node in taking if together is None else ():
                node.absorb(inbox[node.id])
        self.seconds["solve"] += solved - begin
        self.seconds["exchange"] += time.perf_counter() - solved
        return any(node.outgoing is not None for node in taking)

    def _sum(self, round: int) -> None:
        """Add up what the agents say, and let them take it in."""
        trees = self._trees.at(round)
        outgoing = {node.id: node.outgoing for node in self._nodes}
        total = self._transport.reduce(outgoing, self._trees.carrying(round), round, self._method.sum_size)
        summed = total
        if self._attempts is not None:
            assert isinstance(self._method, SumMethod)
            spoken = [node.id for node in self._nodes if node.outgoing is not None]
            total = self._attempts.judge(round, total, self._method.largest, spoken)
        tree = trees(frozenset(self._transport.away))
        if summed is not None and tree is not None:
            summed.value.flags.writeable = False  # one array for all agents of this process
            messages = self._trees.messages(round, tree, summed).tolist()
            for node in self._nodes:
                node.count(messages[node.id], summed.value.size)
        if self._together is not None:
            self._together.receive(total)
        for node in self._nodes if self._together is None else ():
            node.receive(total)

    def settle(self) -> None:
        """Give agents that went as one all of their states, for who looks at them one by one."""
        if self._together is not None:
            self._together.settle()

    def notes(self, done: int) -> tuple[str, ...]:
        """What the reader of a run of so many rounds must know of them."""
        void = () if self._attempts is None else attempt_notes(self._attempts)
        return (*self._trees.notes(done), *void) if self._method.verb == "reduce" else ()
