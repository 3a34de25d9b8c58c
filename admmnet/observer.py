"""What is measured after every round. It sees released vectors, and the training records in seeded runs only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from admmnet.agent import Agent
from admmnet.data import Records
from admmnet.records import MetricsFile
from admmnet.transport import Transport
from admmnet.types import Matrix, Vector


def test_error(X: Matrix, y: Vector, theta: Vector) -> float:
    """Share of wrong predictions; +1 is predicted where the score is positive. nan without test records."""
    return float(np.mean((X @ theta > 0.0) != (y > 0.0))) if len(y) else float("nan")


test_error.__test__ = False  # type: ignore[attr-defined]


class Observer:
    """Collects every agent's figures after a round and writes metrics.csv on rank 0.

    Attributes
    ----------
    theta : ndarray of shape (N, d)
        Last released vector of every agent.
    rows : ndarray of shape (N, 6)
        test_error, releases, bytes_sent, train_loss, objective, consensus_gap of every agent.
    network : ndarray of shape (6,)
        The same for the network: errors and losses of the consensus, sums, the largest gap.
    """

    def __init__(
        self, transport: Transport, agents: Sequence[Agent], data: Records, folder: Path, *, seeded: bool
    ) -> None:
        self._transport, self._agents, self._data, self._seeded = transport, agents, data, seeded
        self.theta = transport.collect(np.stack([agent.state.theta for agent in agents]))
        self.rows, self.network = np.empty((0, 6)), np.empty(6)
        self._file = MetricsFile(folder / "metrics.csv", seeded=seeded) if transport.world.rank == 0 else None

    def observe(self, round: int) -> float:
        """Measure and record a round; return the test error of the consensus."""
        agents, data = self._agents, self._data
        self.theta = self._transport.collect(np.stack([agent.state.theta for agent in agents]))
        consensus = self.theta.mean(axis=0)
        mine = np.zeros((len(agents), 8))
        for row, agent in zip(mine, agents, strict=True):
            theta = agent.state.theta
            row[0] = test_error(data.X_test, data.y_test, theta)
            row[1] = agent.releases
            row[2] = agent.releases * theta.nbytes * agent.state.degree
            if self._seeded:
                row[3] = agent.solver.mean_loss(theta)
                row[4] = row[3] + agent.penalty(theta)
                row[5] = np.linalg.norm(theta - consensus)
                row[6] = agent.solver.mean_loss(consensus)
                row[7] = row[6] + agent.penalty(consensus)
        rows = self._transport.collect(mine)
        self.rows = rows[:, :6]
        self.network = np.array(
            [
                test_error(data.X_test, data.y_test, consensus),
                rows[:, 1].sum(),
                rows[:, 2].sum(),
                self._average(rows[:, 6]),
                rows[:, 7].sum(),
                rows[:, 5].max(),
            ]
        )
        if self._file is not None:
            self._file.write(round, range(-1, len(rows)), np.vstack([self.network, self.rows]))
        return float(self.network[0])

    def judge(self, theta: Matrix, extra: int) -> None:
        """Put the figures of the final models, shape (N, d), in place of the last round's; count extra messages."""
        data, consensus = self._data, theta.mean(axis=0)
        mine = np.zeros((len(self._agents), 4))
        for row, agent in zip(mine, self._agents, strict=True):
            row[0] = test_error(data.X_test, data.y_test, theta[agent.id])
            row[1] = extra * theta[0].nbytes * agent.state.degree
            if self._seeded:
                row[2] = agent.solver.mean_loss(theta[agent.id])
                row[3] = agent.solver.mean_loss(consensus)
        rows = self._transport.collect(mine)
        self.theta = theta
        self.rows[:, 0], self.rows[:, 2], self.rows[:, 3] = (
            rows[:, 0],
            self.rows[:, 2] + rows[:, 1],
            rows[:, 2],
        )
        self.network[0] = test_error(data.X_test, data.y_test, consensus)
        self.network[2] += rows[:, 1].sum()
        self.network[3] = self._average(rows[:, 3])

    def _average(self, losses: Vector) -> float:
        """Mean over all training records of the agents' mean losses."""
        counts = np.array([self._data.counts[i] for i in range(len(losses))], dtype=float)
        return float(losses @ counts / counts.sum())

    def close(self) -> None:
        """Close metrics.csv."""
        if self._file is not None:
            self._file.close()
