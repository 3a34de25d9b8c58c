"""One round of a run: agents propose, their messages are exchanged or summed, and they take them in."""

from __future__ import annotations

import time
from functools import cache, partial
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from admmnet.faults.model import FaultModel
from admmnet.graph.simple import Graph
from admmnet.graph.tree import Tree, spanning_tree
from admmnet.log import say
from admmnet.methods.sums import SumMethod
from admmnet.running.attempts import Attempts
from admmnet.running.party import Party
from admmnet.running.plan import Plan
from admmnet.transport import Transport, Trees
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
        elif alone:  # what the agent of this process has heard, by its journal
            past = self._host.heard_in(round).vectors
            self.heard = {j: np.frombuffer(data, "<f8").astype(np.float64) for j, data in past.items()}
            party.absorb(self.heard)
        else:
            self.heard = exchange(self._transport, party.said(), round, self._method.size)
            if journal is not None and self._host is not None:
                self._host.hear(round, self.heard)
            party.absorb(self.heard)
        self.seconds["solve"] += solved - begin
        self.seconds["exchange"] += time.perf_counter() - solved
        return party.outgoing is not None

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
            if self._journal is not None and self._host is not None and round >= 0:
                self._host.summed(round, total)
        tree = trees(frozenset(self._transport.away))
        if summed is not None and tree is not None:
            summed.value.flags.writeable = False  # one array for all agents of this process
            messages = self._trees.messages(round, tree, summed)
            self._party.count(messages[list(self._party.ids)], summed.value.size)
        self._party.method.receive(self._party.agents, total)

    def notes(self, done: int) -> tuple[str, ...]:
        """What the reader of a run of so many rounds must know of them."""
        void = () if self._attempts is None else self._attempts.notes()
        return (*self._trees.notes(done), *void) if self._method.verb == "reduce" else ()


MOST_TREES = 16
"""Trees that are kept for further rounds."""


class RoundTrees:
    """Spanning trees of the rounds of a run, which its simulated faults may change or leave without one.

    Absent agents stay outside; in ``masked`` sums, and before the first round, that leaves the round without one.
    """

    def __init__(self, graph: Graph, faults: FaultModel | None, *, masked: bool = False) -> None:
        self._graph, self._faults, self._masked = graph, faults, masked
        self._every = cache(partial(spanning_tree, graph))
        self._known: dict[tuple[int, frozenset[int]], Tree | None] = {}

    def at(self, round: int) -> Trees:
        """Tree of a round where some agents are lost for good; None of a void one."""
        place, away, whole = 0, self._away(round), self._masked or round < 0
        if self._faults is not None and self._faults.schedule is not None:
            place = self._faults.schedule.at(max(round, 0))
        return partial(self._tree, place, away, whole)

    def carrying(self, round: int) -> Trees:
        """Tree that carries a round's sum: with who is away, who says nothing and whose process goes on."""
        trees = self.at(round)
        if not self._away(round):
            return trees
        return lambda lost: None if trees(lost) is None else self._every(lost)

    def _away(self, round: int) -> frozenset[int]:
        """Agents that are away; stages before the first round have its faults."""
        if self._faults is None:
            return frozenset()
        return frozenset(np.flatnonzero(~self._faults.members(max(round, 0))).tolist())

    def _tree(self, place: int, away: frozenset[int], whole: bool, lost: frozenset[int]) -> Tree | None:
        if whole and away - lost:
            return None
        lost |= away
        key = place, lost
        if key not in self._known:
            if len(self._known) >= MOST_TREES:
                self._known.pop(next(iter(self._known)))
            graph = self._graph
            if self._faults is not None and self._faults.schedule is not None:
                graph = Graph(len(graph), self._faults.schedule.edges[place])
            self._known[key] = spanning_tree(graph, lost)
        return self._known[key]

    def messages(self, round: int, tree: Tree, total: Total) -> NDArray[np.int64]:
        """Messages of every agent in a round, shape (N,), eq. (92): a lost one is repeated until it has arrived."""
        if self._faults is None or not self._faults.drop:
            return tree.messages(total.agents)
        links, tries, below = self._faults.links, self._faults.tries(max(round, 0)), tree.below
        parents, up = tree.parent[below], tree.upward(total.agents)[below]
        found = np.zeros(len(tree.parent), dtype=np.int64)
        found[below] = np.where(up, tries[links.place(below, parents)], 0)
        np.add.at(found, parents, tries[links.place(parents, below)])
        return found

    def notes(self, done: int) -> tuple[str, ...]:
        """How many of so many rounds were void, where no agent is lost."""
        if self._faults is None:
            return ()
        void = [round for round in range(done) if self.at(round)(frozenset()) is None]
        if not void:
            return ()
        return (
            f"{len(void)} of {done} rounds were void, round {void[0]} first: an agent was away or the round's graph "
            "was not connected; their cost stays charged",
        )
