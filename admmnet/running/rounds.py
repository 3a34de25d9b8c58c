"""One round of a run: agents propose, their messages are exchanged or summed, and they take them in."""

from __future__ import annotations

import time
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from admmnet.log import say
from admmnet.methods.sums import SumMethod
from admmnet.running.attempts import Attempts
from admmnet.running.notes import attempt_notes
from admmnet.running.party import Party
from admmnet.running.plan import Plan
from admmnet.running.trees import RoundTrees
from admmnet.transport import Transport
from admmnet.transport.edge import exchange
from admmnet.types import Total

if TYPE_CHECKING:
    from admmnet.running.chain import Chain
    from admmnet.running.journal import Journal
    from admmnet.types import Vector


class Rounds:
    """Rounds of a run on its graph; the journal has their answers before anything of them leaves."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        party: Party,
        attempts: Attempts | None,
        journal: Journal | None = None,
        chain: Chain | None = None,
    ) -> None:
        self._method, self._faults, self._transport = plan.method, plan.faults, transport
        self._party = party
        self._journal, self._attempts, self._chain = journal, attempts, chain
        self._trees = RoundTrees(plan.graph, plan.faults, masked=attempts is not None)
        self.heard: dict[int, Vector] = {}  # what agents of this process heard from others in the last round
        self.seconds = {"solve": 0.0, "exchange": 0.0}  # wall time in proposals, and in between

    def run(self, round: int, *, alone: bool = False) -> bool:
        """Let the agents propose and take in a round; return whether any agent of this process said something.

        ``alone``: it is played again from the journal, of which nothing leaves.
        """
        begin, journal = time.perf_counter(), self._journal
        now = None if self._faults is None else self._faults.at(max(round, 0))  # stages have the first round's
        party, nodes = self._party, self._party.nodes
        taking = party.taking_part(now, None if self._chain is None else self._chain.graph)
        if self._attempts is not None and alone:  # masks of other members: its part is counted, and not asked for
            taking[:] = False
        elif self._attempts is not None:
            void = journal is not None and round in journal.void
            number, members = (0, ()) if void else self._attempts.begin(round)
            if void and round >= 0:
                self._attempts.void.append(round)
            taking &= np.isin(party.ids, members)
            for node in nodes:
                node.door.attempt(number, members)
        there = list(compress(nodes, taking))
        if journal is not None:
            journal.recall(round, nodes)
            if alone and not there:
                party.releases += [self._method.released_in(round) * node.door.spoke(round) for node in nodes]
        party.propose(round, taking)
        solved = time.perf_counter()
        if journal is not None and not alone:
            journal.note(round, there)
        for node in () if alone else there:
            node.ledger.commit()  # what was charged is on its way to the disk before anything is sent
            if node.ledger.refused_at == round:
                say("refused", f"the budget of agent {node.id} affords nothing more", "warning", agent=node.id)
        if self._method.verb == "reduce":
            self._sum(round, alone=alone)
        else:
            self.heard = (
                self._past(round) if alone else exchange(self._transport, party.said(), round, self._method.size)
            )
            if journal is not None and not alone:
                journal.hear(round, self.heard)
            party.absorb(self.heard)
        self.seconds["solve"] += solved - begin
        self.seconds["exchange"] += time.perf_counter() - solved
        return party.outgoing is not None

    def _past(self, round: int) -> dict[int, Vector]:
        """Vectors that the agent of this process has heard in a round, by its journal."""
        heard = self._host.heard_in(round)
        return {j: np.frombuffer(data, "<f8").astype(np.float64) for j, data in heard.vectors.items()}

    @property
    def _host(self) -> Any:
        return self._transport.world.start and self._transport.world.start.journal

    def _sum(self, round: int, *, alone: bool) -> None:
        """Add up what the agents say, and let them take it in."""
        trees = self._trees.at(round)
        if alone:
            heard = self._host.heard_in(round)
            numbers = None if heard.total is None else np.frombuffer(heard.total, "<i8").astype(np.int64)
            summed = total = None if numbers is None else Total(numbers, tuple(heard.agents))
            if total is None and self._attempts is not None:
                self._attempts.void.append(round)
        else:
            outgoing = self._party.said()
            summed = self._transport.reduce(outgoing, self._trees.carrying(round), round, self._method.sum_size)
            total = summed
            if self._attempts is not None:
                assert isinstance(self._method, SumMethod)
                spoken = [i for i, own in outgoing.items() if own is not None]
                total = self._attempts.judge(round, summed, self._method.largest, spoken)
            if self._journal is not None and round >= 0:
                self._journal.summed(round, total)
        tree = trees(frozenset(self._transport.away))
        if summed is not None and tree is not None:
            summed.value.flags.writeable = False  # one array for all agents of this process
            messages = self._trees.messages(round, tree, summed)
            self._party.count(messages[list(self._party.ids)], summed.value.size)
        self._party.receive(total)

    def notes(self, done: int) -> tuple[str, ...]:
        """What the reader of a run of so many rounds must know of them."""
        void = () if self._attempts is None else attempt_notes(self._attempts)
        return (*self._trees.notes(done), *void) if self._method.verb == "reduce" else ()
