"""Totals of what was charged, under both accountants (docs/proofs.md, sec. 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.privacy import moments, proven, published, subsampled
from admmnet.privacy.conversion import ORDERS, epsilon, loose_epsilon
from admmnet.privacy.discrete import discrete_epsilon, excess, most_excess
from admmnet.privacy.events import DiscreteGaussian, Event, GammaNormVector, NoRecords, SubsampledGaussian, Unprotected

SLACK = 1e-12
"""Relative slack of every comparison with a budget: k charges of budget/k exceed it in floating point."""
Charges = tuple[tuple[Event, int], ...]
"""Events and how often."""
COARSE = 4
"""Bits of a number of sampled steps that a running figure is read at, rounded up: few readings, each a transform."""


class Totals:
    """Running totals of an agent's charges under both accountants.

    Parameters
    ----------
    method : str
        The form of the method; only ``published`` ones have published costs.

    Attributes
    ----------
    rho : float
        Proven zCDP total.
    curve : ndarray of shape (601,)
        Proven Renyi curve at ``conversion.ORDERS``.
    mu_squared : float
        Sum of mu^2 over events that a Gaussian one dominates, but for kappa; inf once there was another kind of event.
    kappa : float
        Sum of (P10) over discrete Gaussian events: how far they may be from Gaussian ones.
    draws : int
        Draws of noise that is clipped, (V10).
    rho_published : float or None
        Published total; None once an event has no published cost.
    alone : SubsampledGaussian, GammaNormVector or None
        All events so far as one, where they are steps on sampled batches of one kind, or a single ``GammaNormVector``:
        its epsilons have readings of their own.
    unmasked : Totals or None
        The same events to those who know all masks; None where nothing was masked.
    colluders : int or None
        Least K of the masked events, up to which all other totals hold; None where nothing was masked.
    """

    def __init__(self, method: str = "published") -> None:
        self.method = method
        self.rho = 0.0
        self.curve = np.zeros_like(ORDERS)
        self.mu_squared = 0.0
        self.kappa = 0.0
        self.draws = 0
        self._lost = 0.0, np.zeros_like(ORDERS)  # rounding of the sums of mu^2 and of the curve
        self.rho_published: float | None = 0.0 if method == "published" else None
        self.alone: SubsampledGaussian | GammaNormVector | None = None
        self.unmasked: Totals | None = None
        self.colluders: int | None = None

    @classmethod
    def of(cls, charges: Iterable[tuple[Event, int]], method: str) -> Totals:
        """Totals of events with their counts; an event of count 0 is none, whatever it costs."""
        total = cls(method)
        for event, count in charges:
            if count:
                total.add(event, count)
        return total

    def claim(self, event: Event) -> float | None:
        """Published cost of an event, None where there is none."""
        return published.rho(event) if self.method == "published" else None

    @np.errstate(all="ignore")  # whatever a method has set
    def add(self, event: Event, count: int = 1) -> None:
        """Add the cost of an event, ``count`` times."""
        if masked := isinstance(event, DiscreteGaussian) and event.parts > 1:
            self.colluders = min(event.colluders, event.colluders if self.colluders is None else self.colluders)
        if masked or self.unmasked is not None:
            self.unmasked = copy(self.unmasked or self)
            self.unmasked.add(event.alone if isinstance(event, DiscreteGaussian) else event, count)
        cost, claim = proven.cost(event), self.claim(event)
        self.alone = joined(self.alone, event, count, fresh=not self.rho)
        self.rho = _plus(self.rho, count * cost.rho)
        before = self.mu_squared, self.curve
        lost = (self.curve + count * cost.curve == self.curve) & (cost.curve > 0.0)
        self.curve = np.where(lost, np.nextafter(self.curve, np.inf), self.curve + count * cost.curve)
        mu_squared = count * proven.gaussian_mu_squared(event)
        self.mu_squared = _plus(self.mu_squared, mu_squared)
        after = self.mu_squared, self.curve
        self._lost = tuple(map(_rounding, self._lost, before, (mu_squared, count * cost.curve), after))
        self.draws += count * draws_of(event)
        self.kappa = _plus(self.kappa, count * excess_of(event))
        claimed = self.rho_published
        self.rho_published = None if claim is None or claimed is None else _plus(claimed, count * claim)

    def plus(self, events: Iterable[Event]) -> Totals:
        """Return the totals with these events added."""
        more = copy(self)
        for event in events:
            more.add(event)
        return more

    def epsilon_proven(self, delta: float, *, coarse: bool = False) -> float:
        """Epsilon of the events so far: an odometer reading (docs/proofs.md, Theorem 5); inf if unprotected.

        The best of the orders, eq. (P2), or less: by (mu^2, kappa) where every event has them; of steps on sampled
        batches by their loss distribution. ``coarse`` reads a number of steps rounded up.
        """
        if not self.rho:
            return 0.0
        renyi = epsilon(self.curve, delta)
        if isinstance(self.alone, SubsampledGaussian):
            whole, steps = self.alone, self.alone.steps
            if coarse and (unit := 1 << max(0, steps.bit_length() - COARSE)) > 1:
                whole = replace(whole, steps=-(-steps // unit) * unit)
            return min(renyi, subsampled.epsilon_proven(whole, delta))
        return min(renyi, self.epsilon_gaussian(delta))

    def epsilon_gaussian(self, delta: float) -> float:
        """Epsilon by (mu^2, kappa) alone, eq. (P5) and Theorem 19; inf where an event has no mu^2."""
        if not self.rho:
            return 0.0
        if not math.isfinite(self.mu_squared):
            return math.inf
        return discrete_epsilon(math.sqrt(self.mu_squared), self.kappa, delta)

    def at(self, order: int | None) -> float:
        """Sum of D_alpha at the order of this index, of mu^2 without one, as if it were not rounded."""
        if order is None:
            return float(self.mu_squared + self._lost[0])
        return float(self.curve[order] + self._lost[1][order])

    @property
    def kappa_alone(self) -> float:
        """Sum of (P10) to those who know all masks: no less than ``kappa``."""
        return self.kappa if self.unmasked is None else self.unmasked.kappa

    def gaussian(self, epsilon: float, delta: float) -> bool:
        """Whether a filter of (mu^2, kappa) holds these: read so they keep epsilon, kappa within its share (P11)."""
        return self.kappa_alone <= most_excess(epsilon, delta) and self.epsilon_gaussian(delta) <= epsilon

    def epsilon_published(self, delta: float) -> float | None:
        """Published epsilon of the events so far, eq. (P3); of a baseline by its own paper's accounting."""
        if self.alone is not None and self.method == "published":
            if isinstance(self.alone, GammaNormVector):
                return self.alone.rate * self.alone.sensitivity  # pure epsilon, whatever delta is
            return moments.epsilon(self.alone, delta)
        return None if self.rho_published is None else loose_epsilon(self.rho_published, delta)


