"""The starts of a run, one after the other: each has fixed members, and goes on from what they bring.

docs/methods.md, "A changed start", eq. (112); docs/proofs.md, Theorem 31. Masked and other sums go on as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from admmnet.errors import RunError
from admmnet.graph.simple import parts_of
from admmnet.methods.base import Method
from admmnet.methods.blame import blaming
from admmnet.privacy.calibrate import Target
from admmnet.privacy.filters import Count
from admmnet.running.contract import contract_of
from admmnet.running.node import Node
from admmnet.running.plan import Plan, renewed
from admmnet.running.told import nominal_of
from admmnet.transport import Transport, edge
from admmnet.transport.collective import as_one, share
from admmnet.types import Matrix, Vector


class Chain:
    """Starts of a run on its graph, of this process's agents, ascending."""

    def __init__(self, plan: Plan, transport: Transport, agents: Sequence[Node]) -> None:
        self._plan, self._transport, self._agents = plan, transport, agents
        faults, start = plan.faults, transport.world.start
        self._changes = () if faults is None else faults.changes
        self._changed = None if start is None else start.changed
        if start is not None and self._changed is not None:
            if self._changes:
                raise RunError("an agent is away or a line is cut, and simulated absences know no such starts")
            self._changes, self._there = (self._changed,), dict.fromkeys(start.members)
        if plan.method.verb != "exchange":
            self._changes = ()
        self._repeats = start is None or start.changed is None or start.rule == "replay"
        # a run without a limit of its own, from the first round on, goes on with what is left of its plan
        limited = all(node.ledger.contract.run is not None or not plan.method.private for node in agents)
        self._anew = renewed(plan.method) and (self._changed is None or limited)

    def go_on(self, round: int) -> None:
        """Plan the starts that an interrupted run has had before a round, as they were; states are not touched."""
        for first in self._changes:
            if first < round and self._anew and (members := self._members(first)):
                self._plan_anew(first, members)

    def begin(self, round: int) -> None:
        """Begin the start of a round, if other members take part from it on: plan it anew, and centre, eq. (112)."""
        members = self._members(round) if round in self._changes else ()
        if not members:
            return
        theta, duals = self._brought()
        shifts: dict[int, Vector] = {}
        for part in parts_of(self._plan.graph, {i for i in members if not np.isnan(duals[i, 0])}):
            shifts |= dict.fromkeys(part, duals[sorted(part)].mean(axis=0))
        before = {node.id: node.agent.state for node in self._agents}
        if self._anew:
            with as_one(self._transport.world):
                self._plan_anew(round, members)
                share(self._transport.world)
        for node in self._agents:
            if node.id in members:
                old: Any = before[node.id]
                if hasattr(old, "heard"):
                    old.heard = theta[list(node.agent.neighbours)]
                node.agent.state = node.method.carry(node.agent, old, shifts.get(node.id))

    def _first(self, node: Node, round: int) -> int:
        """First round of a start that an agent can have a line of in its ledger."""
        planned = node.ledger.planned
        if self._changed is None or (self._repeats and planned >= round):
            return round if self._changed is None else planned
        return max(round, node.ledger.charged + 1)  # this agent may have been ahead

    def _members(self, round: int) -> dict[int, None]:
        """Agents of the start that a round belongs to, ascending."""
        if self._changed is not None:
            return self._there
        assert self._plan.faults is not None
        return dict.fromkeys(np.flatnonzero(self._plan.faults.members(round)).tolist())

    def _brought(self) -> tuple[Matrix, Matrix]:
        """Last vectors and duals of all agents, shape (N, d) each; nan for the dual of who has none."""
        size = self._plan.method.size
        rows = np.zeros((len(self._agents), 2 * size + 1))
        for row, node in zip(rows, self._agents, strict=True):
            theta, shared = getattr(node.agent.state, "theta", None), node.method.shared(node.agent)
            row[:size] = 0.0 if theta is None else theta
            row[size:-1], row[-1] = (0.0, 0.0) if shared is None else (shared, 1.0)
        said = edge.collect(self._transport, rows)
        return said[:, :size], np.where(said[:, -1:] == 1.0, said[:, size:-1], np.nan)

    def _plan_anew(self, round: int, members: Collection[int]) -> None:
        """Give the members the agents, and the slots, of a start that is planned for the rounds that are left."""
        plan, world = self._plan, self._transport.world
        settings = plan.settings.changed(rounds=plan.rounds - round)
        kind, graph = settings.chosen_method, plan.graph.among(members)
        nodes = [node for node in self._agents if node.id in members]
        owners = [[i for i in own if i in members] for own in self._transport.layout.owners]
        targets = {node.id: _target(node, self._first(node, round)) for node in nodes}
        nominal = nominal_of(settings, world, owners, targets, lasting=False)
        facts = replace(
            plan.method.facts,
            graph=graph if isinstance(plan.method.facts.graph, type(graph)) else graph.networkx,
            counts={i: plan.data.counts[i] for i in members},
            nominal=nominal,
            first=round,
        )
        with blaming(kind):
            method: Method = kind(settings, facts)
            plans = [method.plan(node.id, targets[node.id]) for node in nodes]
        contracts = [
            contract_of(settings, own.charges, targets[node.id], len(members))
            for node, own in zip(nodes, plans, strict=True)
        ]
        for node, own, contract in zip(nodes, plans, contracts, strict=True):
            agent, old = method.agent(node.id, own), node.agent
            agent.releases, agent.sent, agent.numbers = old.releases, old.sent, old.numbers
            agent.asked, agent.yes, agent.silent = old.asked, old.yes, old.silent
            node.agent, node.method = agent, method
            if contract.promise is not None:
                weight = None if own.weight == 1.0 else own.weight
                slots = cast("Count", contract.filter)
                node.ledger.begin(self._first(node, round), slots, agent.neighbours, weight, repeated=self._repeats)


def _target(node: Node, round: int) -> Target:
    """What an agent may spend in all of the run, by the limit of its contract, and what it had before the start."""
    contract = node.ledger.contract
    if contract.promise is None:
        return Target(float("inf"), 1.0, form=contract.form)
    promise, spent = contract.promise, node.ledger.before(round)
    return Target(promise.epsilon, promise.delta, promise.accountant, spent, contract.run, contract.form)
