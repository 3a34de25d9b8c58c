"""What methods share that add up noisy integer vectors of the agents' records: docs/methods.md, eqs. (70), (71)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known
from admmnet.holder.measurements.sums import MOST_STEPS, OnGrid
from admmnet.masking import Attempt, check_participants
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks, Told
from admmnet.methods.base import Facts, Method, filled
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy.budget import SHARED
from admmnet.privacy.calibrate import Target, gaussian_mu_left
from admmnet.privacy.events import DiscreteGaussian, Event
from admmnet.types import Integers, Matrix, Vector

if TYPE_CHECKING:
    from admmnet.privacy.network.shifts import TreeFlow

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
    maskable = True
    losses: ClassVar[dict[str, str]]
    """Loss of every task where the settings leave it open."""

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(filled(settings, regularisation=0.0, loss=self.losses[facts.task]), facts)
        if self.masked:
            check_participants(self.first.participants, self.colluders)
        self.planned = lru_cache(maxsize=SHARED)(self._planned)

    @classmethod
    def with_loss(cls, settings: Given) -> Given:
        """The labels' kind decides, once it is known."""
        return settings

    def unit(self) -> OnGrid:
        """What an agent is asked at the point zero, with noise 1."""
        raise NotImplementedError

    def costing(self, known: Known, point: Vector, ratio: float) -> OnGrid:
        """What an agent is asked at a public point, if it has one, with sensitivity over noise at most ``ratio``."""
        return replace(self.unit(), grid=self.grid).at_ratio(known, ratio)  # type: ignore[type-var]

    @property
    def masked(self) -> bool:
        """Whether sums are masked: what it plans and asks for; the door masks by the contract."""
        return bool(self.settings.trust == "masked")

    @property
    def colluders(self) -> int:
        """K of its plan: how many other agents may collude."""
        return int(self.settings.colluders or 0)

    @property
    def largest(self) -> float:
        """What no number of a total exceeds, in steps of the grid; its noise is far below 2^55."""
        return 1.01 * self.facts.records * self.unit().longest(self.known(1)) / self.grid + 2.0**55

    @property
    def first(self) -> Attempt:
        """First attempt at a masked sum."""
        return Attempt(1, tuple(sorted(self.facts.counts)), self.colluders)

    @cached_property
    def sum_size(self) -> int:
        """Numbers of what an agent is asked."""
        return self.unit().dimension(self.known(1))

    def records_of(self, agents: tuple[int, ...]) -> int:
        """Records of these agents together."""
        return sum(self.facts.counts[i] for i in agents)

    def noise_of(self, agents: Collection[int]) -> float:
        """Variance of these agents' total, for a sensitivity of 1 and one round: eqs. (70), (98)."""
        return total_variance(self.facts, agents, self.colluders if self.masked else None)

    def flow(self, events: Mapping[int, Sequence[Event]]) -> TreeFlow | None:
        """Eq. (N1) of docs/network-ledger.md; masked sums have figures of their own."""
        from admmnet.privacy.network.shifts import TreeFlow

        found = [[one for one in events[i] if isinstance(one, DiscreteGaussian)] for i in sorted(events)]
        if self.masked or any(len(own) != self.rounds or len(own) != len(events[i]) for i, own in enumerate(found)):
            return None
        moved = np.array([[one.sensitivity for one in own] for own in found]).T
        noise = np.array([[one.sigma for one in own] for own in found]).T
        return TreeFlow(moved, noise, self.grid, self.sum_size)

    def notes(self) -> tuple[str, ...]:
        """Whose budget makes the noise of masked sums more than twice what that of half of the agents would."""
        if not self.masked:
            return ()
        nominal = self.facts.nominal
        least = min(nominal, key=nominal.__getitem__)
        more = math.sqrt(median(nominal.values()) / nominal[least])
        if more <= 2.0:
            return ()
        return (
            f"all add noise to masked sums for agent {least}, which reports the least budget left: "
            f"{more:.3g} times the noise that the median budget needs",
        )

    @cached_property
    def _least(self) -> float:
        """Least noise of any agent, from the largest budget of them.

        Of budgets on accounts not from what is left by (19): (P5) leaves many times that where most is spent.
        """
        whole = [Target(*budget).nominal_rho() for budget in {self.settings.budget_of(i) for i in self.facts.counts}]
        # more than (P5) makes of any of the budgets
        mu = 2.0 * math.sqrt(2.0 * max(*whole, *self.facts.nominal.values()))
        parts = len(self.facts.counts) - self.colluders if self.masked else 1
        return self.unit().moved(self.known(1)) * math.sqrt(self.rounds / parts) / mu

    @cached_property
    def fits(self) -> bool:
        """Whether a sum over all records, by their owners' words, fits 64 bits on the grid."""
        return self.facts.records * self.unit().longest(self.known(1)) / self._finest < MOST_STEPS / 2.0

    @property
    def _finest(self) -> float:
        return math.ldexp(FINEST, math.floor(math.log2(self._least)))

    @cached_property
    def grid(self) -> float:
        """Common grid, eq. (71), public, the same everywhere; RequestError if it does not fit."""
        if not self.fits:
            raise RequestError(
                f"sums over {self.facts.records:,} records do not fit 64 bits with noise of {self._least:.2g} and "
                "less: lower --epsilon, or raise --rounds"
            )
        return self._finest

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent: the sums share mu^2 equally (docs/proofs.md, Theorems 5(b), 19)."""
        known = self.known(self.facts.counts[agent])
        mu = gaussian_mu_left(target, self.rounds * self.unit().dimension(known))
        return self.planned(known.records, mu / math.sqrt(self.rounds))

    def _planned(self, records: int, ratio: float) -> AgentPlan:
        """Plan of an agent of so many records whose sums have this sensitivity over noise each."""
        known = self.known(records)
        if self.masked:
            known = known._replace(attempt=self.first)
        # unrounded: its ratio bounds that of every question
        (event,) = self.costing(known, np.zeros(self.size), ratio).cost(known)
        return AgentPlan(noise=ratio, charges=((event, self.rounds),))

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (70): the agents' noisy sums."""
        return (yield from self.summands(agents, np.zeros(0)))

    def summands(self, agents: Agents, point: Vector) -> Asking[Told]:
        """Eq. (70) or (97): what the agents add to a sum at a public point; nothing once a budget refuses."""
        made = cache(lambda records, ratio: self.costing(self.known(records), point, ratio))
        counts, noise = self.facts.counts, [plan.noise for plan in agents.plans]
        if self.masked:
            return (yield Asks([self._common(point, ratio) for ratio in noise[:1]] * len(noise)))
        return (yield Asks([made(counts[i], ratio) for i, ratio in zip(agents.ids, noise, strict=True)]))

    def _common(self, point: Vector, ratio: float) -> OnGrid:
        """What all participants are asked, eq. (97): the largest agent's sensitivity, the strictest one's ratio.

        Its noise is rounded up: the last bits differ between processors.
        """
        known = self.known(max(self.facts.counts.values()))._replace(attempt=self.first)
        asked: Any = self.costing(known, point, ratio)
        fraction, power = math.frexp(asked.sigma)
        found: OnGrid = replace(asked, sigma=math.ldexp(float(math.ceil(fraction * 2.0**24)), power - 24))
        return found


def total_variance(facts: Facts, agents: Collection[int], colluders: int | None) -> float:
    """Variance of agents' total for a sensitivity of 1 and one round, eq. (70); masked against K, eq. (98)."""
    each = [1.0 / (2.0 * facts.nominal[i]) for i in agents]
    return sum(each) if colluders is None else max(each) * len(each) / (len(each) - colluders)


def moments(value: Integers, grid: float, width: int, rows: int = 1) -> tuple[Matrix, Matrix]:
    """Sums of y x, shape (rows, d), and of x x^T, shape (d, d), from integers of ``MomentSum`` or their total.

    Of ``SecondMoments`` with ``rows=0``. The noise of the second is symmetric, of sigma off the diagonal and sqrt 2
    sigma on it.
    """
    numbers = value * grid
    first, rest = numbers[: rows * width].reshape(rows, width), numbers[rows * width :]
    second = np.zeros((width, width))
    second[np.triu_indices(width)] = rest
    above = np.triu(second, 1)
    return np.asarray(first), np.asarray(above + above.T + np.diag(np.diag(second) * math.sqrt(2.0)))
