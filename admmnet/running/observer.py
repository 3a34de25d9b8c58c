"""What is measured after every round. It sees released vectors, and the training records in simulations only.

Over MPI the writer alone gets the rows of all agents (docs/scale.md, "What observing a run sends").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from admmnet.data import Records
from admmnet.data.figures import test_errors
from admmnet.faults.clock import VirtualClock
from admmnet.faults.model import FaultModel
from admmnet.files import write_whole
from admmnet.forms import encode
from admmnet.graph.tree import Tree
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.methods.aggregate import far, mean_of, standing
from admmnet.record.folder import LOST, MetricsFile
from admmnet.running.events import RoundEvent, known
from admmnet.running.node import Node
from admmnet.solvers.losses import Loss
from admmnet.transport import Transport, edge, is_writer
from admmnet.types import Integers, Matrix, Vector

Summed = tuple[Tree | None, int]
UNCOUNTED = [0, 3, 4, 5, 6, 7]
"""Columns of an agent's figures that take a pass over records, or need the consensus."""
NO_FIGURE = -1.0
"""Spent epsilon of an agent that has no finite one; infinity would be refused among figures of others."""


class Observer:
    """Collects every agent's figures after a round and writes metrics.csv at one process.

    ``start`` is the first round, 0 but in a resumed run; ``faults`` has the delays of a virtual clock. ``shared`` says
    that all agents that go on hold one model; else their consensus is the mean by ``aggregate``. With ``lossy`` agents
    may be lost: the others then hear every model of theirs, else those of measured rounds alone.

    Where ``Transport.report`` has nothing for this process, the rows are those of its own agents until ``settle``.

    Attributes
    ----------
    theta : ndarray of shape (N, d)
        Last released vector of every agent, as of the last round that was measured.
    rows : ndarray of shape (N, 6)
        test_error, releases, bytes_sent, train_loss, objective, consensus_gap of every agent.
    network : ndarray of shape (6,)
        The same for the network: errors and losses of the consensus, sums, the largest gap; nan until they are known.
    clock : VirtualClock or None
        The same at every process.
    """

    def __init__(
        self,
        transport: Transport,
        blocks: Sequence[Sequence[Node]],
        holders: Mapping[int, tuple[Holder, int]],
        data: Records,
        folder: Path,
        *,
        loss: Loss,
        simulation: bool,
        lossy: bool,
        shared: bool = False,
        aggregate: str = "mean",
        start: int = 0,
        faults: FaultModel | None = None,
    ) -> None:
        self._transport, self._blocks, self._data, self._simulation = transport, blocks, data, simulation
        self._holders, self._loss, self._shared = holders, loss, shared
        self._aggregate, self._lossy = aggregate, lossy
        nodes = sorted((node for block in blocks for node in block), key=lambda node: node.id)
        self._nodes = nodes
        self._place = {node.id: place for place, node in enumerate(nodes)}
        mine = self.models()
        self.theta = self._report(mine, np.zeros((len(data.counts), mine.shape[1])))
        self._heard: Mapping[int, Vector] = {}
        self._said: dict[int, Vector] = {}
        self._missed = 0
        self._all = np.full((len(self.theta), 9), np.nan)
        self.rows, self.network = self._all[:, :6], np.empty(6)
        self._path, self._faults, self.clock = folder / "metrics.csv", faults, None
        if faults is not None and faults.delays is not None:
            self.clock = VirtualClock(faults, self.theta[0].nbytes)
            releases = np.array([[node.agent.releases] for node in nodes], dtype=float)
            self._releases = edge.collect(transport, releases)[:, 0]
        self._file = self._metrics(start) if is_writer(transport) else None
        self._round = -1
        self._ended: Vector | None = None  # when the last round did, by the clock

    def _metrics(self, start: int) -> MetricsFile:
        self._path.with_name(LOST).unlink(missing_ok=True)  # of a start that was interrupted
        return MetricsFile(self._path, training=self._simulation, start=start, clock=self.clock is not None)

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
        """Rows of all agents; a lost agent keeps the ones it had."""
        for i in self._transport.lost:
            rows[i] = before[i]
        return rows

    def _report(self, mine: Matrix, before: Matrix) -> Matrix:
        return self.kept(edge.report(self._transport, mine), before)

    @property
    def heard(self) -> Matrix | None:
        """Last released vectors of all agents, those of lost ones, too; None where nobody can be lost."""
        return self.theta if self._lossy else None

    @property
    def _whole(self) -> bool:
        return len(self.theta) == len(self._data.counts)

    def _judged(self) -> Vector:
        """Consensus of all models and its test error, shape (d + 1,)."""
        consensus = self._consensus(self.theta)
        return np.append(consensus, self._error(consensus))

    def _measured(self) -> tuple[Vector | None, Matrix]:
        """Take in all models; return consensus and its test error, shape (d + 1,), and the figures of all agents.

        Nobody's figures need the consensus of a private run: only where all models are it is known.
        """
        mine = self.models()
        judged = np.append(mine[0], self._error(mine[0])) if self._shared else None
        if self._simulation:
            self.theta = self._report(mine, self.theta)
            if judged is None:
                judged = self._judged() if self._whole else np.empty(mine.shape[1] + 1)
                judged = edge.tell(self._transport, judged, mine.shape[1])
            return judged, self._report(self._figures(judged), self._all)
        # no figure needs the others' models: one word of each agent in place of two
        both = edge.report(self._transport, np.hstack([mine, self._figures(judged)]))
        theta, rows = (part.copy() for part in np.split(both, [mine.shape[1]], axis=1))
        self.theta, rows = self.kept(theta, self.theta), self.kept(rows, self._all)
        return self._judged() if judged is None and self._whole else judged, rows

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
        has what agents of this process were sent, whatever the senders say of it elsewhere.
        """
        judged, self._heard = None, heard
        if measured:
            judged, rows = self._measured()
        else:
            if self._lossy:
                self.theta = self._report(self.models(), self.theta)
            rows = self._report(self._counted(), self._all)
            rows[:, UNCOUNTED] = self._all[:, UNCOUNTED]
        self._all, self.rows = rows, rows[:, :6]
        if judged is not None:
            self._fill(rows, judged[:-1])
        if round != self._round:
            self._round, self._ended = round, self._times(round, rows[:, 1], summed)
        self.network = np.full(6, np.nan)
        if not self._whole:
            return
        self.network[1:3] = rows[:, 1:3].sum(axis=0)
        if judged is None:
            return
        self.network[[0, 3, 4, 5]] = judged[-1], self._average(rows[:, 6]), rows[:, 7].sum(), rows[:, 5].max()
        if self._file is None and is_writer(self._transport):
            self._file = self._metrics(round)  # the writer was lost
        if self._file is not None and len(self._transport.lost) > self._missed:
            self._missed = len(self._transport.lost)
            lost = {str(i): at for i, at in sorted(self._transport.lost.items())}
            write_whole({self._path.with_name(LOST): encode(lost, indent=2)})
        if self._file is not None:
            self._file.write(round, range(-1, len(rows)), np.vstack([self.network, self.rows]), self._ended)

    def _fill(self, rows: Matrix, consensus: Vector) -> None:
        """Put in figures of lost agents that never gave any: their records have said nothing."""
        for i in np.flatnonzero(np.isnan(rows[:, 5])):
            own = self.theta[i]
            rows[i, 0], rows[i, 1:3] = self._error(own), np.nan_to_num(rows[i, 1:3])
            rows[i, 5], rows[i, 7] = np.linalg.norm(own - consensus), 0
            rows[i, 8] = np.nan_to_num(rows[i, 8], nan=NO_FIGURE)

    def settle(self) -> None:
        """Give every process what the writer has, once, after the last round."""
        agents, whole, transport = len(self._data.counts), self._whole, self._transport
        theta, rows = (known if whole else np.empty((agents, known.shape[1])) for known in (self.theta, self._all))
        self.theta, self._all = edge.tell(transport, theta, theta.shape[1]), transport.tell(rows)
        self.rows, self.network = self._all[:, :6], transport.tell(self.network)
        self._said = {**dict(enumerate(self.theta)), **self._heard}

    def event(self, round: int, rounds: int) -> RoundEvent:
        """Return what the caller is told of the last observed round of the ``rounds`` planned; asked at the writer."""
        spent, releases, lost = self._all[:, 8], self.rows[:, 1], tuple(sorted(self._transport.lost))
        return RoundEvent(
            round,
            rounds,
            known(float(self.network[0])),
            known(float(self.network[3])) if self._simulation else None,
            {i: float(spent[i]) for i in range(len(spent)) if 0.0 <= spent[i] < np.inf},
            {i: int(count) for i, count in enumerate(releases) if 0.0 <= count < np.inf},
            lost,
        )

    def far(self) -> dict[int, float]:
        """Agents whose vectors stood far from all others in the last round, and how far, eq. (100)."""
        if self._shared:
            return {}
        silent = [i for i in self._said if self.rows[i, 1] == 0 or i in self._transport.lost]
        theta = np.stack([self._said[i] for i in range(len(self.theta))])
        theta[silent] = 0.0  # who never spoke has released nothing
        found = standing(theta)
        return {int(i): min(float(found[i]), 1e300) for i in np.flatnonzero(found > far(theta.shape[1]))}

    def _losses(self, block: Sequence[Node], theta: Matrix) -> Vector:
        """Every agent's mean loss over its records at its row of theta, shape (B, d): in simulations alone."""
        holder, _ = self._holders[block[0].id]
        assert isinstance(holder, SimulatedHolder)
        return holder.mean_losses(theta, self._loss)

    def _error(self, theta: Vector) -> float:
        return float(test_errors(self._data, theta[None])[0])

    def _counted(self) -> Matrix:
        """Figures of the agents of this process that take no pass over records, shape (local agents, 9)."""
        rows = np.zeros((len(self._nodes), 9))
        rows[:, 1] = [node.agent.releases for node in self._nodes]
        rows[:, 2] = [8 * node.agent.numbers for node in self._nodes]
        rows[:, 8] = [NO_FIGURE if (spent := node.spent) is None else spent for node in self._nodes]
        return rows

    def _figures(self, judged: Vector | None) -> Matrix:
        """All figures of this process's agents; those that need a consensus, in simulations alone.

        What agents of a block that hold the consensus share is found once.
        """
        mine = self._counted()
        for block in self._blocks:
            places = [self._place[node.id] for node in block]
            theta = np.stack([node.theta for node in block])
            same = judged is not None and bool((theta == judged[:-1]).all())
            mine[places, 0] = judged[-1] if judged is not None and same else test_errors(self._data, theta)
            if self._simulation and judged is not None:
                mine[places, 3:8] = self._compared(block, theta, judged[:-1], same=same)
        return mine

    def _compared(self, block: Sequence[Node], theta: Matrix, consensus: Vector, *, same: bool) -> Matrix:
        """Loss, objective and gap of the agents of a block, and the consensus's loss and objective, shape (B, 5)."""
        plans = [node.agent.plan for node in block]
        weights, share = np.array([plan.weight for plan in plans]), plans[0].regularisation
        own = self._losses(block, theta)
        shared = own if same else self._losses(block, np.broadcast_to(consensus, theta.shape))
        # (lambda/N) ||theta||^2 / 2, eqs. (1), (61)
        objective = weights * own + [0.5 * share * float(row @ row) for row in theta]
        gaps = [np.linalg.norm(row - consensus) for row in theta]
        objectives = weights * shared + 0.5 * share * float(consensus @ consensus)
        return np.column_stack([own, objective, gaps, shared, objectives])

    def judge(self, theta: Matrix, sent: Integers) -> None:
        """Put the figures of the final models, shape (N, d), in place of the last round's.

        ``sent``, of shape (N,), has the numbers that every agent has sent for them.
        """
        consensus = self._consensus(theta)
        mine = np.zeros((len(self._nodes), 4))
        for block in self._blocks:
            places, own = [self._place[node.id] for node in block], theta[[node.id for node in block]]
            mine[places, 0] = test_errors(self._data, own)
            mine[places, 1] = [8 * sent[node.id] for node in block]
            if self._simulation:
                mine[places, 2] = self._losses(block, own)
                same = bool((own == consensus).all())
                mine[places, 3] = (
                    mine[places, 2] if same else self._losses(block, np.broadcast_to(consensus, own.shape))
                )
        before = np.column_stack([self.rows[:, 0], np.zeros(len(theta)), self.rows[:, 3], self._all[:, 6]])
        rows = self.kept(edge.collect(self._transport, mine), before)
        self.theta = theta
        self.rows[:, 0], self.rows[:, 2], self.rows[:, 3] = (rows[:, 0], self.rows[:, 2] + rows[:, 1], rows[:, 2])
        self.network[0] = test_errors(self._data, consensus[None])[0]
        self.network[2] += rows[:, 1].sum()
        self.network[3] = self._average(rows[:, 3])

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
