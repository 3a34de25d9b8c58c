"""Attacks on masked sums: nobody reads what was not paid for (docs/proofs.md, Theorem 23)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import numpy as np

from admmnet.holder import Ask, Door, Holder, Released
from admmnet.holder.answers import Known
from admmnet.holder.measurements import GradientSum
from admmnet.holder.measurements.sums import gradient_sum
from admmnet.identity.keys import statement
from admmnet.masking import Attempt, _digest, partners_of, stream
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.types import Integers, Matrix, Vector
from tests.masking.crew import crew

LOSS = Logistic()
GRID, SIGMA, RECORDS, DELTA = 2.0**-28, 64.0, 4, 1e-4


class Crew:
    """So many agents with a few records each, who have agreed on keys."""

    def __init__(self, agents: int, width: int = 64, colluders: int = 1) -> None:
        rng = np.random.default_rng(0)
        self.width, self.masks = width, crew(agents, colluders=colluders)
        self.rows = rng.standard_normal((agents, RECORDS, width))
        self.rows /= np.linalg.norm(self.rows, axis=2, keepdims=True) * (1.0 + 1e-12)
        self.labels = rng.choice([-1.0, 1.0], (agents, RECORDS))
        self.ledgers = [MemoryLedger(Contract()) for _ in range(agents)]
        self.doors = [
            Door(Holder(self.rows[i], self.labels[i]), 0, LOSS, self.ledgers[i], AgentStreams(i, 0), self.masks[i])
            for i in range(agents)
        ]

    def answer(self, agent: int, members: Iterable[int], number: int = 1, **others: Any) -> Integers:
        """An honest agent's message in an attempt that asks this."""
        self.doors[agent].attempt(number, tuple(members))
        released = self.doors[agent].answer(Ask(self.asked(**others)), 0)
        assert isinstance(released, Released)
        return np.asarray(released.value)

    def asked(self, **others: Any) -> GradientSum:
        given: dict[str, Any] = {"here": np.zeros(self.width), "sigma": SIGMA, "grid": GRID}
        return GradientSum(**given | others)

    def known(self, members: Iterable[int], number: int = 1) -> Known:
        """Public facts, the same of all agents."""
        attempt = Attempt(number, tuple(members), self.masks[0].colluders)
        return Known(RECORDS, self.width, LOSS, attempt=attempt)

    def own_masks(self, colluder: int, members: Iterable[int], number: int = 1) -> Integers:
        """What a colluder knows of the masks of its partners: all that it would have added itself."""
        known = self.known(members, number)
        assert known.attempt is not None
        return self.masks[colluder].words(known.attempt, self.asked().context(known), self.width)

    def noise(self, read: Integers, agents: Iterable[int], here: Vector | None = None) -> Vector:
        """What is left of something that was read when these agents' records are taken off: small if it was read."""
        point = np.zeros(self.width) if here is None else here
        exact: Matrix = np.array([gradient_sum(self.rows[i], self.labels[i], point, LOSS) for i in agents])
        return np.asarray(read * GRID - exact.sum(axis=0))


def readable(noise: Vector) -> bool:
    """Whether something is a sum and noise: of uniform words a number is that small with probability 2^-30."""
    return bool(np.abs(noise).max() < 10.0 * SIGMA)


def test_a_silent_colluder_reads_the_sum_of_a_void_attempt() -> None:
    """Five rounds, each void once: whoever charged complete attempts alone would have paid for half of that."""
    network, honest, read = Crew(5), (0, 1, 2, 3), 10
    for number in range(1, read + 1):
        sent = np.sum([network.answer(i, range(5), number) for i in honest], axis=0)
        assert not readable(network.noise(sent, honest))  # to everybody else it is noise
        assert readable(network.noise(sent + network.own_masks(4, range(5), number), honest))
    spent, mu = (
        network.ledgers[0].totals,
        math.sqrt(read) * network.asked().sensitivity(network.known(range(5))) / SIGMA,
    )
    assert spent.epsilon_proven(DELTA) >= gaussian_epsilon(mu, DELTA)
    unmasked = Contract.reading(DELTA).spent(spent, alone=True)
    assert unmasked is not None
    assert unmasked >= gaussian_epsilon(2.0 * mu, DELTA)


def test_a_loss_beside_colluders_isolates_nobody() -> None:
    """Agent 0's partners on a circle of six are 1, which is lost, and 5, which colludes."""
    network, left = Crew(6), (0, 2, 3, 4, 5)
    own, known = network.masks[5], network.known(left)
    said = "masked sum", own._start, 1, own.colluders, _digest(left), network.asked().context(known)
    words = stream(own._pair(0), sha256(statement(*said)).digest(), network.width)
    sent = network.answer(0, left)
    for read in (sent - words.view(np.int64), sent + words.view(np.int64)):  # apart from what 5 shares with 4
        assert not readable(network.noise(read, [0]))


def test_after_a_loss_the_honest_still_have_all_the_noise() -> None:
    """Six agents, two collude, one is lost: with parts for six the three others would have 3/4 of the variance.

    Over 3,000 numbers the estimate is off by 2.6 %: a false alarm, or a miss, at five deviations, 6e-7.
    """
    network, left, honest = Crew(6, width=3000, colluders=2), (0, 1, 2, 4, 5), (0, 1, 2)
    told = [network.answer(i, left) for i in honest] + [network.own_masks(i, left) for i in (4, 5)]
    variance = float(np.mean(network.noise(np.sum(told, axis=0), honest) ** 2)) / SIGMA**2
    assert abs(variance - 1.0) < 0.13


def test_an_agent_that_is_told_another_model_is_heard_by_nobody() -> None:
    """At zero the logistic loss needs half the noise: the neighbours of who is told zero would lack the rest."""
    network, far = Crew(4, colluders=2), 300.0 * np.eye(64)[0]
    zero, there = (network.asked(here=point).sensitivity(network.known(range(4))) for point in (np.zeros(64), far))
    assert zero < 0.51 * there
    told = network.answer(0, range(4), sigma=SIGMA * zero / there)
    sent = told + np.sum([network.answer(i, range(4), here=far) for i in (1, 2, 3)], axis=0)
    exact = network.noise(sent, [0]) + network.noise(np.zeros(64, dtype=np.int64), [1, 2, 3], far)
    assert not readable(exact)


def test_an_agent_that_is_told_of_others_is_heard_by_nobody() -> None:
    """Told of a hundred participants agent 0 would add a hundredth of the noise; it has the same two partners."""
    network, few = Crew(100), (0, 1, 2, 99)
    assert partners_of(0, few, 1) == partners_of(0, tuple(range(100)), 1) == (1, 99)
    sent = network.answer(0, range(100)) + np.sum([network.answer(i, few) for i in (1, 2, 99)], axis=0)
    assert not readable(network.noise(sent, few))
