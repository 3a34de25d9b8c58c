"""One round of a run: agents propose, their messages are exchanged or summed, and they take them in."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RunError
from admmnet.faults.model import FaultModel, GraphSchedule
from admmnet.graph.simple import Graph, Tree, spanning_tree
from admmnet.identity.keys import statement, verify
from admmnet.log import say
from admmnet.masking import Masks, StartKey, start_of
from admmnet.methods.sums import SumMethod
from admmnet.running.journal import Journal
from admmnet.running.party import Party
from admmnet.running.starts import HostJournal
from admmnet.transport import Transport, Trees, World
from admmnet.transport.collective import exchange, owned, share
from admmnet.types import Total, Vector

MOST_TREES = 16
"""Trees that are kept for further rounds."""


class Rounds:
    """Rounds of a run on its graph; the journal has their answers before anything of them leaves.

    Attributes
    ----------
    graph : Graph or None
        Edges of the present start; None for those of the run's graph.
    heard : dict
        What agents of this process heard from others in the last round.
    host : HostJournal or None
        The journal, where it is that of an agent on a host of its own.
    seconds : dict
        Wall time in proposals (``solve``), and in between (``exchange``).
    """

    def __init__(
        self,
        transport: Transport,
        party: Party,
        faults: FaultModel | None,
        attempts: Attempts | None,
        journal: Journal | None,
    ) -> None:
        self.transport, self.party, self.faults, self.attempts, self.journal = (
            transport,
            party,
            faults,
            attempts,
            journal,
        )
        self.host: Any = journal if isinstance(journal, HostJournal) else None
        schedule = None if faults is None else faults.schedule
        self._tree = lru_cache(MOST_TREES)(partial(_tree_of, transport.graph, schedule))
        self.graph: Graph | None = None
        self.heard: dict[int, Vector] = {}
        self.seconds = {"solve": 0.0, "exchange": 0.0}

    def run(self, round: int, *, alone: bool = False) -> bool:
        """Let the agents propose and take in a round; return whether any agent of this process said something.

        ``alone``: it is played again from the journal, of which nothing leaves.
        """
        begin, journal, party, nodes = time.perf_counter(), self.journal, self.party, self.party.nodes
        now = None if self.faults is None else self.faults.at(max(round, 0))  # stages have the first round's
        taking = party.taking_part(now, self.graph)
        if self.attempts is not None and alone:  # masks of other members: its part is counted, and not asked for
            taking[:] = False
        elif self.attempts is not None:
            void = journal is not None and round in journal.void
            number, members = (0, ()) if void else self.attempts.begin(round)
            if void and round >= 0:
                self.attempts.void.append(round)
            taking &= np.isin(party.ids, members)
            for node in nodes:
                node.door.attempt(number, members)
        there = list(compress(nodes, taking))
        if journal is not None:
            journal.recall(round, nodes)
            if alone and not there:
                party.releases += [party.method.released_in(round) * node.door.spoke(round) for node in nodes]
        party.propose(round, taking)
        solved = time.perf_counter()
        if journal is not None and not alone:
            journal.note(round, there)
        for node in () if alone else nodes:  # whomever the party has asked
            node.ledger.commit()  # what was charged is on its way to the disk before anything is sent
            if node.ledger.refused_at == round:
                say("refused", f"the budget of agent {node.id} affords nothing more", "warning", agent=node.id)
        if party.method.verb == "reduce":
            self._sum(round, alone=alone)
        elif alone:  # what the agent of this process has heard, by its journal
            past = self.host.heard_in(round).vectors
            self.heard = {j: np.frombuffer(data, "<f8").astype(np.float64) for j, data in past.items()}
            party.absorb(self.heard)
        else:
            self.heard = exchange(self.transport, party.said(), round, party.method.size)
            if self.host is not None:
                self.host.hear(round, self.heard)
            party.absorb(self.heard)
        self.seconds["solve"] += solved - begin
        self.seconds["exchange"] += time.perf_counter() - solved
        return party.outgoing is not None

    def _sum(self, round: int, *, alone: bool) -> None:
        """Add up what the agents say, and let them take it in."""
        trees, method = self._trees(round), self.party.method
        if alone:
            heard = self.host.heard_in(round)
            numbers = None if heard.total is None else np.frombuffer(heard.total, "<i8").astype(np.int64)
            summed = total = None if numbers is None else Total(numbers, tuple(heard.agents))
            if total is None and self.attempts is not None:
                self.attempts.void.append(round)
        else:
            outgoing = self.party.said()
            carrying = trees  # along with who is away, who says nothing and whose process goes on
            if self._away(round):
                carrying = lambda lost: None if trees(lost) is None else self._tree(None, lost)  # noqa: E731
            summed = self.transport.reduce(outgoing, carrying, round, method.sum_size)
            total = summed
            if self.attempts is not None:
                assert isinstance(method, SumMethod)
                spoken = [i for i, own in outgoing.items() if own is not None]
                total = self.attempts.judge(round, summed, method.largest, spoken)
            if self.host is not None and round >= 0:
                self.host.summed(round, total)
        tree = trees(frozenset(self.transport.away))
        if summed is not None and tree is not None:
            summed.value.flags.writeable = False  # one array for all agents of this process
            messages = self._messages(round, tree, summed)
            self.party.count(messages[list(self.party.ids)], summed.value.size)
        method.receive(self.party.agents, total)

    def _away(self, round: int) -> frozenset[int]:
        """Agents that are away; stages before the first round have its faults."""
        if self.faults is None:
            return frozenset()
        return frozenset(np.flatnonzero(~self.faults.members(max(round, 0))).tolist())

    def _trees(self, round: int) -> Trees:
        """Tree of a round where some agents are lost for good; None of a void one.

        Absent agents stay outside; in masked sums, and before the first round, that leaves the round without one.
        """
        schedule, away = None if self.faults is None else self.faults.schedule, self._away(round)
        place, whole = None if schedule is None else schedule.at(max(round, 0)), self.attempts is not None or round < 0
        return lambda lost: None if whole and away - lost else self._tree(place, lost | away)

    def _messages(self, round: int, tree: Tree, total: Total) -> NDArray[np.int64]:
        """Messages of every agent in a round, shape (N,), eq. (92): a lost one is repeated until it has arrived."""
        if self.faults is None or not self.faults.drop:
            return tree.messages(total.agents)
        links, tries, below = self.faults.links, self.faults.tries(max(round, 0)), tree.below
        parents, up = tree.parent[below], tree.upward(total.agents)[below]
        found = np.zeros(len(tree.parent), dtype=np.int64)
        found[below] = np.where(up, tries[links.place(below, parents)], 0)
        np.add.at(found, parents, tries[links.place(parents, below)])
        return found

    def notes(self, done: int) -> tuple[str, ...]:
        """What the reader of a run of so many rounds must know of void ones, where no agent is lost."""
        if self.party.method.verb != "reduce":
            return ()
        attempts = () if self.attempts is None else self.attempts.notes()
        void = [] if self.faults is None else [k for k in range(done) if self._trees(k)(frozenset()) is None]
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


class Attempts:
    """Attempts of one start of a run, ``colluders`` is K; all that is decided follows from totals, which all have.

    ``fixed``: no member goes missing within the start, so a sum that lacks one, or is noise, is a liar's: it is void.
    """

    def __init__(self, agents: Collection[int], colluders: int, *, fixed: bool = False) -> None:
        self.participants, self.colluders, self._fixed = tuple(agents), colluders, fixed
        self._number = 0
        self.void: list[int] = []  # rounds of void attempts
        self.missed: dict[int, int] = {}  # agents that were missing in one, and since when sums are without them
        self.ended: int | None = None  # round from which on too few agents were left

    def begin(self, round: int) -> tuple[int, tuple[int, ...]]:
        """Number of the next attempt, and who takes part; nobody where too few agents are left for one."""
        if len(self.participants) < self.colluders + 2:
            self.ended = round if self.ended is None else self.ended
            return self._number, ()
        self._number += 1
        return self._number, self.participants

    def judge(self, round: int, total: Total | None, largest: float, spoken: Collection[int] = ()) -> Total | None:
        """Return the sum, None of a void attempt; no number exceeds ``largest`` where masks have cancelled.

        In a sum without somebody the masks of that agent's partners stay: it is noise. The next attempt is without it.
        ``spoken`` are agents of this process that took part. RunError if the sum is noise although nobody is missing,
        or one of this process's agents that took part is not in it.
        """
        if total is not None and total.agents == self.participants:
            noise = (np.abs(total.value.astype(np.float64)) > largest).any()
            if noise and not self._fixed:
                raise RunError(
                    f"the masks of round {round} did not cancel: an agent has sent a wrong part, or knows another "
                    "model, other settings or other participants. This shows no record, and not which agent it was: "
                    "start the run again"
                )
            self.void += [round] if noise else []
            return None if noise else total
        if total is None:  # nobody put anything in, or no tree reached all, which ``Rounds.notes`` says
            return None
        self.void.append(round)
        if self._fixed:
            return None
        if left_out := sorted(set(spoken).difference(total.agents)):
            raise RunError(
                f"agent {left_out[0]} took part in the masked sum of round {round} and was left out of it. An agent on "
                "the way to the root of the tree did not hand on its part; which one is not known: start the run again"
            )
        self.missed |= {i: round for i in self.participants if i not in total.agents}
        self.participants = tuple(i for i in self.participants if i in total.agents)
        return None

    def notes(self) -> tuple[str, ...]:
        """What the reader of a run must know of void attempts."""
        found, void, colluders = [], self.void, self.colluders
        if void:
            found.append(
                f"{len(void)} masked sum{'s were' if len(void) > 1 else ' was'} void, the first in round {void[0]}: "
                "an agent was missing, or sent a wrong part; the cost stays charged"
            )
        if self.missed:
            who = ", ".join(f"agent {i} from round {round} on" for i, round in sorted(self.missed.items()))
            found.append(f"masked sums are without {who}: it was missing in one, whatever the reason")
        if self.ended is not None:
            found.append(
                f"from round {self.ended} on fewer than {colluders + 2} agents were left: masked sums against "
                f"{colluders} colluders need that many, so the model stayed as it was"
            )
        return tuple(found)


def agree_on_masks(world: World, owners: Sequence[Sequence[int]], shared: Any, colluders: int) -> dict[int, Masks]:
    """Agree on a key with everybody: masks of this process's agents.

    Keys are made here, for this start alone. Over ZeroMQ agents sign theirs together with the start's name: nobody
    between two agents, and no earlier start, can put others in their place. ``shared`` is what all must have alike, a
    JSON value; ``colluders`` is K. RequestError if an agent's key is of no use, or not signed by it.
    """
    run, identity = "" if world.start is None else world.start.name, world.identity
    peers = () if world.network is None else world.network.peers
    listed = {i: str(peers[q].identity) for q, own in enumerate(owners) for i in own if peers}
    keys = {i: StartKey() for i in owners[world.rank]}

    word: Callable[[int, str], bytes] = lambda agent, public: statement("key for masks", run, agent, public)  # noqa: E731
    public = {i: key.public.hex() for i, key in keys.items()}
    mine = {i: (own, "" if identity is None else identity.sign(word(i, own)).hex()) for i, own in public.items()}

    def valid(agent: int, said: object) -> bool:
        if not isinstance(said, list | tuple) or len(said) != 2 or not all(isinstance(x, str) for x in said):
            return False
        try:
            signature = bytes.fromhex(said[1])
        except ValueError:
            return False
        return agent not in listed or verify(listed[agent], signature, word(agent, said[0]))

    what = "key for masks, with its signature,"
    here = [own if world.start is None or q in world.start.members else () for q, own in enumerate(owners)]
    told = owned(world, share(world, {"values": mine}, "masks"), here, mine, valid, what, lasting=False)

    probe, known = StartKey(), dict[int, bytes]()
    for agent, (own, _) in told.items():
        try:
            known[agent] = bytes.fromhex(own)
            probe.derive(known[agent], b"", b"")
        except ValueError:
            world.blame(
                agent, f"agent {agent} gives a key for masks that hides nothing: it must be an X25519 public key"
            )
    alike = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()
    start = start_of(run, alike, known)
    return {i: Masks(i, key, known, start, colluders) for i, key in keys.items()}
