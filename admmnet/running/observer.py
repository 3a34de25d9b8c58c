"""What is measured of a run's released vectors, and metrics.csv; of training records in simulations alone.

A measured round is one ``collect`` of a row an agent, and in simulations a second one: losses need the consensus.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from types import MappingProxyType
from typing import TextIO

import numpy as np

from admmnet.data import Records
from admmnet.data.figures import mean_of, test_errors
from admmnet.holder.holder import SimulatedHolder
from admmnet.privacy.ledger.form import finite, total_line
from admmnet.record.folder import columns
from admmnet.running.events import RoundEvent
from admmnet.running.loading import Holders
from admmnet.running.party import Party
from admmnet.transport import Transport
from admmnet.transport.collective import collect
from admmnet.types import Integers, Matrix, Vector

Table = dict[str, Vector]
"""Columns by name, a number an agent."""
LOSSES = ("train_loss", "objective", "consensus_loss", "consensus_objective")
"""Of an agent's records at its own model and at the consensus."""
COUNTS = ("releases", "bytes_sent")
"""Columns of metrics.csv without fractions."""
MANY, SCORES = 3, 2**20
"""Models from which on one product has the scores of several, and how many scores it gives at most, 8 MB."""
JUDGED = 4
"""Fewest vectors of which one can stand far from the others."""


