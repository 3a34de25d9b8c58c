"""An agent's budget as a filter: nothing is drawn before its cost is known to fit (docs/privacy.md, Theorem 5)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from admmnet.errors import RunError
from admmnet.privacy import moments, proven, published, subsampled
from admmnet.privacy.conversion import (
    ORDERS,
    allowance,
    best_order,
    epsilon,
    loose_epsilon,
    loose_rho,
)
from admmnet.privacy.discrete import discrete_epsilon, discrete_mu, excess, most_excess
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    GammaNormVector,
    Gaussian,
    NoRecords,
    SubsampledGaussian,
)

SLACK = 1e-12
"""Relative slack of every comparison with a budget: k charges of budget/k exceed it in floating point."""


class Totals:
    """Running totals of an agent's charges under both accountants.

    Parameters
    ----------
    method : str
        The form of the method; only ``published`` ones have published costs.

    Attributes
    ----------
    rho, xi : float
        Proven zCDP totals.
    curve : ndarray of shape (601,)
        Proven Renyi curve at ``conversion.ORDERS``.
    mu_squared : float
        Sum of (sensitivity / sigma)^2 over Gaussian events, discrete or not; inf once there was another kind of event.
    kappa : float
        Sum of (P10) over discrete Gaussian events: how far they may be from Gaussian ones.
    rho_published : float or None
        Published total; None once an event has no published cost.
    alone : SubsampledGaussian, GammaNormVector or None
        The only event so far, if it is of a baseline's kinds: its epsilons have readings of their own.
    moments : callable
        Published epsilon of an event alone that is subsampled; another one in ledgers of before.
    unmasked : Totals or None
        The same events to those who know all masks; None where nothing was masked.
    colluders : int or None
        Least K of the masked events, up to which all other totals hold; None where nothing was masked.
    """

    def __init__(self, method: str = "published") -> None:
        self.method = method
        self.rho = 0.0
        self.xi = 0.0
        self.curve = np.zeros_like(ORDERS)
        self.mu_squared = 0.0
        self.kappa = 0.0
        self.rho_published: float | None = 0.0 if method == "published" else None
        self.alone: SubsampledGaussian | GammaNormVector | None = None
        self.moments = moments.epsilon
        self.unmasked: Totals | None = None
        self.colluders: int | None = None

    @classmethod
    def of(cls, charges: Iterable[tuple[Event, int]], method: str) -> Totals:
        """Totals of events with their counts."""
        total = cls(method)
        for event, count in charges:
            total.add(event, count)
        return total

    def claim(self, event: Event) -> float | None:
        """Published cost of an event, None where there is none."""
        return published.rho(event) if self.method == "published" else None

    def add(self, event: Event, count: int = 1) -> None:
        """Add the cost of an event, ``count`` times."""
        masked = isinstance(event, DiscreteGaussian) and event.parts > 1
        if isinstance(event, DiscreteGaussian) and event.parts > 1:
            self.colluders = (
                event.colluders if self.colluders is None else min(self.colluders, event.colluders)
            )
        if masked or self.unmasked is not None:
            self.unmasked = copy(self.unmasked or self)
            self.unmasked.add(event.alone if isinstance(event, DiscreteGaussian) else event, count)
        cost, claim = proven.cost(event), self.claim(event)
        first = not self.rho and count == 1
        self.alone = event if first and isinstance(event, SubsampledGaussian | GammaNormVector) else None
        self.rho = _plus(self.rho, count * cost.rho)
        self.xi = _plus(self.xi, count * cost.xi)
        lost = (self.curve + count * cost.curve == self.curve) & (cost.curve > 0.0)
        self.curve = np.where(lost, np.nextafter(self.curve, np.inf), self.curve + count * cost.curve)
        self.mu_squared = _plus(self.mu_squared, count * _mu_squared(event))
        self.kappa = _plus(self.kappa, count * _kappa(event))
        claimed = self.rho_published
        self.rho_published = None if claim is None or claimed is None else _plus(claimed, count * claim)

    def epsilon_proven(self, delta: float) -> float:
        """Epsilon of the events so far: an odometer reading (docs/privacy.md, Theorem 5); inf if unprotected.

        Exact where every event is Gaussian, eq. (P5), or nearly so, Theorem 19; else the best of the orders, eq. (P2).
        """
        if not self.rho:
            return 0.0
        renyi = epsilon(self.curve, delta)
        if isinstance(self.alone, SubsampledGaussian):
            return min(renyi, subsampled.epsilon_proven(self.alone, delta))
        if math.isfinite(self.mu_squared):
            return min(renyi, discrete_epsilon(math.sqrt(self.mu_squared), self.kappa, delta))
        return renyi

    def epsilon_unmasked(self, delta: float) -> float | None:
        """Epsilon if more than the colluders collude, or masks fail: Theorem 23 (B); None where nothing was masked."""
        return None if self.unmasked is None else self.unmasked.epsilon_proven(delta)

    def gaussian(self, epsilon: float, delta: float) -> bool:
        """Whether a filter of (mu^2, kappa) holds these: Gaussian events alone, kappa within its share (P11)."""
        return self.gaussian_only and self.kappa <= most_excess(epsilon, delta)

    @property
    def gaussian_only(self) -> bool:
        """Whether all events are Gaussian, discrete or not."""
        return math.isfinite(self.mu_squared)

    def epsilon_published(self, delta: float) -> float | None:
        """Published epsilon of the events so far, eq. (P3); of a baseline by its own paper's accounting."""
        if self.alone is not None and self.method == "published":
            if isinstance(self.alone, GammaNormVector):
                return self.alone.rate * self.alone.sensitivity  # pure epsilon, whatever delta is
            return self.moments(self.alone, delta)
        return None if self.rho_published is None else loose_epsilon(self.rho_published, delta)


