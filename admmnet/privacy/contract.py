"""What an agent's run is promised, and the ledger that keeps it (docs/proofs.md, sec. 6).

A contract is made before the first round from settings, public facts and the method's plan. The door charges under it,
the ledger's header states it, and every figure of a promise comes from it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from admmnet.errors import RunError
from admmnet.privacy.budget import SHARED, Totals, empty, grown
from admmnet.privacy.conversion import group_epsilon, loose_rho
from admmnet.privacy.events import DiscreteGaussian, Event, NoRecords, Unprotected
from admmnet.privacy.filters import Count, Left, Reading, Spend, alone_of
from admmnet.solvers.radius import tail_delta
from admmnet.types import BEFORE

STAGES = {"bounds": -3, "shape": -2, "whiten": -1}
"""Sums before the first round, docs/methods.md (113) to (116), and their rounds in the ledger."""
EARLIEST = min(STAGES.values())
ROUNDING = 1e-9
"""Relative slack between the spent and the proven cost: both are sums, in different orders."""
MOST_DRAWS = 2**40
"""Events after which a filter without counts refuses: Theorem 5 and (V10) ask for a number that is never exceeded."""


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
    filter: Count | Spend | None = None
    """Of this run; None without a promise."""
    account: Spend | None = None
    """Of all runs of the account that this one continues."""
    form: str = "proven"
    """Form of the method; only ``published`` ones have published costs."""
    covered: bool = True
    """Whether a proof covers all that the method computes from records; else nothing is proven of it."""
    run: Spend | None = None
    """Of all starts of this run, where changed ones are planned anew (Theorem 31): ``filter`` is of one start then."""

    @classmethod
    def reading(cls, delta: float) -> Contract:
        """Contract by which totals are read at a delta; nothing limits them."""
        return cls(Promise(math.inf, delta))

    def __hash__(self) -> int:
        """Of what differs between agents; equal contracts are mostly one object."""
        return hash((self.form, self.filter, self.account))

    @property
    def guard(self) -> Count | Spend | None:
        """Filter of the whole run, by which its figures are read."""
        return self.run or self.filter

    @property
    def adjacency(self) -> str:
        """Relation of the promise."""
        return "replace-one" if self.promise is None else self.promise.adjacency

    @property
    def delta(self) -> float | None:
        """Delta of the promise."""
        return None if self.promise is None else self.promise.delta

    @property
    def parts(self) -> int:
        """Largest N - K of a planned masked sum, 1 where nothing is masked."""
        if isinstance(self.guard, Spend):
            return self.guard.parts
        planned = self.guard.planned if self.guard is not None else ()
        return max((event.parts for event, _ in planned if isinstance(event, DiscreteGaussian)), default=1)

    @property
    def delta_clipping(self) -> float | None:
        """Most that clipped noise adds to delta, docs/proofs.md (V10); None where no noise is clipped."""
        planned = self.filter.planned if isinstance(self.filter, Count) else ()
        exact = DiscreteGaussian | NoRecords | Unprotected
        draws = sum(count for event, count in planned if not isinstance(event, exact))
        draws = MOST_DRAWS if isinstance(self.guard, Spend) else draws
        return tail_delta(draws, self.promise.epsilon) if draws and self.promise is not None else None

    @property
    def worst(self) -> Totals | None:
        """Sum of all planned events; None without a plan."""
        return _sum(self.filter, self.form, False) if isinstance(self.filter, Count) else None

    def over_account(self) -> Contract:
        """Return the contract of all runs of the account: its filter in place of this run's own."""
        return Contract(self.promise, self.account, self.account, covered=self.covered)

    def restored(self, epsilon: float, totals: Totals) -> tuple[Contract, Totals]:
        """Contract of an account, and its totals, once all that its filter lets through up to an epsilon is spent."""
        promise = replace(cast("Promise", self.promise), epsilon=epsilon)
        over = cast("Spend", self.account).raised(epsilon)
        return Contract(promise, over, over, covered=self.covered), over.used_up(totals)

    def most(self, *, alone: bool = False) -> Reading | None:
        """All that the filter lets through; ``alone`` to those who know all masks: Theorem 23 (B)."""
        return _most(self, alone)

    def group(self) -> float | None:
        """Epsilon of a person with ``promise.group`` records, Theorem 17; None where no rho is fixed beforehand."""
        most = self.most()
        if self.promise is None or most is None or most.rho is None or not self.covered:
            return None
        return group_epsilon(most.rho, self.promise.delta, self.promise.group)

    def spent(self, totals: Totals, *, alone: bool = False) -> float | None:
        """Epsilon of charges so far: as their filter adds up, and at most all that a plan lets through (Theorem 25)."""
        own = totals.unmasked if alone else totals
        if self.promise is None or own is None:
            return None
        if isinstance(self.guard, Spend) and self.guard.order is None:
            return own.epsilon_gaussian(self.promise.delta)
        found = own.epsilon_proven(self.promise.delta, coarse=True)
        most = self.most(alone=alone) if isinstance(self.guard, Count) else None
        return found if most is None else min(found, most.epsilon)

    def sound(self) -> bool:
        """Whether a plan comes to no more than was promised, by the arithmetic that calibrated it."""
        promise = self.promise
        if promise is None or not isinstance(self.filter, Count):
            return True
        worst, most = _sum(self.filter, self.form, False), promise.epsilon * (1.0 + ROUNDING)
        if promise.accountant == "proven":
            return worst.epsilon_proven(promise.delta) <= most
        if worst.alone is not None:
            return (worst.epsilon_published(promise.delta) or math.inf) <= most
        limit = loose_rho(promise.epsilon, promise.delta) * (1.0 + ROUNDING)
        return worst.rho_published is not None and worst.rho_published <= limit

    def keeps(self, totals: Totals) -> bool:
        """Whether charges are at most what the filter lets through, alone too: the writer and verify ask this."""
        return self.guard is None or _keeps(self.guard, self.form, totals)


