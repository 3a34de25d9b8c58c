"""Gates and masked sums alone, asked through the door: mechanisms to audit.

The relation is replace-one. Public inputs are the auditor's, as docs/proofs.md, sec. 1, allows everybody else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from admmnet.auditing.audit import Audit, Reading, Trial, World, draw, judge
from admmnet.auditing.methods import COSINE, FAR, SINE, canary, far
from admmnet.holder import Ask, Door, Holder, Released
from admmnet.holder.answers import Known
from admmnet.holder.measurements import GradientNorm, GradientSum, HeldNorm
from admmnet.masking import Attempt, Masks, StartKey, start_of
from admmnet.privacy.calibrate import Target, gaussian_mu_left
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.privacy.conversion import gaussian_mu
from admmnet.privacy.events import AboveThreshold, Gaussian
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.types import Matrix
from tests.planned import contract_for

Mechanism = Any
"""Something that is run in two worlds: it has a ``name``, how it is read (``reading``), and ``draw``."""
RECORDS, GRID = 40, 2.0**-40
KNOWN = Known(RECORDS, 2, Logistic())
SENSITIVITY = GradientNorm(np.zeros(2), None, 1.0, 0.0).sensitivity(KNOWN)
"""Theorem 22."""


@dataclass(frozen=True, kw_only=True)
class Promised:
    """A budget."""

    epsilon: float = 4.0
    delta: float = 1e-5


@dataclass(frozen=True)
class Questions(Promised):
    """Questions of a gate with Gaussian noise, all at one point."""

    gate: Literal["gaussian", "joining"] = "gaussian"  # the same question, with a public vector added or without
    rounds: int = 1
    reading: Reading = "answers"

    @property
    def name(self) -> str:
        """Gate and questions."""
        return f"{self.gate} gate, {self.rounds} question{'s' * (self.rounds > 1)}"

    @cached_property
    def event(self) -> Gaussian:
        """What a question charges."""
        return Gaussian(SENSITIVITY, SENSITIVITY * math.sqrt(self.rounds) / gaussian_mu(self.epsilon, self.delta))

    @cached_property
    def contract(self) -> Contract:
        """For all questions."""
        return contract_for(self.epsilon, self.delta, ((self.event, self.rounds),))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: how many answers are yes."""
        # all others pull as the canary does: its replacement takes away twice its own share of the norm
        at, ledger = door(np.vstack((canary(world, 2), *[canary(1, 2)] * (RECORDS - 1))), self.contract, rng)
        pull = None if self.gate == "joining" else np.zeros(2)
        question = GradientNorm(-far(2), pull, self.event.sigma, 1.0 - COSINE * COSINE / RECORDS)
        yes = sum(isinstance(at.answer(Ask(question), 0), Released) for _ in range(self.rounds))
        return Trial(float(yes), ledger.totals)


