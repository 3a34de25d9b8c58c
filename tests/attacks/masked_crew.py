"""Agents behind their doors that answer attempts at masked sums, and what an attacker makes of their words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from admmnet.holder import Ask, Door, Holder, Released
from admmnet.holder.known import Known
from admmnet.holder.measurements import GradientSum
from admmnet.holder.measurements.sums import gradient_sum
from admmnet.masking import Attempt, Masks
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.types import Integers, Matrix, Vector
from tests.masking.crew import crew

LOSS = Logistic()
GRID, SIGMA, RECORDS = 2.0**-28, 64.0, 4


class Asked(NamedTuple):
    """An attempt, and what is asked in it."""

    attempt: Attempt
    sum: GradientSum

    @property
    def known(self) -> Known:
        """Public facts, the same of all agents."""
        return Known(RECORDS, len(self.sum.here), LOSS, frozenset(), attempt=self.attempt)

    @property
    def context(self) -> bytes:
        """What its masks are bound to besides the attempt."""
        return self.sum.context(self.known)

    @property
    def sensitivity(self) -> float:
        """Of the sum at its point."""
        return self.sum.sensitivity(self.known)


@dataclass
class Crew:
    """So many agents with a few records each, who have agreed on keys."""

    agents: int
    width: int = 64
    seed: int = 0
    colluders: int = 1
    masks: dict[int, Masks] = field(default_factory=dict)
    ledgers: list[MemoryLedger] = field(default_factory=list)
    doors: dict[int, Door] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Draw records, agree on keys."""
        rng = np.random.default_rng(self.seed)
        self.rows = rng.standard_normal((self.agents, RECORDS, self.width))
        self.rows /= np.linalg.norm(self.rows, axis=2, keepdims=True) * (1.0 + 1e-12)
        self.labels = rng.choice([-1.0, 1.0], (self.agents, RECORDS))
        self.masks = self.masks or crew(self.agents, colluders=self.colluders)
        self.ledgers = [MemoryLedger(Contract()) for _ in range(self.agents)]
        for i in range(self.agents):
            self.open(i, self.masks[i])

    def open(self, agent: int, masks: Masks | None) -> None:
        """Give an agent a door, with or without masks."""
        holder, streams = Holder(self.rows[agent], self.labels[agent]), AgentStreams(agent, self.seed)
        self.doors[agent] = Door(holder, 0, LOSS, self.ledgers[agent], streams, masks)

    def asked(self, members: Iterable[int], number: int = 1, **others: Any) -> Asked:
        """What an attempt asks, by its number."""
        given: dict[str, Any] = {"here": np.zeros(self.width), "sigma": SIGMA, "grid": GRID}
        return Asked(Attempt(number, tuple(members), self.colluders), GradientSum(**given | others))

    def answer(self, agent: int, asked: Asked) -> Integers:
        """An honest agent's message."""
        self.doors[agent].attempt(asked.attempt.number, asked.attempt.participants)
        released = self.doors[agent].answer(Ask(asked.sum), 0)
        assert isinstance(released, Released)
        return np.asarray(released.value)

    def own_masks(self, colluder: int, asked: Asked) -> Integers:
        """What a colluder knows of the masks of its partners: all that it would have added itself."""
        return self.masks[colluder].words(asked.attempt, asked.context, self.width)

    def noise(self, read: Integers, agents: Iterable[int], here: Vector | None = None) -> Vector:
        """What is left of something that was read when these agents' records are taken off: small if it was read."""
        point = np.zeros(self.width) if here is None else here
        exact: Matrix = np.array([gradient_sum(self.rows[i], self.labels[i], point, LOSS) for i in agents])
        return np.asarray(read * GRID - exact.sum(axis=0))


def readable(noise: Vector, sigma: float = SIGMA) -> bool:
    """Whether something is a sum and noise: of uniform words a number is that small with probability 2^-30."""
    return bool(np.abs(noise).max() < 10.0 * sigma)
