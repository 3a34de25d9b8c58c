"""What an agent's run is promised, the filter that keeps it, and the guard of both (docs/proofs.md, sec. 6, Theorem 5).

A contract is made before the first round from settings, public facts and the method's plan. The door charges under it,
the ledger's header states it, and every figure of a promise comes from it. Nothing is drawn before its filter is known
to let its cost through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
from msgspec import Meta, Struct, structs

from admmnet.errors import RunError
from admmnet.privacy import subsampled
from admmnet.privacy.budget import SHARED, SLACK, Totals, empty, grown
from admmnet.privacy.conversion import (
    ORDERS,
    allowance,
    best_order,
    discrete_epsilon,
    discrete_mu,
    epsilon_at_orders,
    group_epsilon,
    loose_rho,
    most_excess,
)
from admmnet.privacy.conversion import epsilon as epsilon_of
from admmnet.privacy.events import Booked, Event, Natural, Number, SubsampledGaussian
from admmnet.solvers.radius import tail_delta

MOST_DRAWS = 2**40
"""Events, and draws of clipped noise, of an account: Theorem 5 and (V10) ask for a number that is never exceeded."""
SPARE = 10
"""Draws that a run may make, for each of its plan."""
STAGES = {"bounds": -3, "shape": -2, "whiten": -1}
"""Sums before the first round, docs/methods.md (113) to (116), and their rounds in the ledger."""
EARLIEST = min(STAGES.values())
ROUNDING = 1e-9
"""Relative slack of a published budget, whose plan and charges are sums in different orders."""


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

    def affords(self, spent: Totals, events: Iterable[Event] = ()) -> bool:
        """Whether totals plus these events stay within the limits, slack 1e-12 relative."""
        total = reduce(grown, events, spent)
        if total.draws > self.draws:
            return False
        if self.steps is not None:
            own, most = total.alone, self.steps
            same = isinstance(own, SubsampledGaussian) and replace(own, steps=most.steps) == most
            return not total.rho or (same and own.steps <= most.steps)  # type: ignore[union-attr]
        if self.order is None and not total.kappa_alone <= self.kappa * (1.0 + SLACK):
            return False
        limits, place = ((total, self.most_added), (total.unmasked, self.parts * self.most_added)), self.place
        return all(one is None or one.at(place) <= limit * (1.0 + SLACK) for one, limit in limits)

    def used_up(self, spent: Totals, times: int = 1) -> Totals:
        """Totals after which nothing is left: events that nobody knows may have come to all that it lets through.

        What it does not add up is infinite. ``times`` more is it to those who know all masks.
        """
        curve, limit, place = np.full_like(ORDERS, math.inf), times * self.most_added, self.place
        mu_squared, kappa, unmasked, colluders = math.inf, spent.kappa, spent.unmasked, spent.colluders
        if place is None:
            mu_squared, kappa = max(spent.mu_squared, limit), max(kappa, self.kappa)
        else:
            curve[place] = max(float(spent.curve[place]), limit)
        if self.parts > times:
            unmasked, colluders = self.used_up(unmasked or spent, self.parts), colluders or 0
        sums = {"curve": curve, "mu_squared": mu_squared, "kappa": kappa, "unmasked": unmasked, "colluders": colluders}
        return replace(spent, rho=math.inf, alone=None, **sums)  # type: ignore[arg-type]

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


@dataclass(frozen=True)
class Promise:
    """What was asked for by the run's settings; no method has a say in it."""

    epsilon: float
    delta: float
    accountant: str = "proven"
    """``proven`` or ``published``: which arithmetic calibrated the plan."""
    adjacency: str = "replace-one"
    """``replace-one``, or ``zero-out`` where a planned event is proven for that alone."""
    group: int = 1
    """Records of one person, for ``Contract.group``."""
    colluders: int | None = None
    """K, against which sums are masked; None where every agent's noise stands for itself."""


