"""What an agent's run is promised, and the ledger that keeps it (docs/proofs.md, sec. 6).

A contract is made before the first round from settings, public facts and the method's plan. The door charges under it,
the ledger's header states it, and every figure of a promise comes from it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from admmnet.errors import RunError
from admmnet.privacy.budget import Totals, empty, grown
from admmnet.privacy.conversion import group_epsilon, loose_rho
from admmnet.privacy.events import Event
from admmnet.privacy.filters import MOST_DRAWS, Filter, Reading
from admmnet.solvers.radius import tail_delta

STAGES = {"bounds": -3, "shape": -2, "whiten": -1}
"""Sums before the first round, docs/methods.md (113) to (116), and their rounds in the ledger."""
EARLIEST = min(STAGES.values())
ROUNDING = 1e-9
"""Relative slack of a published budget, whose plan and charges are sums in different orders."""


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

    @classmethod
    def reading(cls, delta: float) -> Contract:
        """Contract by which totals are read at a delta; nothing limits them."""
        return cls(Promise(math.inf, delta))

    def __hash__(self) -> int:
        """Of what differs between agents; equal contracts are mostly one object."""
        return hash((self.form, self.filter, self.account))

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
        """Largest N - K of a masked sum, 1 where nothing is masked."""
        return 1 if self.filter is None else self.filter.parts

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
        """Epsilon of charges so far, and at most all that the filter lets through."""
        own = totals.unmasked if alone else totals
        if self.promise is None or own is None:
            return None
        found, most = own.epsilon_proven(self.promise.delta, coarse=True), self.most(alone=alone)
        return found if most is None else min(found, most.epsilon)

    def affords(self, totals: Totals, events: Iterable[Event] = ()) -> bool:
        """Whether totals and these events stay within the filter, and what a paper books within its budget.

        The door, the plan and verify ask this.
        """
        wanted = tuple(events)
        if self.filter is None or self.promise is None:
            return True
        return self.filter.affords(totals, wanted) and (
            self.promise.accountant == "proven" or _booked(totals.plus(wanted), self.promise)
        )


def _booked(totals: Totals, promise: Promise) -> bool:
    """Whether totals come to no more than was promised by the arithmetic of their paper."""
    if totals.alone is not None:
        return (totals.epsilon_published(promise.delta) or math.inf) <= promise.epsilon * (1.0 + ROUNDING)
    most = loose_rho(promise.epsilon, promise.delta) * (1.0 + ROUNDING)
    return totals.rho_published is not None and totals.rho_published <= most


class Step(NamedTuple):
    """A charge: its event, the totals behind it, and how its line in a ledger begins."""

    event: Event
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

    __slots__ = ("_over", "contract", "events", "refused_at", "totals")

    def __init__(self, contract: Contract) -> None:
        self.contract, self.totals, self.events = contract, empty(contract.form), 0
        self.refused_at: int | None = None
        # filters of all runs of the account
        self._over: tuple[Filter, ...] = () if contract.account is None else (contract.account,)

    @property
    def spent(self) -> Totals:
        """What the account's filter spans; of a run without one its own totals."""
        return self.totals

    def affords(self, events: Iterable[Event]) -> bool:
        """Whether these events still fit the contract; once something was refused, nothing does."""
        wanted = tuple(events)
        if self.refused_at is not None or self.events + len(wanted) > MOST_DRAWS:
            return False
        return self.contract.affords(self.totals, wanted) and all(
            over.affords(self.spent, wanted) for over in self._over
        )

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
        return id(self.contract), id(self.totals), self.events, self.refused_at, alone

    def _steps(self, round: int, events: tuple[Event, ...]) -> tuple[Step, ...]:
        """What charging these events comes to."""
        if not self.affords(events):
            raise RunError(f"a charge in round {round} exceeds the budget")
        found: list[Step] = []
        totals = self.totals
        for event in events:
            totals = grown(totals, event)
            found.append(Step(event, totals, self._line(round, event, totals)))
        return tuple(found)

    def _line(self, round: int, event: Event, totals: Totals) -> bytes:
        """Beginning of the line of a charge."""
        return b""

    def _follow(self, round: int, step: Step) -> None:
        """Add an event to the totals."""
        self.totals, self.events = step.totals, self.events + 1

    def _count(self, event: Event) -> None:
        """Take in an event whose line is there."""
        self.totals, self.events = grown(self.totals, event), self.events + 1


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
