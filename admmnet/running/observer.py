"""What is measured after every round. It sees released vectors, and the training records in simulations only.

Over MPI the writer alone gets the rows of all agents (docs/simulate.md, "What observing a run sends").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from admmnet.data.figures import test_errors
from admmnet.faults.clock import VirtualClock
from admmnet.graph.tree import Tree
from admmnet.holder.holder import SimulatedHolder
from admmnet.methods.aggregate import far, mean_of, standing
from admmnet.record.folder import MetricsFile
from admmnet.running.events import RoundEvent, known
from admmnet.running.node import Node
from admmnet.running.plan import Prepared
from admmnet.running.round_figures import RoundFigures
from admmnet.transport import Transport, edge, is_writer
from admmnet.types import Integers, Matrix, Vector

Summed = tuple[Tree | None, int]
MEASURED = RoundFigures.places(
    "test_error", "train_loss", "objective", "consensus_gap", "consensus_loss", "consensus_objective"
)
"""Columns that take a pass over records, or need the consensus."""
JUDGED = RoundFigures.places("test_error", "train_loss", "consensus_loss")
"""Columns that the final models change."""
MANY = 3
"""Models from which on one product has the scores of several: two are no faster than one by one."""
SCORES = 2**20
"""Scores that a product gives at most, 8 MB."""


class Observer:
    """Collects every agent's figures after a round and writes metrics.csv at one process.

    ``start`` is the first round, 0 but in a resumed run. Of a method that sums all agents that go on hold one model;
    else their consensus is the mean by ``aggregate``. Where agents are away, the others hear every model of theirs,
    else those of measured rounds alone.

    ``theta``, of shape (N, d), has every agent's last released vector as of the last round that was measured, ``rows``
    every agent's figures, ``network`` errors and losses of the consensus, sums and the largest gap, nan until known.
    Where ``Transport.report`` has nothing for this process, rows are those of its own agents until ``settle``. The
    ``clock`` is the same at every process.
    """

    def __init__(
        self, plan: Prepared, transport: Transport, blocks: Sequence[Sequence[Node]], folder: Path, start: int
    ) -> None:
        self._transport, self._blocks, self._holders = transport, blocks, plan.holders
        self._data, self._simulation, self._faults = plan.data, plan.simulation, plan.faults
        self._loss, self._aggregate = plan.method.loss, plan.method.aggregate
        self._shared, self._partial = plan.method.verb == "reduce", bool(transport.away)
        nodes = sorted((node for block in blocks for node in block), key=lambda node: node.id)
        self._nodes = nodes
        self._place = {node.id: place for place, node in enumerate(nodes)}
        self._quiet = plan.run.show == "end"  # no vector of an agent leaves it but to its neighbours
        mine = np.zeros_like(self.models()) if self._quiet else self.models()
        self.theta, self.clock = np.zeros((len(self._data.counts), mine.shape[1])), None
        if plan.faults is not None and plan.faults.delays is not None:
            self.clock = VirtualClock(plan.faults, self.theta[0].nbytes)
        # where figures that are not measured are needed, or cost nothing
        self._counting = transport.prompt or self.clock is not None
        if self._counting:
            self.theta = self._report(mine, self.theta)
        self._heard: Mapping[int, Vector] = {}
        self._said: dict[int, Vector] = {}
        self.rows, self.network = RoundFigures.filled(np.nan, len(self.theta)), RoundFigures.filled(np.nan)
        self._path = folder / "metrics.csv"
        if self.clock is not None:
            releases = np.array([[node.agent.releases] for node in nodes], dtype=float)
            self._releases = edge.collect(transport, releases)[:, 0]
        self._file = self._metrics(start) if is_writer(transport) else None
        self._round = self._told = -1  # the last round that is known, and of which the caller was told
        self._ended: Vector | None = None  # when the last round did, by the clock

    def _metrics(self, start: int) -> MetricsFile:
        return MetricsFile(
            self._path, training=self._simulation and not self._quiet, start=start, clock=self.clock is not None
        )

    def _times(self, round: int, releases: Vector, summed: Summed) -> Vector | None:
        """Virtual seconds after a round: the network's, then every agent's; None without a clock."""
        if self.clock is None or self._faults is None:
            return None
        releases = self._transport.tell(releases if self._whole else self._releases)
        spoke, self._releases = releases > self._releases, releases.copy()
        faults = self._faults.at(round)
        if self._shared:
            end = self.clock.advance_sum(round, faults, *summed)
        else:
            end = self.clock.advance(round, faults, spoke)
        return np.concatenate([[end], self.clock.start])

    def models(self) -> Matrix:
        """Last released vectors of this process's agents, shape (local agents, d)."""
        return np.stack([node.theta for node in self._nodes])

    def kept(self, rows: Matrix, before: Matrix) -> Matrix:
        """Rows of all agents; who is away keeps the ones it had."""
        for i in self._transport.away:
            rows[i] = before[i]
        return rows

    def _report(self, mine: Matrix, before: Matrix) -> Matrix:
        return self.kept(edge.report(self._transport, mine), before)

    def _reported(self, mine: RoundFigures) -> RoundFigures:
        return RoundFigures(self._report(mine.values, self.rows.values))

    @property
    def heard(self) -> Matrix | None:
        """Last released vectors of all agents, also of those that are away; None where nobody is."""
        return self.theta if self._partial else None

    @property
    def _whole(self) -> bool:
        return len(self.theta) == len(self._data.counts)

    def _judged(self) -> Vector:
        """Consensus of all models and its test error, shape (d + 1,)."""
        consensus = self._consensus(self.theta)
        return np.append(consensus, self._error(consensus))

    def _measured(self) -> tuple[Vector | None, RoundFigures]:
        """Take in all models; return consensus and its test error, shape (d + 1,), and the figures of all agents.

        Nobody's figures need the consensus of a private run: only where all models are it is known.
        """
        if self._simulation:
            mine = self.models()
            judged = np.append(mine[0], self._error(mine[0])) if self._shared else None
            self.theta = self._report(mine, self.theta)
            if judged is None:
                judged = self._judged() if self._whole else np.empty(mine.shape[1] + 1)
                judged = edge.tell(self._transport, judged, mine.shape[1])
            return judged, self._reported(self._figures(judged))
        return self._apart(edge.report(self._transport, self._words()))

    def _words(self) -> Matrix:
        """Models and figures of this process's agents, one word each; of a private run, these need no consensus."""
        mine = self.models()
        judged = np.append(mine[0], self._error(mine[0])) if self._shared else None
        return np.hstack([mine, self._figures(judged).values])

    def _apart(self, words: Matrix) -> tuple[Vector | None, RoundFigures]:
        """Take in models; return as ``_measured`` does."""
        theta, rows = (part.copy() for part in np.split(words, [self.theta.shape[1]], axis=1))
        self.theta, rows = self.kept(theta, self.theta), self.kept(rows, self.rows.values)
        if not self._shared:
            return self._judged() if self._whole else None, RoundFigures(rows)
        own = self._nodes[0].id if self._whole else 0
        return np.append(self.theta[own], rows[own, MEASURED[0]]), RoundFigures(rows)

    def observe(
        self,
        round: int,
        summed: Summed = (None, 0),
        heard: Mapping[int, Vector] = MappingProxyType({}),
        *,
        measured: bool = True,
    ) -> None:
        """Take in what agents have released and spent in a round, and if it is ``measured`` models, errors and losses.

        ``summed`` has the tree of the round's sum, None for none, and how many numbers its vectors have. ``heard``
        has what agents of this process were sent, whatever the senders say of it elsewhere. Figures of a private run
        need not be known at once: they travel while the next rounds go on.
        """
        judged, self._heard = None, heard
        if measured and not (self._simulation or self._quiet or self.clock is not None):
            self._transport.post(round, self._words())
            for posted, words in edge.posted(self._transport):
                self._note(posted, summed, *self._apart(words))
            return
        if measured and not self._quiet:
            judged, rows = self._measured()
        elif not (measured or self._counting):
            return
        else:
            if self._partial and not self._quiet:
                self.theta = self._report(self.models(), self.theta)
            rows = self._reported(self._counted())
            rows.values[:, MEASURED] = self.rows.values[:, MEASURED]
        self._note(round, summed, judged, rows)

    def _note(self, round: int, summed: Summed, judged: Vector | None, rows: RoundFigures) -> None:
        """Take in the figures of a round, with the consensus and its test error where that was measured."""
        self.rows = rows
        if judged is not None:
            self._fill(rows, judged[:-1])
        if round != self._round:
            self._round, self._ended = round, self._times(round, rows.releases, summed)
        self.network = network = RoundFigures.filled(np.nan)
        if not self._whole:
            return
        network.releases, network.bytes_sent = rows.releases.sum(), rows.bytes_sent.sum()
        if judged is None:
            return
        network.test_error, network.consensus_gap = judged[-1], rows.consensus_gap.max()
        network.train_loss = self._average(rows.consensus_loss)
        network.objective = rows.consensus_objective.sum()
        self._write(rows)

    def _write(self, rows: RoundFigures) -> None:
        """Write the last round's row of the network and of every agent."""
        network, round = self.network, self._round
        if self._file is not None:
            shown = {name: np.append(network.columns()[name], rows.columns()[name]) for name in network.columns()}
            if self._ended is not None:
                shown["virtual_seconds"] = self._ended
            self._file.write(round, range(-1, len(self.theta)), shown)

    def _fill(self, rows: RoundFigures, consensus: Vector) -> None:
        """Put in figures of agents that never gave any: their records have said nothing."""
        for i in np.flatnonzero(np.isnan(rows.consensus_gap)):
            rows.test_error[i] = self._error(self.theta[i])
            rows.consensus_gap[i] = np.linalg.norm(self.theta[i] - consensus)
            rows.consensus_objective[i] = 0.0
            for column, least in ((rows.releases, 0.0), (rows.bytes_sent, 0.0), (rows.spent, RoundFigures.NO_FIGURE)):
                column[i] = np.nan_to_num(column[i], nan=least)

    def settle(self, heard: Callable[[Callable[[], RoundEvent | None]], object], rounds: int) -> None:
        """Give every process the writer's figures, once, after the last of the ``rounds`` planned.

        Figures that were still on their way are told as those of a round, by ``heard``.
        """
        late = edge.posted(self._transport, last=True)
        for posted, words in late:
            self._note(posted, (None, 0), *self._apart(words))
        agents, whole, transport = len(self._data.counts), self._whole, self._transport
        theta, rows = (
            known if whole else np.empty((agents, known.shape[1])) for known in (self.theta, self.rows.values)
        )
        self.theta, self.rows = edge.tell(transport, theta, theta.shape[1]), RoundFigures(transport.tell(rows))
        self.network = RoundFigures(transport.tell(self.network.values))
        self._said = {**dict(enumerate(self.theta)), **self._heard}
        if self._quiet and self._shared:
            self.theta = np.tile(self.models()[0], (agents, 1))  # the same at all: it follows from the totals
        if late:
            heard(partial(self.event, rounds))

    def event(self, rounds: int) -> RoundEvent | None:
        """Return what the caller is told of the last known round of the ``rounds`` planned; asked at the writer.

        None where it was told of that already.
        """
        if self._round == self._told:
            return None
        self._told = self._round
        spent, away = self.rows.spent, tuple(sorted(self._transport.away))
        return RoundEvent(
            self._round,
            rounds,
            known(float(self.network.test_error)),
            known(float(self.network.train_loss)) if self._simulation else None,
            {i: float(spent[i]) for i in range(len(spent)) if 0.0 <= spent[i] < np.inf},
            {i: int(count) for i, count in enumerate(self.rows.releases) if 0.0 <= count < np.inf},
            away,
        )

    def far(self) -> dict[int, float]:
        """Agents whose vectors stood far from all others in the last round, and how far, eq. (100)."""
        if self._shared or self._quiet:
            return {}
        silent = [i for i in self._said if self.rows.releases[i] == 0 or i in self._transport.away]
        theta = np.stack([self._said[i] for i in range(len(self.theta))])
        theta[silent] = 0.0  # who never spoke has released nothing
        found = standing(theta)
        return {int(i): min(float(found[i]), 1e300) for i in np.flatnonzero(found > far(theta.shape[1]))}

    def _error(self, theta: Vector) -> float:
        return float(test_errors(self._data, theta[None])[0])

    def _errors(self, theta: Matrix) -> Vector:
        """Test error of every model, shape (B, d): several a product where there are many."""
        rows = 1 if len(theta) < MANY else max(1, SCORES // max(1, len(self._data.y_test)))
        return np.concatenate([test_errors(self._data, theta[k : k + rows]) for k in range(0, len(theta), rows)])

    def _counted(self) -> RoundFigures:
        """Figures of the agents of this process that take no pass over records; 0 in the other columns."""
        rows = RoundFigures.filled(0.0, len(self._nodes))
        rows.releases = [node.agent.releases for node in self._nodes]
        rows.bytes_sent = [8 * node.agent.numbers for node in self._nodes]
        # agents with equal histories share totals
        totals = [(id(node.ledger.totals), id(node.ledger.contract)) for node in self._nodes]
        distinct = dict(zip(totals, self._nodes, strict=True)).items()
        found = {own: RoundFigures.NO_FIGURE if (spent := node.spent) is None else spent for own, node in distinct}
        rows.spent = [found[own] for own in totals]
        return rows

    def _figures(self, judged: Vector | None) -> RoundFigures:
        """All figures of this process's agents; those that need a consensus, in simulations alone.

        What agents that hold the consensus share is found once.
        """
        mine, theta = self._counted(), self.models()
        same = judged is not None and bool((theta == judged[:-1]).all())
        mine.test_error = judged[-1] if judged is not None and same else self._errors(theta)
        if self._simulation and judged is not None:
            for block in self._blocks:
                places = [self._place[node.id] for node in block]
                own = RoundFigures(mine.values[places])
                self._compare(own, block, theta[places], judged[:-1])
                mine.values[places] = own.values
        return mine

    def _compare(self, own: RoundFigures, block: Sequence[Node], theta: Matrix, consensus: Vector) -> None:
        """Put in losses, objectives and gaps of the agents of a block and of the consensus."""
        plans = [node.agent.plan for node in block]
        weights, share = np.array([plan.weight for plan in plans]), plans[0].regularisation
        own.train_loss, own.consensus_loss = self._two_losses(block, theta, consensus)
        # (lambda/N) ||theta||^2 / 2, eqs. (1), (61)
        own.objective = weights * own.train_loss + [0.5 * share * float(row @ row) for row in theta]
        own.consensus_gap = [np.linalg.norm(row - consensus) for row in theta]
        own.consensus_objective = weights * own.consensus_loss + 0.5 * share * float(consensus @ consensus)

    def _two_losses(self, block: Sequence[Node], theta: Matrix, consensus: Vector) -> tuple[Vector, Vector]:
        """Losses of the agents of a block at their own models, and at the consensus: in simulations alone."""
        holder, _ = self._holders[block[0].id]
        assert isinstance(holder, SimulatedHolder)
        others = () if bool((theta == consensus).all()) else (np.broadcast_to(consensus, theta.shape),)
        found = holder.mean_losses(self._loss, theta, *others)
        return found[0], found[-1]

    def judge(self, theta: Matrix, sent: Integers) -> None:
        """Put the figures of the final models, shape (N, d), in place of the last round's.

        ``sent``, of shape (N,), has the numbers that every agent has sent for them.
        """
        if self._quiet:
            self._judge_all(theta, sent)
            return
        consensus, mine = self._consensus(theta), RoundFigures.filled(0.0, len(self._nodes))
        mine.test_error = self._errors(theta[[node.id for node in self._nodes]])
        for block in self._blocks if self._simulation else ():
            places, ids = [self._place[node.id] for node in block], [node.id for node in block]
            losses = self._two_losses(block, theta[ids], consensus)
            mine.train_loss[places], mine.consensus_loss[places] = losses
        said = edge.collect(self._transport, mine.values[:, JUDGED])
        self.rows.values[:, JUDGED] = self.kept(said, self.rows.values[:, JUDGED])
        self.theta = theta
        self.network.test_error = self._error(consensus)
        self.network.bytes_sent += 8 * np.delete(sent, list(self._transport.away)).sum()
        self.network.train_loss = self._average(self.rows.consensus_loss)

    def _judge_all(self, theta: Matrix, sent: Integers) -> None:
        """As ``judge`` of one model that all agents have, from which alone its figures are made."""
        self.theta = theta
        self.rows.test_error[:] = self.network.test_error = self._error(theta[0])
        self.network.bytes_sent += 8 * sent.sum()
        self._write(self.rows)

    def _consensus(self, theta: Matrix) -> Vector:
        return mean_of(theta, self._aggregate)

    def _average(self, losses: Vector) -> float:
        """Mean over all training records of the agents' mean losses, as far as these are known."""
        known = np.flatnonzero(~np.isnan(losses))
        counts = np.array([self._data.counts[int(i)] for i in known], dtype=float)
        return float(losses[known] @ counts / counts.sum())

    def close(self) -> None:
        """Close metrics.csv."""
        if self._file is not None:
            self._file.close()
