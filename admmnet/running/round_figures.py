"""Figures of agents after a round: a table of named columns over one array."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from admmnet.types import Matrix, Vector


class _Column:
    """Column of a ``RoundFigures`` at the place in which the class names it."""

    def __set_name__(self, owner: type[RoundFigures], name: str) -> None:
        self._place = len(owner.names)
        owner.names = (*owner.names, name)

    def __get__(self, table: RoundFigures, owner: type[RoundFigures]) -> Vector:
        column: Vector = table.values[..., self._place]
        return column

    def __set__(self, table: RoundFigures, values: ArrayLike) -> None:
        table.values[..., self._place] = values


class RoundFigures:
    """Named columns of ``values``, of shape (agents, columns), or (columns,) for the network.

    The first six are what metrics.csv may have, for the network, too; the others are for the figures of the network.
    """

    names: ClassVar[tuple[str, ...]] = ()
    test_error = _Column()
    releases = _Column()
    bytes_sent = _Column()
    train_loss = _Column()
    objective = _Column()
    consensus_gap = _Column()
    consensus_loss = _Column()
    """Mean loss of the consensus over the agent's records."""
    consensus_objective = _Column()
    """The agent's share of the consensus's objective."""
    spent = _Column()
    """Epsilon, ``NO_FIGURE`` where it is not finite."""

    NO_FIGURE: ClassVar[float] = -1.0
    """Stands for a spent epsilon that is not finite: infinity would be refused among figures of others."""

    def __init__(self, values: Matrix) -> None:
        self.values = values

    @classmethod
    def filled(cls, value: float, *agents: int) -> RoundFigures:
        """Figures that are all alike, of so many agents, or the network's."""
        return cls(np.full((*agents, len(cls.names) if agents else 6), value))

    @classmethod
    def places(cls, *names: str) -> list[int]:
        """Places of some columns."""
        return [cls.names.index(name) for name in names]

    def columns(self) -> dict[str, Vector]:
        """All columns by their names."""
        return {name: self.values[..., place] for place, name in enumerate(self.names[: self.values.shape[-1]])}