def _plus(total: float, cost: float) -> float:
    """Return the sum, at least one unit in the last place above the total: no cost rounds to nothing."""
    return math.nextafter(total, math.inf) if cost > 0.0 and total + cost == total else total + cost


def _mu_squared(event: Event) -> float:
    near = isinstance(event, Gaussian | DiscreteGaussian | NoRecords)
    return 2.0 * proven.cost(event).rho if near else math.inf


def _kappa(event: Event) -> float:
    if not isinstance(event, DiscreteGaussian):
        return 0.0
    return excess(event.dimension, event.sigma / event.grid, event.parts)


@dataclass(frozen=True)
class Budget:
    """What an agent may spend, fixed before the first round.

    Parameters
    ----------
    epsilon, delta : float
        The promise.
    accountant : str
        ``proven`` compares Renyi divergences at one fixed order, or mu^2 and kappa where all is Gaussian;
        ``published`` compares rho with epsilon^2/(4 ln(1/delta)).
    order : int or None
        Index into ``conversion.ORDERS``, chosen at calibration; None where every event is Gaussian.
    planned : float
        What a plan known to keep the promise needs: never refused, though rounding in the limit may say so.
    kappa : float
        Without order, the most that kappa may come to; 0 where no Gaussian event is a discrete one.
    """

    epsilon: float
    delta: float
    accountant: str
    order: int | None = None
    planned: float = 0.0
    kappa: float = 0.0

    @classmethod
    def for_plan(cls, epsilon: float, delta: float, accountant: str, plan: Totals) -> Budget:
        """Budget whose one order is the best for the worst case that was planned."""
        if accountant == "published":
            return cls(epsilon, delta, accountant)
        if plan.gaussian(epsilon, delta):
            if plan.kappa:
                return cls(epsilon, delta, accountant, kappa=most_excess(epsilon, delta))
            kept = plan.epsilon_proven(delta) <= epsilon
            return cls(epsilon, delta, accountant, None, plan.mu_squared if kept else 0.0)
        order = best_order(plan.curve, delta)
        # Gaussian events whose kappa is too large are read at this order alone
        kept = not math.isfinite(plan.mu_squared) and plan.epsilon_proven(delta) <= epsilon
        return cls(epsilon, delta, accountant, order, float(plan.curve[order]) if kept else 0.0)

    @property
    def alpha(self) -> float | None:
        """The one Renyi order of the filter, None where there is none."""
        return float(ORDERS[self.order]) if self.accountant == "proven" and self.order is not None else None

    @property
    def most_mu(self) -> float:
        """Without order, the largest square root of mu^2: Theorem 19 at the whole kappa."""
        return discrete_mu(self.epsilon, self.delta, self.kappa)

    def affords(self, spent: Totals, events: Iterable[Event]) -> bool:
        """Whether the totals plus these events stay within the budget, slack 1e-12 relative."""
        need: float | None
        events = tuple(events)
        if self.accountant == "published" and any(
            isinstance(event, SubsampledGaussian | GammaNormVector) for event in events
        ):
            claim = Totals.of([(event, 1) for event in events], "published").epsilon_published(self.delta)
            return not spent.rho and claim is not None and claim <= self.epsilon * (1.0 + SLACK)
        if self.accountant == "published":
            limit = loose_rho(self.epsilon, self.delta)
            need = _sum(spent.rho_published, [spent.claim(event) for event in events])
        elif self.order is None:
            kappa = _sum(spent.kappa, [_kappa(event) for event in events])
            if kappa is None or kappa > self.kappa * (1.0 + SLACK):
                return False
            limit = self.most_mu**2
            need = _sum(spent.mu_squared, [_mu_squared(event) for event in events])
        else:
            limit, order = allowance(self.order, self.epsilon, self.delta), self.order
            costs = [float(proven.cost(event).curve[order]) for event in events]
            need = _sum(float(spent.curve[order]), costs)
        limit = max(limit, self.planned)
        return need is not None and math.isfinite(need) and need <= limit * (1.0 + SLACK)


