"""The filter of a budget: nothing is drawn before its cost is known to fit (docs/proofs.md, Theorem 5)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct, structs

from admmnet.privacy import subsampled
from admmnet.privacy.budget import SHARED, SLACK, Totals
from admmnet.privacy.conversion import ORDERS, allowance, best_order, epsilon_at_orders
from admmnet.privacy.conversion import epsilon as epsilon_of
from admmnet.privacy.discrete import discrete_epsilon, discrete_mu, most_excess
from admmnet.privacy.events import Booked, Event, Natural, Number, SubsampledGaussian

MOST_DRAWS = 2**40
"""Events, and draws of clipped noise, of an account: Theorem 5 and (V10) ask for a number that is never exceeded."""
SPARE = 10
"""Draws that a run may make, for each of its plan."""


class Reading(NamedTuple):
    """What charges come to: epsilon at the promise's delta, and plain zCDP; inf or None where there is none."""

    epsilon: float
    rho: float | None


class Filter(Struct, frozen=True, forbid_unknown_fields=True):
    """Theorem 5: a limit that was fixed before the first draw, in one of three currencies."""

    order: Annotated[float, Meta(gt=1.0)] | None
    """Renyi order of the sums; `null` where mu^2 and kappa are added up, or steps"""
    limit: Booked | None
    """most D_alpha at the order, or most mu^2; `null` of steps, and where nothing is proven"""
    kappa: Booked = 0.0
    """most that (P10) of discrete noise may be"""
    parts: Natural = 1
    """most agents less K of a masked sum, else 1"""
    steps: SubsampledGaussian | None = None
    """most steps on sampled batches, and nothing else"""
    draws: Number = MOST_DRAWS
    """most draws of noise that is scaled back where it is unlikely (V10)"""

    @classmethod
    def keeping(
        cls, epsilon: float, delta: float, order: int | None = None, kappa: float = 0.0, parts: int = 1
    ) -> Filter:
        """Return the filter that keeps (epsilon, delta) at an order, or by (mu^2, kappa), and takes any events."""
        if order is None:
            return cls(None, discrete_mu(epsilon, delta, kappa) ** 2, kappa, parts)
        return cls(float(ORDERS[order]), allowance(order, epsilon, delta), kappa, parts)

    @classmethod
    def of(cls, epsilon: float, delta: float, worst: Totals, parts: int = 1, *, account: bool = False) -> Filter:
        """Return the filter that suits a plan best, from public facts; of an ``account`` it takes other plans, too."""
        draws = MOST_DRAWS if account else SPARE * worst.draws
        if not worst.rho and not account:
            return cls(None, 0.0, draws=0)
        if worst.gaussian(epsilon, delta):
            kappa = most_excess(epsilon, delta) if account or worst.kappa_alone else 0.0
            mu = discrete_mu(epsilon, delta, kappa)
            least = min(kappa, most_excess(discrete_epsilon(math.sqrt(parts) * mu, 0.0, delta), delta))
            if 100.0 * worst.kappa_alone <= least:  # else the figure if all collude is infinite
                kappa = least
            return structs.replace(cls.keeping(epsilon, delta, None, kappa, parts), draws=draws)
        if isinstance(worst.alone, SubsampledGaussian) and not account:
            return cls(None, None, steps=worst.alone, draws=draws)
        return structs.replace(cls.keeping(epsilon, delta, best_order(worst.curve, delta), parts=parts), draws=draws)

    @classmethod
    def published(cls, delta: float, worst: Totals) -> Filter:
        """Return the filter of a plan that other arithmetic has made: its limit is all that the plan comes to."""
        draws = SPARE * worst.draws
        if isinstance(worst.alone, SubsampledGaussian):
            return cls(None, None, steps=worst.alone, draws=draws)
        gaussian = worst.epsilon_gaussian(delta) <= epsilon_of(worst.curve, delta)
        place = None if gaussian else best_order(worst.curve, delta)
        most = worst.at(place)
        return cls(None if place is None else float(ORDERS[place]), most if most < math.inf else None, draws=draws)

    def raised(self, epsilon: float, delta: float) -> Filter:
        """Return the filter of a further run, whose epsilon may be larger: kappa then falls to what that leaves it."""
        kappa = min(self.kappa, most_excess(epsilon, delta))
        return structs.replace(Filter.keeping(epsilon, delta, self.place, kappa, self.parts), draws=self.draws)

    @property
    def place(self) -> int | None:
        """Index of its order in ``conversion.ORDERS``."""
        return None if self.order is None else int(np.abs(ORDERS - self.order).argmin())

    @property
    def most_added(self) -> float:
        """Its limit, infinite where it has none."""
        return math.inf if self.limit is None else self.limit

    @property
    def gaussian(self) -> bool:
        """Whether (mu^2, kappa) is added up."""
        return self.order is None and self.steps is None

    def affords(self, spent: Totals, events: Iterable[Event] = ()) -> bool:
        """Whether totals, which are shared ones, plus these events stay within the limits, slack 1e-12 relative."""
        return _affords(self, spent, tuple(events))

    def used_up(self, spent: Totals, times: int = 1) -> Totals:
        """Totals after which nothing is left: events that nobody knows may have come to all that it lets through.

        What it does not add up is infinite. ``times`` more is it to those who know all masks.
        """
        full, limit, place = copy(spent), times * self.most_added, self.place
        full.rho, full.curve, full.alone = math.inf, np.full_like(ORDERS, math.inf), None
        if place is None:
            full.mu_squared, full.kappa = max(spent.mu_squared, limit), max(spent.kappa, self.kappa)
        else:
            full.mu_squared, full.curve[place] = math.inf, max(float(spent.curve[place]), limit)
        if self.parts > times:
            full.unmasked, full.colluders = self.used_up(spent.unmasked or spent, self.parts), spent.colluders or 0
        return full

    def most(self, delta: float, *, alone: bool = False) -> Reading:
        """All that it lets through, at a delta; ``alone`` to those who know all masks: Theorem 23 (B)."""
        if self.steps is not None:
            return Reading(subsampled.epsilon_proven(self.steps, delta), subsampled.rho(self.steps))
        limit = self.most_added * (self.parts if alone else 1)
        if self.place is None:
            epsilon = discrete_epsilon(math.sqrt(limit), self.kappa, delta) if limit else 0.0
            if alone:  # one agent's own noise has D_alpha <= alpha mu^2/2, too
                epsilon = min(epsilon, epsilon_of(0.5 * limit * ORDERS, delta))
            return Reading(epsilon, 0.5 * limit)
        return Reading(float(epsilon_at_orders(np.full_like(ORDERS, limit), delta)[self.place]), None)


@lru_cache(maxsize=SHARED)
def _affords(filter: Filter, spent: Totals, events: tuple[Event, ...]) -> bool:
    total = spent.plus(events)
    if total.draws > filter.draws:
        return False
    if filter.steps is not None:
        own, most = total.alone, filter.steps
        same = isinstance(own, SubsampledGaussian) and replace(own, steps=most.steps) == most
        return not total.rho or (same and own.steps <= most.steps)  # type: ignore[union-attr]
    if filter.gaussian and not total.kappa_alone <= filter.kappa * (1.0 + SLACK):
        return False
    limits = ((total, filter.most_added), (total.unmasked, filter.parts * filter.most_added))
    return all(one is None or one.at(filter.place) <= limit * (1.0 + SLACK) for one, limit in limits)