def _plus(total: float, cost: float) -> float:
    """Return the sum, at least one unit in the last place above the total: no cost rounds to nothing."""
    return math.nextafter(total, math.inf) if cost > 0.0 and total + cost == total else total + cost


def _rounding(lost: Any, before: Any, cost: Any, after: Any) -> Any:
    """Return what sums have lost so far by rounding: Knuth 1969, Theorem B of sec. 4.2.2; 0 where they are infinite."""
    added = after - before
    error = lost + ((before - (after - added)) + (cost - added))
    return np.where(np.isfinite(error), error, 0.0)


def draws_of(event: Event) -> int:
    """Draws of noise that is clipped, (V10): none of exact noise, of sampled steps one each."""
    if isinstance(event, DiscreteGaussian | NoRecords | Unprotected):
        return 0
    return event.steps if isinstance(event, SubsampledGaussian) else 1


def joined(
    before: SubsampledGaussian | GammaNormVector | None, event: Event, count: int, *, fresh: bool
) -> SubsampledGaussian | GammaNormVector | None:
    """Events as one: the steps of one kind on sampled batches add up, partitions of a random order do not."""
    if isinstance(event, NoRecords):
        return before
    if fresh and count == 1 and isinstance(event, SubsampledGaussian | GammaNormVector):
        return event
    if not isinstance(event, SubsampledGaussian) or event.sampling == "shuffled":
        return None
    steps = event.steps * count
    if fresh:
        return replace(event, steps=steps)
    if isinstance(before, SubsampledGaussian) and replace(event, steps=before.steps) == before:
        return replace(event, steps=before.steps + steps)
    return None


def excess_of(event: Event) -> float:
    """Return (P10) of an event: how far it may be from a Gaussian one."""
    if not isinstance(event, DiscreteGaussian):
        return 0.0
    return excess(event.dimension, event.sigma / event.grid, event.parts)


SHARED = 1024
"""States of totals, their lines and their affordances that agents with equal histories share."""


@lru_cache(maxsize=64)
def empty(method: str) -> Totals:
    """Totals of no event, shared: never to be added to."""
    return Totals(method)


@lru_cache(maxsize=SHARED)
def grown(totals: Totals, event: Event) -> Totals:
    """Totals with one more event, shared by all agents with this history: never to be added to."""
    if isinstance(event, NoRecords):
        return totals
    more = copy(totals)
    more.add(event)
    return more


def added(parts: Sequence[Totals]) -> Totals:
    """Proven costs of all parts: curves, mu^2 and kappa add up (docs/proofs.md, Theorem 5)."""
    found = _joined(parts, np.sum)
    if len(charged := [part for part in parts if part.rho]) == 1:
        return found
    claims = [part.rho_published for part in charged]
    found.rho_published = None if None in claims else math.fsum(claim or 0.0 for claim in claims)
    first, *others = [part.alone for part in parts if part.rho] or [None]
    for other in others:
        first = None if first is None or other is None else joined(first, other, 1, fresh=False)
    found.alone = first  # steps of one kind on sampled batches have a reading of their own
    return found


def largest(parts: Sequence[Totals]) -> Totals:
    """At least the cost of each part: the largest value at every order, mu^2 and kappa by themselves."""
    return _joined(parts, np.max)


def _joined(parts: Sequence[Totals], join: Callable[..., Any]) -> Totals:
    parts = [part for part in parts if part.rho]
    if len(parts) == 1:
        return parts[0]  # what is alone has readings of its own
    found = Totals("proven")
    if not parts:
        return found
    found.curve = join([part.curve for part in parts], axis=0)
    for name in ("rho", "mu_squared", "kappa"):
        setattr(found, name, float(join([getattr(part, name) for part in parts])))
    if any(part.unmasked is not None for part in parts):
        found.unmasked = _joined([part.unmasked or part for part in parts], join)
        found.colluders = min(part.colluders for part in parts if part.colluders is not None)
    return found
