"""One round of a run: agents propose, their messages are exchanged or summed, and they take them in."""

from __future__ import annotations

import time
from functools import lru_cache, partial
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from admmnet.faults.schedule import GraphSchedule
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


MOST_TREES = 16
"""Trees that are kept for further rounds."""


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
        self._method, self._transport = plan.method, transport
        self._faults = faults = plan.faults
        self._party = party
        self._journal, self._attempts, self._chain = journal, attempts, chain
        self._tree = lru_cache(MOST_TREES)(partial(_tree_of, plan.graph, None if faults is None else faults.schedule))
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
        trees = self._trees(round)
        if alone:
            heard = self._host.heard_in(round)
            numbers = None if heard.total is None else np.frombuffer(heard.total, "<i8").astype(np.int64)
            summed = total = None if numbers is None else Total(numbers, tuple(heard.agents))
            if total is None and self._attempts is not None:
                self._attempts.void.append(round)
        else:
            outgoing = self._party.said()
            carrying = trees  # along with who is away, who says nothing and whose process goes on
            if self._away(round):
                carrying = lambda lost: None if trees(lost) is None else self._tree(None, lost)  # noqa: E731
            summed = self._transport.reduce(outgoing, carrying, round, self._method.sum_size)
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
            messages = self._messages(round, tree, summed)
            self._party.count(messages[list(self._party.ids)], summed.value.size)
        self._party.method.receive(self._party.agents, total)

    def _away(self, round: int) -> frozenset[int]:
        """Agents that are away; stages before the first round have its faults."""
        if self._faults is None:
            return frozenset()
        return frozenset(np.flatnonzero(~self._faults.members(max(round, 0))).tolist())

    def _trees(self, round: int) -> Trees:
        """Tree of a round where some agents are lost for good; None of a void one.

        Absent agents stay outside; in masked sums, and before the first round, that leaves the round without one.
        """
        schedule, away = None if self._faults is None else self._faults.schedule, self._away(round)
        place, whole = None if schedule is None else schedule.at(max(round, 0)), self._attempts is not None or round < 0
        return lambda lost: None if whole and away - lost else self._tree(place, lost | away)

    def _messages(self, round: int, tree: Tree, total: Total) -> NDArray[np.int64]:
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
        """What the reader of a run of so many rounds must know of void ones, where no agent is lost."""
        if self._method.verb != "reduce":
            return ()
        attempts = () if self._attempts is None else self._attempts.notes()
        void = [] if self._faults is None else [k for k in range(done) if self._trees(k)(frozenset()) is None]
        if not void:
            return attempts
        return (
            f"{len(void)} of {done} rounds were void, round {void[0]} first: an agent was away or the round's graph "
            "was not connected; their cost stays charged",
            *attempts,
        )


def _tree_of(graph: Graph, schedule: GraphSchedule | None, place: int | None, lost: frozenset[int]) -> Tree | None:
    """Spanning tree without some agents: of the graph that is at this place of a schedule, else of the run's."""
    if schedule is not None and place is not None:
        graph = Graph(len(graph), schedule.edges[place])
    return spanning_tree(graph, lost)