class Observer:
    """Every agent's figures of the last measured round.

    Attributes
    ----------
    theta : ndarray of shape (N, d)
        Released vectors; who is away keeps the last one. With ``show = end`` nobody's leave it, and these are zeros.
    rows : Table
        Figures of all agents, nan until known. ``spent`` is -1 where it is infinite.
    network : mapping
        Error and loss of the consensus, sums, and the largest gap.
    """

    def __init__(
        self, transport: Transport, party: Party, data: Records, holders: Holders, file: TextIO | None, *, quiet: bool
    ) -> None:
        self._transport, self._party, self._data, self._holders = transport, party, data, holders
        self._file, self._quiet, self._shared = file, quiet, party.method.verb == "reduce"
        self._simulation, agents = party.nodes[0].door.simulated, len(data.counts)
        self.theta = np.zeros((agents, party.method.size))
        self.rows: Table = {name: np.full(agents, np.nan) for name in ("test_error", "consensus_gap", *LOSSES)}
        self.rows |= {"releases": np.zeros(agents), "bytes_sent": np.zeros(agents), "spent": np.full(agents, -1.0)}
        self.network: dict[str, float] = {}
        self._round, self._said = -1, self.theta
        self._columns = columns(training=self._simulation and not quiet)[2:]

    @property
    def heard(self) -> Matrix | None:
        """Last released vectors of all agents, also of those that are away; None where nobody is."""
        return self.theta if self._transport.away else None

    def with_away(self, rows: Matrix, before: Matrix) -> Matrix:
        """Rows of all agents; who is away keeps the ones it had."""
        away = list(self._transport.away)
        rows[away] = before[away]
        return rows

    def _collect(self, mine: Table, theta: Matrix | None = None) -> None:
        """Take in columns of all agents, and with ``theta`` their vectors."""
        width = 0 if theta is None else self.theta.shape[1]
        words = np.column_stack([*(() if theta is None else [theta]), *mine.values()])
        said = collect(self._transport, words)
        if theta is not None:
            self.theta = self.with_away(said[:, :width].copy(), self.theta)
        for name, column in zip(mine, said[:, width:].T, strict=True):
            self.rows[name] = self.with_away(column.copy(), self.rows[name])

    def observe(self, round: int, heard: Mapping[int, Vector] = MappingProxyType({})) -> None:
        """Measure a round; ``heard`` is what agents of this process were sent, whatever senders say of it elsewhere."""
        self._round, mine = round, self._counts()
        if self._quiet:
            self._collect(mine)
            return
        theta = self._party.models()
        mine["test_error"] = self._errors(theta)
        self._collect(mine, theta)
        self._said = self.theta.copy()
        for i, vector in heard.items():
            self._said[i] = vector
        never = np.isnan(self.rows["test_error"])  # of agents that never gave one, or nobody has test records
        if never.any():
            self.rows["test_error"][never] = self._errors(self.theta[never])
        consensus = theta[0] if self._shared else mean_of(self.theta)  # all that go on with a sum hold the same
        if self._simulation:
            self._collect(self._losses(theta, consensus))
            self.rows["consensus_gap"] = np.array([np.linalg.norm(row - consensus) for row in self.theta])
        self._sum_up(consensus)
        self._write()

    def _sum_up(self, consensus: Vector) -> None:
        """Figures of the network."""
        rows, counts = self.rows, np.array([self._data.counts[i] for i in range(len(self.theta))], dtype=float)
        losses = rows["consensus_loss"]
        there = ~np.isnan(losses)
        self.network = {
            "test_error": self._errors(consensus[None])[0],
            "releases": rows["releases"].sum(),
            "bytes_sent": rows["bytes_sent"].sum(),
            "train_loss": losses[there] @ counts[there] / counts[there].sum() if there.any() else np.nan,
            "objective": np.nansum(rows["consensus_objective"]),
            "consensus_gap": rows["consensus_gap"].max(),
        }

    def _write(self) -> None:
        """Write the round's row of the network and of every agent; an error that is nan is an empty field."""
        if self._file is None:
            return
        shown = (
            np.append(self.network[name], self.rows[name]).astype(int if name in COUNTS else float).tolist()
            for name in self._columns
        )
        for agent, (error, *rest) in enumerate(zip(*shown, strict=True), start=-1):
            words = [str(self._round), str(agent), "" if isnan(error) else repr(error), *map(repr, rest)]
            self._file.write(",".join(words) + "\n")
        self._file.flush()

    def _counts(self) -> Table:
        """What takes no pass over records, of this process's agents; those with equal histories share totals."""
        nodes = self._party.nodes
        totals = [(id(node.ledger.totals), id(node.ledger.contract)) for node in nodes]
        distinct = dict(zip(totals, nodes, strict=True)).items()
        spent = dict.fromkeys(totals, -1.0)  # without a budget, or a proof that covers the method
        for own, node in distinct:
            contract = node.ledger.contract
            if contract.promise is not None and contract.covered:
                found = total_line(node.ledger.totals, contract).epsilon_spent
                spent[own] = -1.0 if found is None else found
        return {
            "releases": self._party.releases.astype(float),
            "bytes_sent": 8.0 * self._party.numbers,
            "spent": np.array([spent[own] for own in totals]),
        }

    def _errors(self, theta: Matrix) -> Vector:
        """Test error of every model, shape (B, d): several a product where there are many, of equal ones once."""
        if len(theta) > 1 and bool((theta == theta[0]).all()):
            return np.repeat(self._errors(theta[:1]), len(theta))
        data = self._data
        rows = 1 if len(theta) < MANY else max(1, SCORES // max(1, len(data.y_test)))
        return np.concatenate([test_errors(data, theta[k : k + rows]) for k in range(0, len(theta), rows)])

    def _losses(self, theta: Matrix, consensus: Vector) -> Table:
        """Losses and objectives, eqs. (1), (61), of this process's agents at their own models and at the consensus."""
        found = {name: np.zeros(len(theta)) for name in LOSSES}
        for block in self._transport.blocks[self._transport.world.rank]:
            places, plans = [self._party.place[i] for i in block], [self._party.plans[i] for i in block]
            weights, share, own = np.array([plan.weight for plan in plans]), plans[0].regularisation, theta[places]
            holder, _ = self._holders[block[0]]
            assert isinstance(holder, SimulatedHolder)
            others = () if bool((own == consensus).all()) else (np.broadcast_to(consensus, own.shape),)
            losses = holder.mean_losses(self._party.method.loss, own, *others)
            found["train_loss"][places], found["consensus_loss"][places] = losses[0], losses[-1]
            found["objective"][places] = weights * losses[0] + [0.5 * share * float(row @ row) for row in own]
            found["consensus_objective"][places] = weights * losses[-1] + 0.5 * share * float(consensus @ consensus)
        return found

    def judge(self, theta: Matrix, sent: Integers) -> None:
        """Put the figures of the final models, shape (N, d), in place of the last round's.

        ``sent``, of shape (N,), has the numbers that every agent has sent for them. With ``show = end`` all have one
        model, from which alone figures are made.
        """
        self.theta, mine, before = theta, list(self._party.ids), self.network
        consensus = theta[0] if self._quiet else mean_of(theta)
        if self._quiet:
            self.rows["test_error"][:] = self._errors(theta[:1])
        else:
            found = {"test_error": self._errors(theta[mine])}
            if self._simulation:
                losses = self._losses(theta[mine], consensus)
                found |= {name: losses[name] for name in ("train_loss", "consensus_loss")}
            self._collect(found)
        self._sum_up(consensus)
        self.network |= {name: before[name] for name in ("objective", "consensus_gap") if name in before}
        self.network["bytes_sent"] += 8 * np.delete(sent, list(self._transport.away)).sum()
        if self._quiet:
            self._write()

    def event(self, round: int, rounds: int, *, measured: bool) -> RoundEvent:
        """What is told of a round of so many; counts of agents elsewhere are those of the last measured one."""
        if len(self._party.nodes) == len(self.theta):  # all are here
            self.rows |= self._counts()
        spent, own = self.rows["spent"], self.network if measured else {}
        return RoundEvent(
            round,
            rounds,
            finite(float(own.get("test_error", np.nan))),
            finite(float(own.get("train_loss", np.nan))) if self._simulation else None,
            {i: float(value) for i, value in enumerate(spent) if 0.0 <= value < np.inf},
            {i: int(count) for i, count in enumerate(self.rows["releases"])},
            tuple(sorted(self._transport.away)),
        )

    def far(self) -> dict[int, float]:
        """Agents whose vectors stood far from all others in the last round, and how far, eq. (100)."""
        if self._shared or self._quiet:
            return {}
        theta = self._said.copy()
        silent = [i for i in range(len(theta)) if not self.rows["releases"][i] or i in self._transport.away]
        theta[silent] = 0.0  # who never spoke has released nothing
        found = standing(theta)
        return {int(i): min(float(found[i]), 1e300) for i in np.flatnonzero(found > far(theta.shape[1]))}


def standing(rows: Matrix) -> Vector:
    """Distance of each row from the middle over what is usual among them, docs/methods.md, eq. (100), shape (k,).

    Rows of zeros have said nothing: they are not judged, and stand at 0, as all do where less than ``JUDGED`` speak.
    """
    found, speak = np.zeros(len(rows)), rows.any(axis=1)
    if speak.sum() < JUDGED:
        return found
    away = rows[speak] - _median(rows[speak])
    usual = 1.4826 * float(np.linalg.norm(_median(np.abs(away))))
    distance = np.linalg.norm(away, axis=1)
    found[speak] = np.divide(distance, usual, out=np.where(distance > 0.0, np.inf, 0.0), where=usual > 0.0)
    return found


def _median(rows: Matrix) -> Vector:
    """Median of each coordinate; numpy's own would import numpy.ma."""
    out = (len(rows) - 1) // 2
    return np.asarray(np.sort(rows, axis=0)[out : len(rows) - out].mean(axis=0))


def far(width: int) -> float:
    """Standing from which on a vector of so many coordinates is far from the others, eq. (100)."""
    return 1.6 + 42.0 / width