@dataclass(frozen=True)
class Contract:
    """What an agent's run may charge, and what is promised of it."""

    promise: Promise | None = None
    """None of methods without privacy, whose charges nothing limits."""
    filter: Filter | None = None
    """Of this run, all its starts; None without a promise."""
    account: Filter | None = None
    """Of all runs of the account that this one continues."""
    form: str = "proven"
    """Form of the method; only ``published`` ones have published costs."""
    covered: bool = True
    """Whether a proof covers all that the method computes from records; else nothing is proven of it."""

    def __hash__(self) -> int:
        """Of what differs between agents; equal contracts are mostly one object."""
        return hash((self.form, self.filter, self.account))

    @classmethod
    def reading(cls, delta: float) -> Contract:
        """Contract by which totals are read at a delta; nothing limits them."""
        return cls(Promise(math.inf, delta))

    @cached_property
    def adjacency(self) -> str:
        """Relation of the promise."""
        return "replace-one" if self.promise is None else self.promise.adjacency

    @property
    def delta_clipping(self) -> float | None:
        """Most that clipped noise adds to delta, docs/proofs.md (V10); None where no noise is clipped."""
        if self.promise is None or self.filter is None or not self.filter.draws:
            return None
        return tail_delta(self.filter.draws, self.promise.epsilon)

    def over_account(self) -> Contract:
        """Return the contract of all runs of the account: its filter in place of this run's own."""
        return Contract(self.promise, self.account, self.account, covered=self.covered)

    def restored(self, epsilon: float, totals: Totals) -> tuple[Contract, Totals]:
        """Contract of an account, and its totals, once all that its filter lets through up to an epsilon is spent."""
        promise = replace(cast("Promise", self.promise), epsilon=epsilon)
        over = cast("Filter", self.account).raised(epsilon, promise.delta)
        return Contract(promise, over, over, covered=self.covered), over.used_up(totals)

    @lru_cache(maxsize=SHARED)  # noqa: B019 (equal contracts are few)
    def most(self, *, alone: bool = False) -> Reading | None:
        """All that the filter lets through, proven: the promise, or what a published plan comes to.

        ``alone`` is to those who know all masks: Theorem 23 (B).
        """
        if self.promise is None or self.filter is None:
            return None
        found = self.filter.most(self.promise.delta, alone=alone)
        promised = self.promise.accountant == "proven" and not alone and found.epsilon
        return found._replace(epsilon=self.promise.epsilon) if promised else found

    def group(self) -> float | None:
        """Epsilon of a person with ``promise.group`` records, Theorem 17; None where no rho is fixed beforehand."""
        most = self.most()
        if self.promise is None or most is None or most.rho is None or not self.covered:
            return None
        return group_epsilon(most.rho, self.promise.delta, self.promise.group)

    def spent(self, totals: Totals, *, alone: bool = False) -> float | None:
        """Epsilon of charges so far, and at most all that the filter lets through where they fit it.

        Those of an account may not: another run on it had a larger budget.
        """
        own = totals.unmasked if alone else totals
        if self.promise is None or own is None:
            return None
        found, most = own.epsilon_proven(self.promise.delta, coarse=True), self.most(alone=alone)
        return found if most is None or found <= most.epsilon or not self.affords(totals) else most.epsilon

    def affords(self, totals: Totals, events: Iterable[Event] = ()) -> bool:
        """Whether totals and these events stay within the filter, and what a paper books within its budget.

        The door, the plan and verify ask this.
        """
        if self.filter is None or self.promise is None:
            return True
        total, promise, room = reduce(grown, events, totals), self.promise, 1.0 + ROUNDING
        if not self.filter.affords(total):
            return False
        if promise.accountant == "proven":
            return True
        if total.alone is not None:
            return (total.epsilon_published(promise.delta) or math.inf) <= promise.epsilon * room
        booked, most = total.rho_published, loose_rho(promise.epsilon, promise.delta)
        return booked is not None and booked <= most * room


class Step(NamedTuple):
    """What a charge comes to: the totals before and behind it, and how its line in a ledger begins."""

    before: Totals
    event: Event
    totals: Totals
    line: bytes


class MemoryLedger:
    """Guard of a contract whose charges are written nowhere; ``ledger.file.Ledger`` writes them, too.

    Attributes
    ----------
    contract : Contract
    totals : Totals
        Of what was charged.
    events : int
        How many were charged.
    refused_at : int or None
        Round of the first refusal, after which nothing is afforded.
    """

    __slots__ = ("_over", "contract", "events", "refused_at", "totals")
    _line: Callable[[int, Event, Totals, Contract], bytes] = staticmethod(lambda *_: b"")
    """Makes the beginning of the line of a charge."""
    account: Totals | None = None
    """Totals over all runs of the account, None without one."""

    def __init__(self, contract: Contract) -> None:
        self.contract, self.totals, self.events = contract, empty(contract.form), 0
        self.refused_at: int | None = None
        # filters of all runs of the account
        self._over: tuple[Filter, ...] = () if contract.account is None else (contract.account,)

    def affords(self, events: Sequence[Event]) -> bool:
        """Whether these events still fit the contract; once something was refused, nothing does."""
        if self.refused_at is not None or self.events + len(events) > MOST_DRAWS:
            return False
        return self.contract.affords(self.totals, events) and all(
            over.affords(self.account or self.totals, events) for over in self._over
        )

    def refuse(self, round: int) -> None:
        """Refuse every further charge, for good (docs/proofs.md, Theorem 5)."""
        if self.refused_at is None:
            self.refused_at = round

    def charge(self, round: int, *events: Event) -> None:
        """Book events that are about to be drawn.

        RunError if the contract does not afford them (callers ask ``affords`` first).
        """
        if not self.affords(events):
            raise RunError(f"a charge in round {round} exceeds the budget")
        for step in self.steps(round, events):
            self.book(round, step)

    def steps(self, round: int, events: Iterable[Event]) -> tuple[Step, ...]:
        """What charging these events comes to, whether or not they fit."""
        found, before = list[Step](), self.totals
        for event in events:
            totals = grown(before, event)
            found.append(Step(before, event, totals, self._line(round, event, totals, self.contract)))
            before = totals
        return tuple(found)

    def book(self, round: int, step: Step) -> None:
        """Book a charge that was found to fit; RunError if another one came between."""
        if step.before is not self.totals:
            raise RunError(f"a charge in round {round} was found to fit before another one")
        self.totals, self.events = step.totals, self.events + 1


def quotes(
    ledgers: Sequence[MemoryLedger], round: int, cost: tuple[Event, ...], reserve: tuple[Event, ...] = ()
) -> list[tuple[Step, ...] | None]:
    """What each ledger is to ``book`` for a cost; None where that does not fit together with a reserve.

    Of ledgers in equal states, which are charged alike, one is asked; one that others may charge is alone.
    """
    found, known = list[tuple[Step, ...] | None](), dict[Any, tuple[Step, ...] | None]()
    for ledger in ledgers:
        alone = id(ledger) if ledger._over else None
        state = id(ledger.contract), id(ledger.totals), ledger.events, ledger.refused_at, alone
        if state not in known:
            known[state] = ledger.steps(round, cost) if ledger.affords((*cost, *reserve)) else None
        found.append(known[state])
    return found
