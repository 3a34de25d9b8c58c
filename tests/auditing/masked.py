"""Masked sums on an integer grid, asked for through the door: mechanisms to audit (docs/proofs.md, Theorem 23)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from admmnet.auditing.audit import Reading, Trial
from admmnet.auditing.evidence import World
from admmnet.auditing.methods import canary, far
from admmnet.holder import Ask
from admmnet.holder.known import Known
from admmnet.holder.measurements import GradientSum
from admmnet.masking import Attempt, MaskKey, Masks, start_of
from admmnet.privacy.calibrate import Target, gaussian_mu_left
from admmnet.privacy.contract import Contract
from admmnet.types import Vector
from tests.auditing.doors import LOSS, answered, door_of
from tests.planned import contract_for

RECORDS, WIDTH, GRID = 40, 2, 2.0**-40
KNOWN = Known(RECORDS, WIDTH, LOSS, frozenset())


@dataclass(frozen=True)
class MaskedRounds:
    """Masked rounds of gradient sums at a point where agent 0's canary pulls with all its slope.

    With ``keys`` the attacker has those of all other agents, and so reads what agent 0 says under its own noise; else
    those of the colluders, who keep silent, so that no sum is ever whole, and read the sums of the honest.
    """

    keys: bool
    rounds: int = 2
    agents: int = 5
    colluders: int = 1
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "scores"

    @property
    def name(self) -> str:
        """Who reads how many rounds of whom."""
        known = "all keys" if self.keys else f"{self.colluders} colluder{'s' * (self.colluders > 1)}"
        return f"masked sums of {self.agents} agents, {self.rounds} rounds, {known}"

    @cached_property
    def asked(self) -> GradientSum:
        """What the first round asks."""
        mu = gaussian_mu_left(Target(self.epsilon, self.delta))
        return GradientSum.costing(self._known(1), -far(WIDTH), mu / math.sqrt(self.rounds), GRID)

    def _known(self, number: int) -> Known:
        return KNOWN._replace(attempt=Attempt(number, tuple(range(self.agents)), self.colluders))

    @cached_property
    def contract(self) -> Contract:
        """For all rounds."""
        (event,) = self.asked.cost(self._known(1))
        return contract_for(self.epsilon, self.delta, ((event, self.rounds),), colluders=self.colluders)

    @cached_property
    def _keys(self) -> dict[int, MaskKey]:
        return {i: MaskKey() for i in range(self.agents)}

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the sum of all that the attacker reads, along the direction in which the canary pulls."""
        publics = {i: key.public for i, key in self._keys.items()}
        start = start_of(str(rng.integers(2**62)), "", publics)
        masks = {i: Masks(i, key, publics, start, self.colluders) for i, key in self._keys.items()}
        honest = range(1) if self.keys else range(self.agents - self.colluders)
        first = canary(world, WIDTH)
        doors = [door_of(_rows(first if i == 0 else 0.0 * first), self.contract, rng, masks[i]) for i in honest]
        read = np.zeros(WIDTH, dtype=np.int64)
        for number in range(1, self.rounds + 1):
            known = self._known(number)
            assert known.attempt is not None
            for at, _ in doors:
                at.attempt(*known.attempt[:2])
                read += answered(at, Ask(self.asked)).value
            for i in range(len(doors), self.agents):  # all masks add up to zero
                read += masks[i].words(known.attempt, self.asked.context(known), WIDTH)
        totals = doors[0][1].totals
        spent = totals.unmasked if self.keys else totals
        return Trial(-GRID * float(read[1]), totals if spent is None else spent)


def _rows(first: Vector) -> Vector:
    """One record, and others of zeros."""
    return np.vstack((first, np.zeros((RECORDS - 1, WIDTH))))
