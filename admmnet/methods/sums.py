"""What methods share that add up noisy integer vectors of the agents' records: docs/algorithms.md, eqs. (70), (71)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.known import Known
from admmnet.holder.measurements.sums import MOST_STEPS, OnGrid
from admmnet.methods.base import AgentPlan, Facts, Method, filled
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy.calibrate import Target, gaussian_mu_left
from admmnet.types import Vector

FINEST = 2.0**-30
"""The grid over the least noise of any agent is at most this, eq. (71)."""


class SumMethod(Method):
    """Agents release noisy sums over their records; all know the total, so all hold the same model.

    How the records are split makes no difference to the total but for its noise: sums of gradients and of moments
    are sums over records.
    """

    verb = "reduce"
    forms = ("proven",)
    tasks = frozenset({"binary", "classes", "real"})
    clipped = False
    losses: ClassVar[dict[str, str]]
    """Loss of every task where the settings leave it open."""

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(filled(settings, regularisation=0.0, loss=self.losses[facts.task]), facts)

    @classmethod
    def with_loss(cls, settings: Given) -> Given:
        """The labels' kind decides, once it is known."""
        return settings

    def unit(self) -> OnGrid:
        """What an agent is asked at the point zero, with noise 1."""
        raise NotImplementedError

    def costing(self, known: Known, point: Vector, ratio: float) -> OnGrid:
        """What an agent is asked at a public point, with sensitivity over noise at most ``ratio``."""
        raise NotImplementedError

    @cached_property
    def sum_size(self) -> int:
        """Numbers of what an agent is asked."""
        return self.unit().dimension(self.known(1))

    @property
    def records(self) -> int:
        """Records of all agents, each by its owner's word."""
        return sum(self.facts.counts.values())

    @property
    def inverse_budgets(self) -> float:
        """Sum over agents of 1 / mu_i^2, from their nominal budgets: the total's noise follows, eq. (70)."""
        return sum(1.0 / (2.0 * rho) for rho in self.facts.nominal.values())

    @cached_property
    def grid(self) -> float:
        """Common grid, eq. (71), from the largest budget of any agent: public, the same everywhere.

        Raises
        ------
        RequestError
            If a sum over all records would not fit 64 bits on it.
        """
        known, unit = self.known(1), self.unit()
        mu = 2.0 * math.sqrt(
            2.0 * max(self.facts.nominal.values())
        )  # more than (P5) makes of any of the budgets
        least = unit.moved(known) * math.sqrt(self.rounds) / mu
        grid = math.ldexp(FINEST, math.floor(math.log2(least)))
        if not self.records * unit.longest(known) / grid < MOST_STEPS / 2.0:
            raise RequestError(
                f"sums over {self.records:,} records do not fit 64 bits with noise of {least:.2g} and less: lower "
                "--epsilon, or raise --rounds"
            )
        return grid

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent: the rounds share mu^2 equally (docs/privacy.md, Theorems 5(b), 19)."""
        known = self.known(self.facts.counts[agent])
        mu = gaussian_mu_left(target, self.rounds * self.unit().dimension(known))
        ratio = mu / math.sqrt(self.rounds)
        (event,) = self.costing(known, np.zeros(self.size), ratio).cost(known).now
        return AgentPlan(noise=ratio, charges=((event, self.rounds),))
