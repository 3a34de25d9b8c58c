"""Filters of a budget: nothing is drawn before its cost is known to fit (docs/proofs.md, Theorems 5 and 25)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.privacy import events as kinds
from admmnet.privacy.budget import SHARED, SLACK, Charges, Totals, excess_of
from admmnet.privacy.conversion import ORDERS, allowance, best_order, epsilon_at_orders
from admmnet.privacy.discrete import discrete_epsilon, discrete_mu, most_excess
from admmnet.privacy.events import DiscreteGaussian, Event, NoRecords, parameters
from admmnet.privacy.proven import gaussian_mu_squared

HEADROOM = 2.0
"""What (P10) of all questions may come to, over that of the plan: a question's noise moves with the point."""


class Uncovered(RequestError):
    """A question that no planned event covers, whatever is left."""


class Reading(NamedTuple):
    """What charges come to: epsilon at the promise's delta, and plain zCDP; inf or None where there is none."""

    epsilon: float
    rho: float | None


def _bounds(event: Event) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """What a covered event has equal, and what it has not larger: the table of Theorem 25."""
    match event:
        case kinds.Gaussian():
            claimed = event.objective_sensitivity, event.objective_sigma, event.noise_share
            return claimed, (event.sensitivity / event.sigma,)
        case kinds.DiscreteGaussian():
            ratio = event.sensitivity / event.sigma
            return (event.colluders,), (ratio, float(event.dimension), float(event.agents))
        case kinds.ObjectivePerturbation():
            same = event.records, event.logistic, event.gated, event.noise_share, event.one_sided
            ratio, mu_squared = event.sensitivity / event.sigma, gaussian_mu_squared(event)
            return same, (ratio, event.curvature / event.convexity, event.sensitivity, mu_squared)
        case kinds.GammaNorm():
            kind = event.records, event.dimension, event.logistic, event.penalty
            slope = event.sensitivity * event.rate
            return kind, (slope, event.curvature / event.convexity, event.curvature)
        case kinds.GammaNormVector():
            return (event.dimension,), (event.sensitivity * event.rate,)
        case kinds.Laplace():
            return (event.gate_epsilon,), (event.sensitivity / event.scale,)
        case kinds.AboveThreshold():
            return (), (event.epsilon_threshold, event.epsilon_query)
        case kinds.SubsampledGaussian():
            return (event.sampling,), (event.rate, float(event.steps), 1.0 / event.noise_multiplier)
    return (), ()


@lru_cache(maxsize=4 * SHARED)
def covers(planned: Event, event: Event) -> bool:
    """Whether a planned event bounds another one: Theorem 25's table, numbers within 1e-12 relative."""
    if type(planned) is not type(event):
        return False
    (equal, most), (own, numbers) = _bounds(planned), _bounds(event)
    return equal == own and all(number <= bound * (1.0 + SLACK) for number, bound in zip(numbers, most, strict=True))


@lru_cache(maxsize=SHARED)
def _kappa(spent: Totals, events: tuple[Event, ...]) -> float:
    return spent.kappa_alone + sum(excess_of(alone_of(event)) for event in events)


Left = tuple[int, ...]
"""How often each planned event may still be charged."""


@dataclass(frozen=True)
class Count:
    """These events, at most so often, and nothing else: Theorem 25."""

    planned: Charges
    """Bounds on events, and how often each may be charged."""
    kappa: float = 0.0
    """Most that (P10) of discrete Gaussian events may come to, each alone; inf where their curves are read."""

    @classmethod
    def of(cls, planned: Charges, epsilon: float, delta: float) -> Count:
        """Return the filter of a plan, read by (mu^2, kappa) where its kappa fits its share, (P11)."""
        planned = tuple((event, count) for event, count in planned if count)
        kappa = HEADROOM * sum(count * excess_of(alone_of(event)) for event, count in planned)
        return cls(planned, kappa if kappa <= most_excess(epsilon, delta) else math.inf)

    def __hash__(self) -> int:
        """Of next to nothing: equal filters are mostly one object."""
        return hash((len(self.planned), self.kappa))

    @property
    def whole(self) -> Left:
        """Counts before the first charge."""
        return tuple(count for _, count in self.planned)

    def take(self, left: Left, events: tuple[Event, ...]) -> Left | None:
        """Return what is left after events, each charged to the cheapest planned event that covers it; None if used up.

        Uncovered if no planned event covers one, at any count.
        """
        return _taken(self, left, events)

    def affords(self, left: Left, spent: Totals, events: tuple[Event, ...]) -> bool:
        """Whether events fit what is left, and (P10) of them its limit; errors as of ``take``."""
        if self.take(left, events) is None:
            return False
        return math.isinf(self.kappa) or _kappa(spent, events) <= self.kappa * (1.0 + SLACK)


@lru_cache(maxsize=SHARED)
def _taken(filter: Count, left: Left, events: tuple[Event, ...]) -> Left | None:
    now: list[int] | None = list(left)
    for event in events:
        if isinstance(event, NoRecords):
            continue
        places = _covering(filter, event)
        if not places:
            plan = "; ".join(f"{one.mechanism} ({_numbers(one)}) {count} times" for one, count in filter.planned)
            raise Uncovered(
                f"asks {event.mechanism} ({_numbers(event)}), which no planned event covers; the plan has "
                f"{plan or 'nothing'}: say it in plan(), or say adaptive = True"
            )
        place = next((i for i in places if now is not None and now[i] > 0), None)
        if now is None or place is None:
            now = None  # an uncovered event behind it is still told
            continue
        now[place] -= 1
    return None if now is None else tuple(now)


