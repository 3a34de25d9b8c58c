"""An agent's budget as a filter: nothing is drawn before its cost is known to fit (docs/privacy.md, Theorem 5)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from admmnet.privacy import proven, published
from admmnet.privacy.conversion import ORDERS, allowance, best_order, epsilon, loose_epsilon, loose_rho
from admmnet.privacy.events import Event

SLACK = 1e-12
"""Relative slack of every comparison with a budget: k charges of budget/k exceed it in floating point."""


class Totals:
    """Running totals of an agent's charges under both accountants.

    Attributes
    ----------
    rho, xi : float
        Proven zCDP totals.
    curve : ndarray of shape (601,)
        Proven Renyi curve at ``conversion.ORDERS``.
    rho_published : float or None
        Published total; None once an event has no published cost.
    """

    def __init__(self) -> None:
        self.rho = 0.0
        self.xi = 0.0
        self.curve = np.zeros_like(ORDERS)
        self.rho_published: float | None = 0.0

    def add(self, event: Event, count: int = 1) -> None:
        """Add the cost of an event, ``count`` times."""
        cost, claim = proven.cost(event), published.rho(event)
        self.rho += count * cost.rho
        self.xi += count * cost.xi
        self.curve = self.curve + count * cost.curve
        claimed = self.rho_published
        self.rho_published = None if claim is None or claimed is None else claimed + count * claim

    def epsilon_proven(self, delta: float) -> float:
        """Epsilon of the events so far: an odometer reading (docs/privacy.md, Theorem 5); inf if unprotected."""
        if not self.rho:
            return 0.0
        return epsilon(self.curve, delta)

    def epsilon_published(self, delta: float) -> float | None:
        """Published epsilon of the events so far, eq. (P3)."""
        return None if self.rho_published is None else loose_epsilon(self.rho_published, delta)


@dataclass(frozen=True)
class Budget:
    """What an agent may spend, fixed before the first round.

    Parameters
    ----------
    epsilon, delta : float
        The promise.
    accountant : str
        ``proven`` compares Renyi divergences at one fixed order, ``published`` compares rho with
        epsilon^2/(4 ln(1/delta)).
    order : int
        Index into ``conversion.ORDERS``, chosen at calibration; unused under ``published``.
    """

    epsilon: float
    delta: float
    accountant: str
    order: int = 0

    @classmethod
    def for_plan(cls, epsilon: float, delta: float, accountant: str, plan: Totals) -> Budget:
        """Budget whose one order is the best for the worst case that was planned."""
        return cls(epsilon, delta, accountant, best_order(plan.curve, delta))

    def affords(self, spent: Totals, events: Iterable[Event]) -> bool:
        """Whether the totals plus these events stay within the budget, slack 1e-12 relative."""
        if self.accountant == "proven":
            limit = allowance(self.order, self.epsilon, self.delta)
            need = float(spent.curve[self.order])
            need += sum(float(proven.cost(event).curve[self.order]) for event in events)
        else:
            limit = loose_rho(self.epsilon, self.delta)
            costs = [published.rho(event) for event in events]
            if spent.rho_published is None or any(c is None for c in costs):
                return False
            need = spent.rho_published + sum(c for c in costs if c is not None)
        return math.isfinite(need) and need <= limit * (1.0 + SLACK)
