"""The starts of a run, one after the other: each has fixed members, and goes on from what they bring.

docs/methods.md, "A changed start", eq. (112); docs/proofs.md, Theorem 31. Masked and other sums go on as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from admmnet.errors import RunError
from admmnet.graph.simple import Graph, parts_of
from admmnet.methods.base import Method
from admmnet.methods.blame import blaming
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.record.journal import Centred
from admmnet.running.before import nominal_of
from admmnet.running.party import Node
from admmnet.running.rounds import Rounds
from admmnet.running.starts import HostJournal, Segment
from admmnet.transport.collective import as_one, collect, share
from admmnet.types import Matrix, Vector


class Chain:
    """Starts of a run in its rounds, of this process's agents, ascending; ``settings`` are those of its whole plan.

    ``changes`` has the first round of each, with its rounds.
    """

    def __init__(self, rounds: Rounds, settings: MethodSettings) -> None:
        self._rounds, self._settings, self._party, self._transport = rounds, settings, rounds.party, rounds.transport
        self._method, faults = rounds.party.method, rounds.faults
        absences = faults.changes if faults is not None and self._method.verb == "exchange" else ()
        changes = [Segment(Centred(k), np.flatnonzero(faults.members(k)).tolist()) for k in absences if faults]
        self._journal: HostJournal | None = rounds.transport.world.journal
        start = None if self._journal is None else self._journal.starts[-1]
        if start is not None and self._journal is not None and (start.changed is not None or self._journal.segments):
            if faults is not None and faults.changes:
                raise RunError("an agent is away or a line is cut, and simulated absences know no such starts")
            changes += self._journal.segments
            if start.changed is not None and (not changes or changes[-1].plan != start.plan):
                changes.append(Segment(Centred(start.changed), start.entry.members, start.edges))
        # rounds of an earlier plan are no more from the first one of a later plan on
        self.changes = {one.centred.round: one for one in changes if one.members}

    def begin(self, round: int) -> None:
        """Begin the start of a round from which on other members take part: plan it anew, and centre, eq. (112)."""
        change = self.changes[round]
        if change.edges is not None:
            self._rounds.graph = Graph(len(self._transport.graph), change.edges)
        past = change.plan is not None
        centred = self._carried(change) if self._method.verb == "exchange" else change.centred
        if self._journal is not None:
            segment = change if past else self._journal.centre(centred, self._party.nodes)
            for node in self._party.nodes:
                if node.door.outbox is not None:
                    node.door.outbox.silent_until = segment.silent_until
                    if not past:
                        node.door.outbox.last = min(node.door.outbox.last, round - 1)
        if not past:
            share(self._transport.world)

    @property
    def _graph(self) -> Graph:
        return self._transport.graph if self._rounds.graph is None else self._rounds.graph

    def _carried(self, change: Segment) -> Centred:
        """Give members their states in a start; return what the journal keeps of it."""
        centred, members = change.centred, dict.fromkeys(change.members)
        size, round, party = self._method.size, centred.round, self._party
        shifts: dict[int, Vector] = {}
        theta: Matrix | None = None
        if change.plan is None:
            vectors, own_duals, whose = party.brought()
            said = collect(self._transport, np.hstack([vectors, own_duals, whose[:, None]]))
            theta, duals = said[:, :size], np.where(said[:, -1:] == 1.0, said[:, size:-1], np.nan)  # nan for none
            for part in parts_of(self._graph, {i for i in members if not np.isnan(duals[i, 0])}):
                shifts |= dict.fromkeys(part, duals[sorted(part)].mean(axis=0))
        elif centred.shift is not None:
            shifts = dict.fromkeys(party.ids, np.frombuffer(centred.shift, "<f8").astype(float))
        if self._method.planned_anew:
            with as_one(self._transport.world):
                centred = self._plan_anew(round, members, centred, again=change.plan is not None)
        agents, mine = party.agents, [i for i in party.agents.ids if i in members]
        if not mine:
            return centred
        if theta is not None:
            agents.brought(dict(enumerate(theta)))
        else:
            heard = np.frombuffer(centred.heard, "<f8").astype(float).reshape(-1, size)
            agents.brought(dict(zip(agents.edges.around[0], heard, strict=True)))
        own = [shifts.get(i) if i in members else None for i in agents.ids]
        moved = None if all(one is None for one in own) else np.array([np.zeros(size) if x is None else x for x in own])
        self._party.method.carry(agents, moved)
        centred.heard = agents.heard.astype("<f8", copy=False).tobytes()
        shift = shifts.get(mine[0])
        centred.shift = None if shift is None else shift.astype("<f8", copy=False).tobytes()
        return centred

    def _plan_anew(self, round: int, members: Collection[int], centred: Centred, *, again: bool) -> Centred:
        """Give the members the agents, and the slots, of a start that is planned for the rounds that are left.

        Return ``centred`` with what is decided, where it is not planned ``again``.
        """
        settings, whole = self._settings.changed(rounds=self._method.rounds - round), self._method.facts
        world, graph = self._transport.world, self._graph.among(members)
        kind, nodes = settings.chosen_method, [node for node in self._party.nodes if node.id in members]
        owners = [[i for i in own if i in members] for own in self._transport.owners]
        first, nominal = centred.first, centred.nominal
        if not again:  # on hosts this agent may have been ahead
            first = round if self._journal is None else max([round, *(node.ledger.charged + 1 for node in nodes)])
        targets = {node.id: _target(node, first) for node in nodes}
        if not again:
            nominal = nominal_of(settings, world, owners, targets, lasting=False)
        facts = replace(
            whole,
            graph=graph if isinstance(whole.graph, type(graph)) else graph.networkx,
            counts={i: whole.counts[i] for i in members},
            nominal=nominal,
            first=round,
        )
        with blaming(kind):
            method: Method = kind(settings, facts)
            plans = {node.id: method.plan(node.id, targets[node.id]) for node in nodes}
        self._party.plan_anew(method, plans)
        for node, near in zip(nodes, self._party.agents.edges.around, strict=True):
            if node.ledger.contract.promise is not None:  # what they may charge has stood since the first round
                weight = plans[node.id].weight
                node.ledger.begin(first, near, None if weight == 1.0 else weight)
        return Centred(round, first, nominal, centred.heard, centred.shift, centred.lines)


def _target(node: Node, round: int) -> Target:
    """What an agent may spend in all of the run, by the limit of its contract, and what it had before the start."""
    contract = node.ledger.contract
    if contract.promise is None:
        return Target(float("inf"), 1.0, form=contract.form)
    promise, spent = contract.promise, node.ledger.before(round)
    limit = contract.account or contract.filter
    return Target(promise.epsilon, promise.delta, promise.accountant, spent, limit, contract.form)