@lru_cache(maxsize=4 * SHARED)
def _covering(filter: Count, event: Event) -> tuple[int, ...]:
    """Places of the planned events that cover an event: an equal one first, then by their cost."""
    found = [(i, planned) for i, (planned, _) in enumerate(filter.planned) if covers(planned, event)]
    costs = {i: (planned != event, Totals.of([(planned, 1)], "proven").rho) for i, planned in found}
    return tuple(sorted(costs, key=lambda i: (*costs[i], i)))


def _numbers(event: Event) -> str:
    """Parameters in words, sigma as what it is to the sensitivity."""
    values = parameters(event)
    if "sigma" in values:
        values = {"sensitivity/sigma": values.pop("sensitivity") / values.pop("sigma"), **values}
    words = ((name, f"{value:.6g}" if isinstance(value, float) else value) for name, value in values.items())
    return ", ".join(name if value is True else f"{name} {value}" for name, value in words)


def alone_of(event: Event) -> Event:
    """Event as it is to those who know all masks: Theorem 23 (B)."""
    return event.alone if isinstance(event, DiscreteGaussian) and event.parts > 1 else event


@dataclass(frozen=True)
class Spend:
    """Theorem 5's filter: what is added up stays below a limit that was fixed before the first round."""

    epsilon: float
    delta: float
    """What it keeps."""
    order: int | None = None
    """Index into ``conversion.ORDERS``; None where (mu^2, kappa) is added up."""
    kappa: float = 0.0
    """Without order, the most that (P10) may come to; 0 where no Gaussian event is a discrete one."""
    parts: int = 1
    """Largest N - K of masked sums that it takes, 1 for none: what limits the cost if all collude."""

    @classmethod
    def of(cls, epsilon: float, delta: float, worst: Totals, parts: int = 1) -> Spend:
        """Return the filter that suits a plan best, its order or kappa fixed from public facts."""
        if not worst.gaussian(epsilon, delta):
            return cls(epsilon, delta, best_order(worst.curve, delta), parts=parts)
        kappa = most_excess(epsilon, delta)
        mu = discrete_mu(epsilon, delta, kappa)
        least = min(kappa, most_excess(discrete_epsilon(math.sqrt(parts) * mu, 0.0, delta), delta))
        if 100.0 * worst.kappa_alone <= least:  # else the figure if all collude is infinite
            kappa = least
        return cls(epsilon, delta, None, kappa, parts)

    def raised(self, epsilon: float) -> Spend:
        """Return the filter of a further run, whose epsilon may be larger: kappa then falls to what that leaves it."""
        return replace(self, epsilon=epsilon, kappa=min(self.kappa, most_excess(epsilon, self.delta)))

    @property
    def alpha(self) -> float | None:
        """The one Renyi order, None where there is none."""
        return None if self.order is None else float(ORDERS[self.order])

    @property
    def limit(self) -> float:
        """Most D_alpha at the order, or most mu^2."""
        if self.order is None:
            return discrete_mu(self.epsilon, self.delta, self.kappa) ** 2
        return allowance(self.order, self.epsilon, self.delta)

    def affords(self, spent: Totals, events: Iterable[Event]) -> bool:
        """Whether totals, which are shared ones, plus these events stay within the limit, slack 1e-12 relative."""
        return _spends(self, spent, tuple(events))

    def used_up(self, spent: Totals, times: int = 1) -> Totals:
        """Totals after which nothing is left: events that nobody knows may have come to all that it lets through.

        What it does not add up is infinite. ``times`` more is it to those who know all masks.
        """
        full, limit = copy(spent), times * self.limit
        full.rho, full.curve, full.alone = math.inf, np.full_like(ORDERS, math.inf), None
        if self.order is None:
            full.mu_squared, full.kappa = max(spent.mu_squared, limit), max(spent.kappa, self.kappa)
        else:
            full.mu_squared, full.curve[self.order] = math.inf, max(float(spent.curve[self.order]), limit)
        if self.parts > times:
            full.unmasked, full.colluders = self.used_up(spent.unmasked or spent, self.parts), spent.colluders or 0
        return full

    def most(self, *, alone: bool = False) -> Reading:
        """All that it lets through; ``alone`` to those who know all masks: Theorem 23 (B)."""
        times = float(self.parts) if alone else 1.0
        if self.order is None:
            epsilon = discrete_epsilon(math.sqrt(times * self.limit), self.kappa, self.delta)
            return Reading(epsilon if alone else self.epsilon, 0.5 * times * self.limit)
        curve = np.full_like(ORDERS, times * self.limit)
        found = float(epsilon_at_orders(curve, self.delta)[self.order])
        return Reading(found if alone else self.epsilon, None)


@lru_cache(maxsize=SHARED)
def _spends(filter: Spend, spent: Totals, events: tuple[Event, ...]) -> bool:
    total = spent.plus(events)
    if filter.order is None and total.kappa_alone > filter.kappa * (1.0 + SLACK):
        return False
    limits = ((total, filter.limit), (total.unmasked, filter.parts * filter.limit))
    needs = [
        (one.mu_squared if filter.order is None else float(one.curve[filter.order]), limit)
        for one, limit in limits
        if one is not None
    ]
    return all(math.isfinite(need) and need <= limit * (1.0 + SLACK) for need, limit in needs)