def _sum(spent: float | None, costs: list[float] | list[float | None]) -> float | None:
    total = spent
    for cost in costs:
        total = None if cost is None or total is None else _plus(total, cost)
    return total


SHARED = 1024
"""States of totals, their lines and their affordances that agents with equal histories share."""


@lru_cache(maxsize=64)
def empty(method: str) -> Totals:
    """Totals of no event, shared: never to be added to."""
    return Totals(method)


@lru_cache(maxsize=SHARED)
def grown(totals: Totals, event: Event) -> Totals:
    """Totals with one more event, shared by all agents with this history: never to be added to."""
    more = copy(totals)
    more.add(event)
    return more


@lru_cache(maxsize=SHARED)
def _affords(budget: Budget, totals: Totals, events: tuple[Event, ...]) -> bool:
    return budget.affords(totals, events)


class MemoryLedger:
    """Guard of a budget whose charges are written nowhere; ``ledger.file.Ledger`` writes them, too.

    Parameters
    ----------
    budget : Budget or None
        What may be spent; None for methods without privacy.
    method : str
        As of ``Totals``.
    adjacency : str
        Relation of the promise.

    Attributes
    ----------
    totals : Totals
        Of what was charged, shared: never to be added to.
    events : int
        How many were charged.
    refused_at : int or None
        Round of the first refusal, after which nothing is afforded.
    """

    def __init__(self, budget: Budget | None, method: str, adjacency: str = "replace-one") -> None:
        self.totals, self.adjacency = empty(method), adjacency
        self.events = 0
        self.refused_at: int | None = None
        self._budget = budget

    @property
    def spent(self) -> Totals:
        """What the budget spans."""
        return self.totals

    def affords(self, events: Iterable[Event]) -> bool:
        """Whether these events still fit the budget; once something was refused, nothing does."""
        if self.refused_at is not None:
            return False
        return self._budget is None or _affords(self._budget, self.spent, tuple(events))

    def refuse(self, round: int) -> None:
        """Refuse every further charge, for good (docs/privacy.md, Theorem 5)."""
        if self.refused_at is None:
            self.refused_at = round

    def charge(self, round: int, *events: Event) -> None:
        """Book events that are about to be drawn.

        Raises
        ------
        RunError
            If the budget does not afford them (callers ask ``affords`` first).
        """
        if not self.affords(events):
            raise RunError(f"a charge in round {round} exceeds the budget")
        for event in events:
            self._book(round, event)

    def _book(self, round: int, event: Event) -> None:
        self.totals = grown(self.totals, event)
        self.events += 1
