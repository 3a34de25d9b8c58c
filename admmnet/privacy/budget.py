"""Totals of what was charged, under both accountants (docs/proofs.md, sec. 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from admmnet.privacy import proven, published, subsampled
from admmnet.privacy.conversion import ORDERS, discrete_epsilon, epsilon, loose_epsilon, most_excess
from admmnet.privacy.events import DiscreteGaussian, Event, GammaNormVector, NoRecords, SubsampledGaussian
from admmnet.types import Vector

SLACK = 1e-12
"""Relative slack of every comparison with a budget: k charges of budget/k exceed it in floating point."""
Charges = tuple[tuple[Event, int], ...]
"""Events and how often."""
COARSE = 4
"""Bits of a number of sampled steps that a running figure is read at, rounded up: few readings, each a transform."""
_zeros = partial(np.zeros_like, ORDERS)


@dataclass(frozen=True, eq=False)
class Totals:
    """What an agent's charges so far come to under both accountants; ``empty`` is where they begin."""

    method: str = "proven"
    """Form of the method: only ``published`` ones have published costs."""
    rho: float = 0.0
    """Proven zCDP total."""
    curve: Vector = field(default_factory=_zeros)
    """Proven Renyi curve at ``conversion.ORDERS``, shape (601,)."""
    mu_squared: float = 0.0
    """Sum of mu^2 over events that a Gaussian one dominates, but for kappa; inf once there was one of another kind."""
    kappa: float = 0.0
    """Sum of (P10) over discrete Gaussian events: how far they may be from Gaussian ones."""
    draws: int = 0
    """Draws of noise that is clipped, (V10)."""
    rho_published: float | None = None
    """Published total; None once an event has no published cost."""
    alone: SubsampledGaussian | GammaNormVector | None = None
    """All events so far as one, where they are steps on sampled batches of one kind, or a single ``GammaNormVector``:
    its epsilons have readings of their own."""
    unmasked: Totals | None = None
    """The same events to those who know all masks; None where nothing was masked."""
    colluders: int | None = None
    """Least K of the masked events, up to which all other totals hold; None where nothing was masked."""
    lost_mu: float = 0.0
    lost_curve: Vector = field(default_factory=_zeros)
    """What the sums of mu^2 and of the curve have lost by rounding."""

    @classmethod
    def of(cls, charges: Iterable[tuple[Event, int]], method: str) -> Totals:
        """Totals of events with their counts."""
        total = empty(method)
        for event, count in charges:
            total = total.plus(event, count)
        return total

    @np.errstate(all="ignore")  # whatever a method has set
    def plus(self, event: Event, count: int = 1) -> Totals:
        """Return the totals with an event added, ``count`` times; these where it costs nothing, or never happens."""
        if not count or isinstance(event, NoRecords):
            return self
        cost, unmasked, colluders, claimed = proven.cost(event), self.unmasked, self.colluders, self.rho_published
        if masked := isinstance(event, DiscreteGaussian) and event.parts > 1:
            colluders = min(event.colluders, event.colluders if colluders is None else colluders)
        if masked or self.unmasked is not None:
            own = event.alone if isinstance(event, DiscreteGaussian) else event
            unmasked = (unmasked or self).plus(own, count)
        if claimed is not None:
            claim = published.rho(event)
            claimed = None if claim is None else _plus(claimed, count * claim)
        rise, more = count * cost.curve, count * cost.mu_squared
        curve, mu_squared = self.curve + rise, _plus(self.mu_squared, more)
        curve = np.where((curve == self.curve) & (cost.curve > 0.0), np.nextafter(self.curve, np.inf), curve)
        return Totals(
            self.method,
            _plus(self.rho, count * cost.rho),
            curve,
            mu_squared,
            _plus(self.kappa, count * cost.kappa),
            self.draws + count * cost.draws,
            claimed,
            joined(self.alone, event, count, fresh=not self.rho),
            unmasked,
            colluders,
            float(_rounding(self.lost_mu, self.mu_squared, more, mu_squared)),
            _rounding(self.lost_curve, self.curve, rise, curve),
        )

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
            return self.mu_squared + self.lost_mu
        return float(self.curve[order] + self.lost_curve[order])

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
            return published.epsilon_of_moments(self.alone, delta)
        return None if self.rho_published is None else loose_epsilon(self.rho_published, delta)


def _plus(total: float, cost: float) -> float:
    """Return the sum, at least one unit in the last place above the total: no cost rounds to nothing."""
    return math.nextafter(total, math.inf) if cost > 0.0 and total + cost == total else total + cost


def _rounding(lost: Any, before: Any, cost: Any, after: Any) -> Any:
    """Return what sums have lost so far by rounding: Knuth 1969, Theorem B of sec. 4.2.2; 0 where they are infinite."""
    added = after - before
    error = lost + ((before - (after - added)) + (cost - added))
    return np.where(np.isfinite(error), error, 0.0)


def joined(
    before: SubsampledGaussian | GammaNormVector | None, event: Event, count: int, *, fresh: bool
) -> SubsampledGaussian | GammaNormVector | None:
    """Events as one: the steps of one kind on sampled batches add up, partitions of a random order do not."""
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


SHARED = 1024
"""States of totals, their lines and their affordances that agents with equal histories share."""


@lru_cache(maxsize=64)
def empty(method: str) -> Totals:
    """Totals of no event, shared."""
    return Totals(method, rho_published=0.0 if method == "published" else None)


grown = lru_cache(maxsize=SHARED)(Totals.plus)
"""Totals with one more event, shared by all agents with this history."""


def added(parts: Sequence[Totals]) -> Totals:
    """Proven costs of all parts: curves, mu^2 and kappa add up (docs/proofs.md, Theorem 5)."""
    found = _joined(parts, np.sum)
    if len(charged := [part for part in parts if part.rho]) == 1:
        return found
    claims = [part.rho_published for part in charged]
    first, *others = [part.alone for part in charged] or [None]
    for other in others:
        first = None if first is None or other is None else joined(first, other, 1, fresh=False)
    claimed = None if None in claims else math.fsum(claim or 0.0 for claim in claims)
    return replace(found, rho_published=claimed, alone=first)  # steps of one kind have a reading of their own


def largest(parts: Sequence[Totals]) -> Totals:
    """At least the cost of each part: the largest value at every order, mu^2 and kappa by themselves."""
    return _joined(parts, np.max)


def _joined(parts: Sequence[Totals], join: Callable[..., Any]) -> Totals:
    parts = [part for part in parts if part.rho]
    if len(parts) < 2:
        return parts[0] if parts else Totals()  # what is alone has readings of its own
    sums = ([getattr(part, name) for part in parts] for name in ("rho", "mu_squared", "kappa"))
    rho, mu_squared, kappa = (float(join(one)) for one in sums)
    masked = any(part.unmasked is not None for part in parts)
    unmasked = _joined([part.unmasked or part for part in parts], join) if masked else None
    colluders = min((part.colluders for part in parts if part.colluders is not None), default=None)
    curve = join([part.curve for part in parts], axis=0)
    return Totals("proven", rho, curve, mu_squared, kappa, unmasked=unmasked, colluders=colluders)