@lru_cache(maxsize=SHARED)
def _most(contract: Contract, alone: bool) -> Reading | None:
    if contract.promise is None or contract.guard is None:
        return None
    if isinstance(contract.guard, Spend):
        return contract.guard.most(alone=alone)
    worst = _sum(contract.guard, contract.form, alone)
    return Reading(worst.epsilon_proven(contract.promise.delta), worst.rho)


@lru_cache(maxsize=SHARED)
def _sum(filter: Count, form: str, alone: bool) -> Totals:
    """Sum of all planned events, its kappa at the limit."""
    planned = [(alone_of(event) if alone else event, count) for event, count in filter.planned]
    worst = Totals.of(planned, form)
    if worst.kappa:
        if math.isfinite(filter.kappa):
            worst.kappa = filter.kappa
        else:
            worst.mu_squared = math.inf
    return worst


@lru_cache(maxsize=SHARED)
def _keeps(filter: Count | Spend, form: str, totals: Totals) -> bool:
    if isinstance(filter, Spend):
        return filter.affords(totals, ())
    pairs = [(totals, _sum(filter, form, False)), (totals.unmasked, _sum(filter, form, True))]
    return all(
        bool(np.all(getattr(spent, name) <= getattr(worst, name) * (1.0 + ROUNDING)))
        for spent, worst in pairs
        if spent is not None
        for name in ("rho", "curve", "mu_squared")
    )


class Step(NamedTuple):
    """A charge: its event, what is left of the plan and the totals behind it, and how its line in a ledger begins."""

    event: Event
    left: Left
    totals: Totals
    line: bytes


