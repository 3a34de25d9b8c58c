"""What strangers learn of gossip: whose values plain gossip gives away, and a canary of each agent under noise.

docs/network-ledger.md, eqs. (N3) to (N7). Every agent but the observers runs ``dp-dsgd --mixing network`` through its
door. Agent u's canary lies along axis u, and its replacement is its mirror image: both gradients are clipped to the
same length, whatever the agent's vector is, so that gradients are constants and a linear filter misses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admmnet.auditing.audit import LEAST_TRIALS
from admmnet.auditing.bounds import mu_of_scores
from admmnet.auditing.evidence import World
from admmnet.auditing.planted import planted
from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError, RunError
from admmnet.graph.simple import Graph
from admmnet.graph.tree import spanning_tree
from admmnet.holder import Door, Holder
from admmnet.methods import fixed
from admmnet.methods.dp_dsgd import DPDSGD
from admmnet.privacy.contract import MemoryLedger
from admmnet.privacy.network.account import Learned, learned
from admmnet.privacy.network.shifts import GossipFlow
from admmnet.privacy.network.views import view_of
from admmnet.rng import AgentStreams
from admmnet.running.node import Node
from admmnet.running.plan import Decided, Public, decide
from admmnet.transport.local import LocalWorld
from admmnet.types import Matrix, Vector

PRIME = 2**31 - 1
"""Ranks are counted modulo this prime: exact but for a chance of about 1e-7, and then too low."""
CLIP = 0.01
"""Norm to which gradients are clipped: far below every slope that the canaries have here."""


def given_away(graph: Graph, observers: Sequence[int], rounds: int) -> list[int]:
    """Agents whose first value the observers solve for, from what neighbours say in plain gossip, without noise.

    A value is solved for where its unit vector lies in the row space of what was heard; Metropolis weights are
    fractions, and ranks are exact.
    """
    size, own = len(graph), sorted(set(observers))
    mixing = np.zeros((size, size), dtype=np.int64)
    for i in range(size):
        shares = {j: Fraction(1, 1 + max(graph.degree(i), graph.degree(j))) for j in graph[i]}
        for j, share in (shares | {i: 1 - sum(shares.values())}).items():
            mixing[i, j] = share.numerator * pow(share.denominator, -1, PRIME) % PRIME
    heard = sorted({j for i in own for j in graph[i]} | set(own))
    said, rows = np.eye(size, dtype=np.int64), []
    for _ in range(rounds):
        rows.append(said[heard])
        said = _times(mixing, said)
    reduced = _reduced(np.vstack(rows))
    solved = reduced[(reduced != 0).sum(axis=1) == 1]  # reduced rows: a unit vector in their span is one of them
    return sorted(set(np.nonzero(solved)[1].tolist()) - set(own))


def _times(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Product modulo the prime: each term is below 2^62."""
    return np.stack([sum(((row[k] * b[k]) % PRIME for k in range(len(b))), start=0 * b[0]) % PRIME for row in a])


