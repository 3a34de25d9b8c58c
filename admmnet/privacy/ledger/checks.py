"""Check one line of a ledger: its form, its numbers, its cost, recomputed from its parameters alone."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from msgspec import structs, to_builtins

from admmnet.errors import AdmmnetError, CheckFailed, short
from admmnet.forms import decode, encode
from admmnet.privacy import subsampled
from admmnet.privacy.budget import SHARED, Totals, grown
from admmnet.privacy.contract import MOST_DRAWS, STAGES, Contract, Filter, Promise
from admmnet.privacy.conversion import ORDERS, most_excess
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    GammaNorm,
    ObjectivePerturbation,
    SubsampledGaussian,
    from_parameters,
    parameters,
    relation_of,
)
from admmnet.privacy.ledger.form import (
    EventLine,
    HeaderLine,
    RestoredLine,
    RunLine,
    event_start,
    stated,
    total_line,
    with_digest,
)

TOLERANCE = 1e-9
"""Relative difference allowed between a recorded cost and its recomputation on another machine."""
_shared = lru_cache(maxsize=SHARED)(Contract)
"""Equal contracts are one object: caches then find what they have without comparing filters."""


def header_line(data: bytes) -> HeaderLine:
    """First line of a ledger, of these bytes."""
    try:
        return decode(HeaderLine, data)
    except CheckFailed as error:
        other = "; read it with the version of admmnet that made it" if str(error).startswith("schema: ") else ""
        raise CheckFailed(f"{error}{other}") from None


def contract_of(line: HeaderLine, *, account: bool = False) -> Contract:
    """Contract of a header or a run line, which says the same; that of an ``account`` has a filter over all runs."""
    epsilon, delta = line.budget.epsilon, line.budget.delta
    promise = None
    if epsilon is not None and delta is not None:
        promise = Promise(epsilon, delta, line.accountant, line.adjacency, line.group_size or 1, line.colluders)
    own, over = (None if delta is None else one for one in (line.filter, line.account_filter))
    if any(math.copysign(1.0, x) < 0 for one in (own, over) if one is not None for x in (one.kappa, one.limit or 0.0)):
        raise CheckFailed("a bound of its filter is below 0")  # -0.0, too: it would be shared with 0.0
    contract = _shared(promise, own, over, line.method, line.covered is None)
    if (promise is None) != (own is None) or (account and over is None) or (over is not None and over.steps):
        raise CheckFailed("has a budget without a filter that keeps it, or a filter without a budget")
    try:
        kept = promise is None or all(_within(one, promise) for one in (own, over) if one is not None)
    except ArithmeticError:
        kept = False
    if not kept:
        raise CheckFailed(f"its filter lets through more than the budget's epsilon, {epsilon!r}")
    expected = stated(contract)
    clipped, right = line.delta_clipping, expected["delta_clipping"]
    if right is not None and (clipped is None or not _close(clipped, right)):
        raise CheckFailed(f"delta_clipping is {clipped!r}, recomputed {right!r}")
    expected["delta_clipping"] = right and clipped  # another machine's last bits
    # agents of a network have neighbours, and replace-one
    if encode(structs.replace(line, **expected)) != encode(line) or (line.adjacency == "zero-out" and line.neighbours):
        raise CheckFailed(f"is not the {line.adjacency} header of its budget and filter")
    return contract


def _within(filter: Filter, promise: Promise) -> bool:
    """Whether all that a filter lets through is within the budget; a published one is held by its charges alone."""
    if filter.kappa > most_excess(promise.epsilon, promise.delta) * (1.0 + TOLERANCE):
        return False
    if filter.draws > MOST_DRAWS or (filter.place is not None and filter.order != ORDERS[filter.place]):
        return False
    if filter.steps is not None and (filter.order, filter.limit) != (None, None):
        return False  # one currency alone
    if promise.accountant == "published":
        return True
    most = promise.epsilon * (1.0 + TOLERANCE)
    if filter.steps is not None:
        return subsampled.epsilon_proven(filter.steps, promise.delta) <= most
    right = Filter.keeping(promise.epsilon, promise.delta, filter.place, filter.kappa)
    return filter.most_added <= right.most_added * (1.0 + TOLERANCE)


def run_contract(line: RunLine, before: HeaderLine) -> Contract:
    """Contract of another run of an account; records, delta, filter and relation are those of the run before."""
    contract = contract_of(line, account=True)
    own, asked = ((one.agent, one.records, one.adjacency, one.budget.delta) for one in (before, line))
    if own != asked:
        raise CheckFailed(f"agent, records, relation and delta are {asked}, the account's are {own}")
    first, filter = before.account_filter, line.account_filter
    assert first is not None  # `contract_of` refuses
    assert filter is not None
    if (first.order, first.parts) != (filter.order, filter.parts) or filter.kappa > first.kappa:
        raise CheckFailed(f"account_filter is {filter}, the account's is {first}")
    return contract


def restored(line: RestoredLine, before: Contract, totals: Totals) -> tuple[Contract, Totals]:
    """Contract and totals of an account once all that its filter lets through counts as spent, which are checked."""
    if before.promise is None or line.epsilon < before.promise.epsilon:
        raise CheckFailed(f"epsilon is {line.epsilon!r}, below that of the run before")
    contract, totals = before.restored(line.epsilon, totals)
    _compare(to_builtins(line.total), to_builtins(total_line(totals, contract)), "total.")
    return contract, totals


@lru_cache(maxsize=4 * SHARED)  # most agents of a run have the same lines, but for their chains
def charged(
    data: bytes, totals: Totals, contract: Contract, records: int, stages: tuple[str, ...]
) -> tuple[EventLine, Event, Totals]:
    """Return a checked event's line, which holds ``form.NO_DIGEST``, its event, and the totals with it; all shared.

    ``records`` and ``stages`` are those of the header, which states the contract, too.
    """
    line, colluders = decode(EventLine, data), contract.promise and contract.promise.colluders
    if line.at < 0 and line.at not in map(STAGES.__getitem__, stages):
        raise CheckFailed(f"round {line.at} is of a stage that its header has not: {list(stages)}")
    event = _event(line, records)
    if (relation := relation_of(event)) not in ("replace-one", contract.adjacency):
        raise CheckFailed(f"holds for {relation}, the header is of {contract.adjacency}")
    if isinstance(event, DiscreteGaussian):
        if (event.parts > 1) != (colluders is not None):  # masked where the header says so, and nowhere else
            raise CheckFailed(f"has noise of {event.agents} agents, which its header does not say")
        if event.colluders != (colluders or 0):
            raise CheckFailed(f"colluders is {event.colluders}, the header's is {colluders or 0}")
    try:
        totals = grown(totals, event)
        expected = with_digest(event_start(line.at, event, totals, contract), line.previous)
        if expected != data:
            _compare(*map(to_builtins, (line, decode(EventLine, expected))))
    except ArithmeticError:
        raise CheckFailed(f"{event.mechanism}: its cost exceeds every number") from None
    return line, event, totals


def _event(line: EventLine, records: int) -> Event:
    try:
        event = from_parameters(line.mechanism, line.parameters)
    except AdmmnetError as error:
        raise CheckFailed(str(error)) from None
    if encode(line.parameters) != encode(parameters(event)):
        raise CheckFailed("parameters are not as admmnet writes them: one is unknown, or spelt anew")
    if isinstance(event, SubsampledGaussian) and event.steps > 1:  # coins of one step need none: Theorem 24
        batch = event.rate * records
        if round(batch) < 1 or abs(batch - round(batch)) > TOLERANCE * batch:
            raise CheckFailed(f"rate is {event.rate!r}, no whole batch of the header's {records} records")
    if isinstance(event, ObjectivePerturbation | GammaNorm):
        if event.records != records:
            raise CheckFailed(f"records is {event.records}, the header's is {records}")
        slope = 0.5 * event.sensitivity * event.records  # G, under replace-one
        if isinstance(event, ObjectivePerturbation) and not _close(event.lipschitz, slope):
            right = 2.0 * event.lipschitz / event.records
            raise CheckFailed(f"sensitivity is {event.sensitivity!r}, under replace-one {right!r}")
        if event.logistic and not _close(event.curvature, 0.25 * slope * slope):
            raise CheckFailed(f"curvature is {event.curvature!r}, for a logistic loss lipschitz^2/4")
    return event


def _compare(line: dict[str, Any], expected: dict[str, Any], where: str = "") -> None:
    """Hold numbers of a line against those recomputed."""
    if line.keys() != expected.keys():
        raise CheckFailed(f"{where}keys are {', '.join(line)}, expected {', '.join(expected)}")
    for key, right in expected.items():
        wrong, name = line[key], f"{where}{key}"
        if isinstance(right, dict):
            _compare(wrong, right, f"{name}.")
        elif not same(wrong, right):
            raise CheckFailed(f"{name} is {short(wrong, 60)}, recomputed {right!r}")


def same(wrong: Any, right: Any) -> bool:
    """Whether a figure is the one recomputed: numbers of another machine may differ by `TOLERANCE`."""
    return _close(wrong, right) if type(wrong) is type(right) is float else bool(wrong == right)


def _close(wrong: float, right: float) -> bool:
    same_sign = math.copysign(1.0, wrong) == math.copysign(1.0, right)  # tells -0.0 from 0.0
    return same_sign and abs(wrong - right) <= TOLERANCE * min(abs(wrong), abs(right))


def hold_budget(contract: Contract, totals: Totals) -> None:
    """Hold totals against the filter by which they were guarded."""
    if not contract.affords(totals):
        spent = totals.epsilon_proven(contract.promise.delta if contract.promise else 1.0)
        raise CheckFailed(f"epsilon_spent comes to {spent!r}, above the limit of the header's filter")