class MemoryLedger:
    """Guard of a contract whose charges are written nowhere; ``ledger.file.Ledger`` writes them, too.

    Attributes
    ----------
    contract : Contract
    totals : Totals
        Of what was charged, shared: never to be added to.
    events : int
        How many were charged.
    refused_at : int or None
        Round of the first refusal, after which nothing is afforded.
    """

    __slots__ = ("_left", "_over", "contract", "events", "refused_at", "totals")

    def __init__(self, contract: Contract) -> None:
        self.contract, self.totals, self.events = contract, empty(contract.form), 0
        self.refused_at: int | None = None
        self._left = contract.filter.whole if isinstance(contract.filter, Count) else ()
        # filters of all starts of the run, and of all runs of the account
        self._over = tuple(filter for filter in (contract.run, contract.account) if filter is not None)

    @property
    def spent(self) -> Totals:
        """What the account's filter spans; of a run without one its own totals."""
        return self.totals

    def affords(self, events: Iterable[Event]) -> bool:
        """Whether these events still fit the contract; once something was refused, nothing does.

        Uncovered if the plan covers one of them at no count: a fault of the method, told by public values alone.
        """
        wanted = tuple(events)
        fits = self._fits(self.contract.filter, wanted)
        if self.refused_at is not None or not fits:
            return False
        return all(over.affords(self.spent, wanted) for over in self._over)

    def renew(self, slots: Count) -> None:
        """Go on with the slots of a changed start: Theorem 31. Promise and limit of the run stay, and count kappa.

        RunError if the contract has no limit for all starts of the run.
        """
        if self.contract.run is None:
            raise RunError("a start was planned anew, and its contract has no limit for the whole run")
        self.contract, self._left = replace(self.contract, filter=replace(slots, kappa=math.inf)), slots.whole

    def _fits(self, filter: Count | Spend | None, events: tuple[Event, ...]) -> bool:
        if (self._over or isinstance(filter, Spend)) and self.events + len(events) > MOST_DRAWS:
            return False
        if isinstance(filter, Count):
            return filter.affords(self._left, self.totals, events)
        return filter is None or filter.affords(self.totals, events)

    def refuse(self, round: int) -> None:
        """Refuse every further charge, for good (docs/proofs.md, Theorem 5)."""
        if self.refused_at is None:
            self.refused_at = round

    def charge(self, round: int, *events: Event) -> None:
        """Book events that are about to be drawn.

        RunError if the contract does not afford them (callers ask ``affords`` first).
        """
        for step in self._steps(round, events):
            self._follow(round, step)

    @property
    def state(self) -> Hashable:
        """What charges depend on: ledgers of equal states are charged alike; one that others may charge is alone."""
        alone = id(self) if self._over else None
        return id(self.contract), self._left, id(self.totals), self.events, self.refused_at, alone

    def _steps(self, round: int, events: tuple[Event, ...]) -> tuple[Step, ...]:
        """What charging these events comes to."""
        if not self.affords(events):
            raise RunError(f"a charge in round {round} exceeds the budget")
        found: list[Step] = []
        left, totals = self._left, self.totals
        for event in events:
            found.append(step := self._step(round, event, left, totals))
            left, totals = step.left, step.totals
        return tuple(found)

    def _step(self, round: int, event: Event, left: Left, totals: Totals) -> Step:
        """What charging an event comes to behind these."""
        totals = grown(totals, event)
        return Step(event, self._next(left, event), totals, self._line(round, event, totals))

    def _line(self, round: int, event: Event, totals: Totals) -> bytes:
        """Beginning of the line of a charge."""
        return b""

    def _follow(self, round: int, step: Step) -> None:
        """Take an event from what is left, and add it to the totals."""
        self._left, self.totals = step.left, step.totals
        self.events += 1

    def _count(self, event: Event) -> None:
        """Take in an event whose line is there."""
        MemoryLedger._follow(self, BEFORE, Step(event, self._next(self._left, event), grown(self.totals, event), b""))

    def _next(self, left: Left, event: Event) -> Left:
        if not isinstance(self.contract.filter, Count):
            return left
        taken = self.contract.filter.take(left, (event,))
        if taken is None:
            raise RunError("more was charged than the plan has")
        return taken


def affording(ledgers: Sequence[MemoryLedger], events: tuple[Event, ...]) -> list[bool]:
    """Whether each ledger affords these events; of those in equal states one is asked."""
    states = [ledger.state for ledger in ledgers]
    known = {state: ledger.affords(events) for state, ledger in dict(zip(states, ledgers, strict=True)).items()}
    return [known[state] for state in states]


def charge_all(ledgers: Sequence[MemoryLedger], round: int, costs: Sequence[tuple[Event, ...]]) -> None:
    """Charge each ledger its events, in this order, as ``charge`` does; those in equal states share the work.

    Every ledger is there once. Equal costs are mostly one object.
    """
    known: dict[Hashable, tuple[Step, ...]] = {}
    for ledger, events in zip(ledgers, costs, strict=True):
        state = ledger.state, id(events)
        if state not in known:
            known[state] = ledger._steps(round, events)
        for step in known[state]:
            ledger._follow(round, step)