def _reduced(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduced row echelon form modulo the prime, without zero rows."""
    rows, done = rows % PRIME, 0
    for column in range(rows.shape[1]):
        found = np.flatnonzero(rows[done:, column])
        if not len(found):
            continue
        rows[[done, done + found[0]]] = rows[[done + found[0], done]]
        rows[done] = rows[done] * pow(int(rows[done, column]), -1, PRIME) % PRIME
        others = np.arange(len(rows)) != done
        rows[others] = (rows[others] - rows[others, column, None] * rows[done] % PRIME) % PRIME
        done += 1
    return rows[:done]


class Measured(NamedTuple):
    """Figures of an agent from the trials, and from its ledger."""

    ledger: Learned
    mu: float
    """Least that the trials show, at their confidence."""

    @property
    def holds(self) -> bool:
        """Whether that is no more than the ledger says."""
        return self.mu <= self.ledger.mu


class _Filter(NamedTuple):
    """Optimal linear score of what is heard, shape (T, heard), and of sums at the end, shape (groups,)."""

    heard: Matrix
    sums: Vector


@dataclass(frozen=True)
class GossipTrials:
    """Runs of ``dp-dsgd`` on a graph, seen by some of its agents alone, who say nothing but zeros themselves."""

    graph: Graph
    observers: tuple[int, ...]
    rounds: int
    epsilon: float
    delta: float
    records: int = 20

    def __post_init__(self) -> None:
        strangers = set(self.observers) - set(self.graph)
        if strangers or not 0 < len(set(self.observers)) < len(self.graph):
            raise RequestError(
                f"observers = {sorted(self.observers)} are not allowed: name some of the agents 0 to "
                f"{len(self.graph) - 1}, not all"
            )

    @cached_property
    def _decided(self) -> Decided:
        size = len(self.graph)
        words: dict[str, Any] = {"algorithm": "dp-dsgd", "mixing": "network", "clip_norm": CLIP, "rounds": self.rounds}
        config = fixed(RunConfig(**words, epsilon=self.epsilon, delta=self.delta, seed=0))
        public = Public(dict.fromkeys(self.graph, self.records), size)
        return decide(config, self.graph, LocalWorld(), [list(range(size))], public)

    @cached_property
    def _flow(self) -> GossipFlow:
        method, plans, _, _ = self._decided
        assert isinstance(method, DPDSGD)
        flow = method.flow({i: [plan.charges[0][0]] * self.rounds for i, plan in plans.items()})
        assert flow is not None
        return flow

    @cached_property
    def ledger(self) -> list[Learned]:
        """What the network ledger says of every other agent."""
        deltas = dict.fromkeys(self.graph, self.delta)
        return learned(self._flow, self.graph, spanning_tree(self.graph), [self.observers], deltas)

    @cached_property
    def _view(self) -> tuple[list[int], list[list[int]]]:
        view = view_of(self.graph, self.observers, spanning_tree(self.graph))
        return sorted(view.heard), [sorted(group) for group in view.groups]

    @cached_property
    def _filters(self) -> dict[int, _Filter]:
        """Matched filters: the shift that a canary makes, over the covariance of what is seen."""
        flow, (heard, groups) = self._flow, self._view
        hidden = sorted(set(self.graph) - set(self.observers))
        mixing = flow.mixing[np.ix_(hidden, hidden)]
        powers = [np.linalg.matrix_power(mixing, k) for k in range(self.rounds)]
        looks = [(t, np.isin(hidden, [j])) for t in range(self.rounds) for j in heard]
        looks += [(self.rounds - 1, np.isin(hidden, group)) for group in groups]
        # what every agent's part of every round adds to each look
        reach = np.zeros((len(looks), self.rounds, len(hidden)))
        for place, (t, row) in enumerate(looks):
            reach[place, : t + 1] = [row @ powers[t - s] for s in range(t + 1)]
        noise = reach * flow.noise[hidden]
        covariance = np.einsum("asj,bsj->ab", noise, noise)
        found = {}
        for place, u in enumerate(hidden):
            weights = np.linalg.solve(covariance, reach[:, :, place].sum(axis=1))
            split = self.rounds * len(heard)
            found[u] = _Filter(weights[:split].reshape(self.rounds, len(heard)), weights[split:])
        return found

    @cached_property
    def _holders(self) -> tuple[dict[int, Holder], dict[int, Holder]]:
        """Of either world: one canary, and rows of zeros."""

        def holder(u: int, sign: float) -> Holder:
            rows = np.zeros((self.records, len(self.graph)))
            rows[0, u] = sign
            return Holder(rows, np.ones(self.records))

        return {u: holder(u, -1.0) for u in self._filters}, {u: holder(u, 1.0) for u in self._filters}

    def scores(self, world: World, rng: np.random.Generator) -> dict[int, float]:
        """Run once in a world, and score every agent's canary by its own axis."""
        (method, plans, contracts, _), (heard, groups) = self._decided, self._view
        nodes: dict[int, Node] = {}
        for u, holder in self._holders[world].items():
            ledger = MemoryLedger(contracts[u])
            door = Door(holder, 0, method.loss, ledger, AgentStreams(u, int(rng.integers(2**63))))
            nodes[u] = Node(method.agent(u, plans[u]), method, door, ledger)  # type: ignore[arg-type]  # no file
        size = len(self.graph)
        said, seen = np.zeros((size, size)), np.zeros((self.rounds, len(heard), size))
        for round in range(self.rounds):
            for u, node in nodes.items():
                vector = node.propose(round)
                if vector is None:
                    raise RunError(f"agent {u}: the budget of {self.rounds} rounds was used up before round {round}")
                said[u] = vector
            seen[round] = said[heard]
            for u, node in nodes.items():
                node.absorb({j: said[j] for j in self.graph[u]})
        sums = np.array([said[group].sum(axis=0) for group in groups]).reshape(len(groups), size)
        return {u: float((own.heard * seen[:, :, u]).sum() + own.sums @ sums[:, u]) for u, own in self._filters.items()}

    def measure(self, trials: int, seed: int, *, confidence: float = 0.99, bug: str | None = None) -> list[Measured]:
        """Trials in both worlds, read as normal scores; with a bug of ``planted.BUGS`` if one is named."""
        if trials < LEAST_TRIALS:
            raise RequestError(f"trials = {trials} is too few: at least {LEAST_TRIALS} a world")
        if not 0.0 < confidence < 1.0:
            raise RequestError(f"confidence = {confidence!r} is not allowed: it must lie between 0 and 1")
        if bug == "forget-charges":
            raise RequestError(f"bug = {bug!r} does not go with gossip, whose figures are of noise: take halve-noise")

        def drawn(world: World) -> list[dict[int, float]]:
            rng = np.random.default_rng([seed, world])
            return [self.scores(world, rng) for _ in range(trials)]

        with planted(bug):
            worlds = drawn(0), drawn(1)
        found = []
        for one in self.ledger:
            out, inside = (np.array([scores[one.agent] for scores in own]) for own in worlds)
            found.append(Measured(one, mu_of_scores(out, inside, 1.0 - confidence)))
        return found
