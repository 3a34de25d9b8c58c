"""Gates alone, asked through the door: mechanisms to audit.

The relation is replace-one. Public inputs are the auditor's, as docs/proofs.md, sec. 1, allows everybody else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from admmnet.auditing.audit import Reading, Trial
from admmnet.auditing.evidence import World
from admmnet.auditing.methods import COSINE, FAR, SINE, canary, far
from admmnet.holder import Ask, Released
from admmnet.holder.known import Known
from admmnet.holder.measurements import GradientNorm, HeldNorm
from admmnet.privacy.contract import Contract
from admmnet.privacy.conversion import gaussian_mu
from admmnet.privacy.events import AboveThreshold, Gaussian
from admmnet.types import Matrix
from tests.auditing.doors import LOSS, answered, door
from tests.planned import contract_for

RECORDS = 40


@dataclass(frozen=True)
class Questions:
    """Questions of a gate with Gaussian noise, all at one point."""

    gate: Literal["gaussian", "joining"] = "gaussian"  # the same question, with a public vector added or without
    rounds: int = 1
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "answers"

    @property
    def name(self) -> str:
        """Gate and questions."""
        return f"{self.gate} gate, {self.rounds} question{'s' * (self.rounds > 1)}"

    @cached_property
    def event(self) -> Gaussian:
        """What a question charges."""
        sensitivity = _sensitivity()
        return Gaussian(sensitivity, sensitivity * math.sqrt(self.rounds) / gaussian_mu(self.epsilon, self.delta))

    @cached_property
    def contract(self) -> Contract:
        """For all questions."""
        return contract_for(self.epsilon, self.delta, ((self.event, self.rounds),))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: how many answers are yes."""
        # all others pull as the canary does: its replacement takes away twice its own share of fall or norm
        at, ledger = door(world, np.tile(canary(1, 2), (RECORDS - 1, 1)), self.contract, rng)
        middle, sigma = 1.0 - COSINE * COSINE / RECORDS, self.event.sigma
        pull = None if self.gate == "joining" else np.zeros(2)
        question = GradientNorm(-far(2), pull, sigma, middle)
        yes = sum(isinstance(answered(at, Ask(question)), Released) for _ in range(self.rounds))
        return Trial(float(yes), ledger.totals)


@dataclass(frozen=True)
class HeldQuestions:
    """Questions of the gate with a held threshold: noes at a centre where the canary lowers the norm, then a yes."""

    noes: int = 3
    epsilon: float = 4.0
    delta: float = 1e-5
    reading: Reading = "none"

    @property
    def name(self) -> str:
        """Gate and questions."""
        return f"held threshold, {self.noes + 1} questions"

    @cached_property
    def event(self) -> AboveThreshold:
        """What a start charges: its two parts as docs/proofs.md, Theorem 9, balances them."""
        first = self.epsilon / (1.0 + 2.0 ** (2.0 / 3.0))
        return AboveThreshold(_sensitivity(), first, self.epsilon - first)

    @cached_property
    def contract(self) -> Contract:
        """For one start; epsilon is pure, so what is read at delta may be a little less."""
        return contract_for(self.epsilon, self.delta, ((self.event, 1),))

    @cached_property
    def others(self) -> Matrix:
        """Two groups that pull against each other along e2; e3 - e4 says which of them is badly classified."""
        half = (RECORDS - 1) // 2
        up, down = (0.0, COSINE, SINE, 0.0), (0.0, -COSINE, 0.0, SINE)
        return np.array([up] * half + [down] * half + [(0.0,) * 4] * (RECORDS - 1 - 2 * half))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: 1 if the last question alone has the answer yes."""
        at, ledger = door(world, self.others, self.contract, rng)
        aside = FAR * np.array([0.0, 0.0, 1.0, -1.0])
        level = ((RECORDS - 1) // 2) / RECORDS  # between the norms of both worlds, at either centre
        numbers = np.zeros(4), level, self.event.epsilon_threshold, self.event.epsilon_query
        for _ in range(self.noes):
            if isinstance(answered(at, Ask(HeldNorm(aside - far(4), *numbers))), Released):
                return Trial(0.0, ledger.totals)
        last = answered(at, Ask(HeldNorm(-aside - far(4), *numbers)))
        return Trial(float(isinstance(last, Released)), ledger.totals)


def _sensitivity() -> float:
    """Theorem 22."""
    return GradientNorm(np.zeros(2), None, 1.0, 0.0).sensitivity(Known(RECORDS, 2, LOSS, frozenset()))