@dataclass(frozen=True)
class HeldQuestions(Promised):
    """Questions of the gate with a held threshold: noes at a centre where the canary lowers the norm, then a yes."""

    noes: int = 3
    reading: Reading = "none"

    @property
    def name(self) -> str:
        """Gate and questions."""
        return f"held threshold, {self.noes + 1} questions"

    @cached_property
    def event(self) -> AboveThreshold:
        """What a start charges: its two parts as docs/proofs.md, Theorem 9, balances them."""
        first = self.epsilon / (1.0 + 2.0 ** (2.0 / 3.0))
        return AboveThreshold(SENSITIVITY, first, self.epsilon - first)

    @cached_property
    def contract(self) -> Contract:
        """For one start; epsilon is pure, so what is read at delta may be a little less."""
        return contract_for(self.epsilon, self.delta, ((self.event, 1),))

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: 1 if the last question alone has the answer yes."""
        # two groups pull against each other along e2; e3 - e4 says which of them is badly classified
        half = (RECORDS - 1) // 2
        others = [(0.0, COSINE, SINE, 0.0)] * half + [(0.0, -COSINE, 0.0, SINE)] * half
        rows = np.zeros((RECORDS, 4))
        rows[0], rows[1 : 1 + len(others)] = canary(world, 4), others
        at, ledger = door(rows, self.contract, rng)
        aside = FAR * np.array([0.0, 0.0, 1.0, -1.0])
        level = half / RECORDS  # between the norms of both worlds, at either centre
        numbers = np.zeros(4), level, self.event.epsilon_threshold, self.event.epsilon_query
        for _ in range(self.noes):
            if isinstance(at.answer(Ask(HeldNorm(aside - far(4), *numbers)), 0), Released):
                return Trial(0.0, ledger.totals)
        last = at.answer(Ask(HeldNorm(-aside - far(4), *numbers)), 0)
        return Trial(float(isinstance(last, Released)), ledger.totals)


@dataclass(frozen=True)
class MaskedRounds(Promised):
    """Masked rounds of gradient sums (Theorem 23) at a point where agent 0's canary pulls with all its slope.

    With ``keys`` the attacker has those of all other agents, and so reads what agent 0 says under its own noise; else
    those of the colluders, who keep silent, so that no sum is ever whole, and read the sums of the honest.
    """

    keys: bool
    rounds: int = 2
    agents: int = 5
    colluders: int = 1
    reading: Reading = "scores"

    @property
    def name(self) -> str:
        """Who reads how many rounds of whom."""
        known = "all keys" if self.keys else f"{self.colluders} colluder{'s' * (self.colluders > 1)}"
        return f"masked sums of {self.agents} agents, {self.rounds} rounds, {known}"

    def attempt(self, number: int) -> Attempt:
        """What the agents try in a round."""
        return Attempt(number, tuple(range(self.agents)), self.colluders)

    @cached_property
    def asked(self) -> GradientSum:
        """What every round asks."""
        mu = gaussian_mu_left(Target(self.epsilon, self.delta)) / math.sqrt(self.rounds)
        return GradientSum.costing(KNOWN._replace(attempt=self.attempt(1)), -far(2), mu, GRID)

    @cached_property
    def contract(self) -> Contract:
        """For all rounds."""
        (event,) = self.asked.cost(KNOWN._replace(attempt=self.attempt(1)))
        return contract_for(self.epsilon, self.delta, ((event, self.rounds),), colluders=self.colluders)

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        """Score: the sum of all that the attacker reads, along the direction in which the canary pulls."""
        keys = {i: StartKey() for i in range(self.agents)}
        publics = {i: key.public for i, key in keys.items()}
        start = start_of(str(rng.integers(2**62)), "", publics)
        masks = {i: Masks(i, key, publics, start, self.colluders) for i, key in keys.items()}
        rows = np.zeros((self.agents, RECORDS, 2))
        rows[0, 0] = canary(world, 2)
        honest = range(1 if self.keys else self.agents - self.colluders)
        doors = [door(rows[i], self.contract, rng, masks[i]) for i in honest]
        read = np.zeros(2, dtype=np.int64)
        for attempt in map(self.attempt, range(1, self.rounds + 1)):
            for at, _ in doors:
                at.attempt(*attempt[:2])
                read += at.answer(Ask(self.asked), 0).value
            for i in range(len(doors), self.agents):  # all masks add up to zero
                read += masks[i].words(attempt, self.asked.context(KNOWN._replace(attempt=attempt)), 2)
        totals = doors[0][1].totals
        return Trial(-GRID * float(read[1]), (self.keys and totals.unmasked) or totals)


def audit(mechanism: Mechanism, trials: int, delta: float, seed: int, confidence: float = 0.99) -> Audit:
    """So many trials in each world, judged."""
    worlds: tuple[World, World] = (0, 1)
    out, inside = (draw(mechanism, world, seed, range(trials), delta) for world in worlds)
    return judge(mechanism.name, mechanism.reading, out, inside, delta, confidence)


def door(
    rows: Matrix, contract: Contract, rng: np.random.Generator, masks: Masks | None = None
) -> tuple[Door, MemoryLedger]:
    """Door of these rows with labels +1, for the logistic loss, with fresh streams and a fresh guard."""
    ledger = MemoryLedger(contract)
    streams = AgentStreams(0, int(rng.integers(2**63)))
    return Door(Holder(rows, np.ones(len(rows))), 0, KNOWN.loss, ledger, streams, masks), ledger
