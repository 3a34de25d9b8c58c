"""Check one line of a ledger: its canonical form, its numbers, its cost, recomputed from its parameters alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from admmnet.errors import AdmmnetError, CheckFailed
from admmnet.privacy.budget import SHARED, Totals, grown
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    GammaNorm,
    ObjectivePerturbation,
    SubsampledGaussian,
    from_parameters,
    is_count,
    is_positive,
    parameters,
    relation_of,
    shown,
)
from admmnet.privacy.filters import Count
from admmnet.privacy.ledger.form import SCHEMA, Header, encode, event_bytes, event_line, filter_of

TOLERANCE = 1e-9
"""Relative difference allowed between a recorded cost and its recomputation on another machine."""


def parse(data: bytes) -> dict[str, Any]:
    """Line of these bytes, which are what ``encode`` makes of it."""
    fault = "is not JSON"
    try:
        line = json.loads(data)
        fault = "is not in the canonical form that admmnet writes"
        if isinstance(line, dict) and encode(line) == data:
            return line
    except (ValueError, RecursionError):  # NaN, 1e999, a lone surrogate, too deep
        pass
    raise CheckFailed(fault)


def is_digest(value: object) -> bool:
    """Whether a value from a file is a sha256 in hexadecimal."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_budget(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"epsilon", "delta"}:
        return False
    epsilon, delta = value["epsilon"], value["delta"]
    return epsilon is delta is None or (is_positive(epsilon) and is_positive(delta) and delta < 1)


_HEADER: dict[str, Callable[[Any], bool]] = {
    "agent": lambda value: is_count(value, 0),
    "neighbours": lambda value: isinstance(value, list) and all(is_count(j, 0) for j in value),
    "records": is_count,
    "adjacency": lambda value: value in ("replace-one", "zero-out"),
    "budget": _is_budget,
    "accountant": lambda value: value in ("proven", "published"),
    "method": lambda value: value in ("proven", "published"),
    "account": lambda value: value is None or is_digest(value),
    "noise": lambda value: value in ("private", "seeded"),
    "mode": lambda value: value in ("simulation", "private"),
    "loss": lambda value: value is None or isinstance(value, str),
    "loss_digest": lambda value: value is None or is_digest(value),
    "weight": lambda value: value is None or is_positive(value),
    "covered": lambda value: value in (None, False),
    "colluders": lambda value: value is None or is_count(value, 0),
    "group_size": lambda value: value is None or is_count(value, 2),
    **dict.fromkeys(("algorithm", "preprocessing", "admmnet"), lambda value: isinstance(value, str)),
}


def header_of(line: dict[str, Any], *, account: bool = False) -> tuple[dict[str, Any], Contract]:
    """Return the line, which is a header, and its contract; that of an ``account`` has a filter over all runs."""
    if line.get("kind") != "header":
        raise CheckFailed("is not a header")
    if line.get("schema") != SCHEMA:
        raise CheckFailed(
            f"schema {shown(line.get('schema'))} is not the one this version reads, {SCHEMA}: read it with the version "
            "of admmnet that made it" + ("; what it has spent counts on top of a new account's" if account else "")
        )
    for name, good in _HEADER.items():
        if not good(line.get(name)):
            raise CheckFailed(f"{name} = {shown(line.get(name))} is out of range")
    contract = _contract(line)
    if (contract.promise is None) != (contract.filter is None) or (account and contract.account is None):
        raise CheckFailed("has a budget without a filter that keeps it, or a filter without a budget")
    try:
        sound = contract.sound()
    except ArithmeticError:
        sound = False
    if not sound:
        raise CheckFailed(f"its plan comes to more than the budget's epsilon, {line['budget']['epsilon']!r}")
    names = "agent", "records", "algorithm", "noise", "preprocessing", "mode", "account", "loss", "loss_digest"
    given: dict[str, Any] = {name: line.get(name) for name in (*names, "weight")}
    header = Header(neighbours=line["neighbours"], contract=contract, version=line["admmnet"], **given).line()
    clipped, right = line.get("delta_clipping"), header.get("delta_clipping")
    if right is not None and not (isinstance(clipped, float) and _close(clipped, right)):
        raise CheckFailed(f"delta_clipping is {shown(clipped)}, recomputed {right!r}")
    header |= {} if right is None else {"delta_clipping": clipped}  # another machine's last bits
    # agents of a network have neighbours, and replace-one
    if encode(header) != encode(line) or (line["adjacency"] == "zero-out" and line["neighbours"]):
        raise CheckFailed(f"is not a replace-one header, nor a zero-out one: {', '.join(header)}")
    return line, contract


def _contract(line: dict[str, Any]) -> Contract:
    """Contract of a header whose values are in range."""
    epsilon, delta = line["budget"]["epsilon"], line["budget"]["delta"]
    form, covered = line["method"], line.get("covered") is None
    if epsilon is None:
        return Contract(form=form, covered=covered)
    promise = Promise(
        float(epsilon),
        float(delta),
        line["accountant"],
        line["adjacency"],
        line.get("group_size") or 1,
        line.get("colluders"),
    )
    try:
        filters = (filter_of(line.get(name), promise.epsilon, promise.delta) for name in ("filter", "account_filter"))
        run, account = filters
    except AdmmnetError as error:
        raise CheckFailed(f"filter: {error}") from None
    if isinstance(account, Count):
        raise CheckFailed("account_filter: an account adds up what its runs spend, and has no plan")
    return Contract(promise, run, account, form, covered)


def run_header(line: dict[str, Any], before: dict[str, Any]) -> tuple[dict[str, Any], Contract]:
    """Header of another run of an account; records, delta, filter and relation are those of the run before."""
    header, contract = header_of(
        {key: value for key, value in {**line, "kind": "header"}.items() if key != "previous"}, account=True
    )
    own, asked = ({**one, **one["budget"]} for one in (before, header))
    for name in ("agent", "records", "adjacency", "delta"):
        if own[name] != asked[name]:
            raise CheckFailed(f"{name} is {shown(asked[name])}, the account's is {shown(own[name])}")
    first, filter = before["account_filter"], header["account_filter"]
    if (first["order"], first["parts"]) != (filter["order"], filter["parts"]) or filter["kappa"] > first["kappa"]:
        raise CheckFailed(f"account_filter is {shown(filter)}, the account's is {shown(first)}")
    return header, contract


def resumed_at(line: dict[str, Any], header: dict[str, Any]) -> int:
    """Round from which a run goes on, whose noise no seed can make again; charges before it stand."""
    round_ = line.get("round")
    if list(line) != ["kind", "round", "previous"] or not is_count(round_, 0) or header["noise"] != "private":
        raise CheckFailed("is not the resumption of a private run")
    return round_


def facts_of(header: dict[str, Any]) -> tuple[Any, ...]:
    """What a header says that its events are held against."""
    return tuple(map(header.get, ("records", "adjacency", "colluders")))


def taken(contract: Contract, left: tuple[int, ...], event: Event) -> tuple[int, ...]:
    """What a plan leaves after an event, which it has planned."""
    if not isinstance(contract.filter, Count):
        return left
    try:
        found = contract.filter.take(left, (event,))
    except AdmmnetError as error:
        raise CheckFailed(str(error)) from None
    if found is None:
        raise CheckFailed(f"{event.mechanism}: more of it is charged than its header plans")
    return found


@lru_cache(maxsize=4 * SHARED)  # most agents of a run have the same lines, but for their chains
def charged(
    data: bytes, totals: Totals, contract: Contract, facts: tuple[Any, ...]
) -> tuple[int, Event, dict[str, Any], Totals]:
    """Round, event and line of a checked event, whose ``previous`` is empty, and the totals with it; all shared."""
    line = parse(data)
    records, adjacency, colluders = facts
    round_, event = _event(line, records)
    if (relation := relation_of(event)) not in ("replace-one", adjacency):
        raise CheckFailed(f"holds for {relation}, the header is of {adjacency}")
    if isinstance(event, DiscreteGaussian):
        if (event.parts > 1) != (colluders is not None):  # masked where the header says so, and nowhere else
            raise CheckFailed(f"has noise of {event.agents} agents, which its header does not say")
        if event.colluders != (colluders or 0):
            raise CheckFailed(f"colluders is {event.colluders}, the header's is {colluders or 0}")
    try:
        totals = grown(totals, event)
        if event_bytes(round_, event, totals, contract, "") != data:
            _compare(line, event_line(round_, event, totals, contract, ""))
    except ArithmeticError:
        raise CheckFailed(f"{event.mechanism}: its cost exceeds every number") from None
    return round_, event, line, totals


def _event(line: dict[str, Any], records: int) -> tuple[int, Event]:
    kind, at, name, values = map(line.get, ("kind", "round", "mechanism", "parameters"))
    if kind != "event" or not is_count(at, 0) or not isinstance(name, str) or not isinstance(values, dict):
        raise CheckFailed("is neither an event nor the end")
    try:
        event = from_parameters(name, values)
    except AdmmnetError as error:
        raise CheckFailed(str(error)) from None
    if encode(values) != encode(parameters(event)):
        raise CheckFailed("parameters are not in the canonical form that admmnet writes")
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
    return at, event


def _compare(line: dict[str, Any], expected: dict[str, Any], where: str = "") -> None:
    if list(line) != list(expected):
        raise CheckFailed(f"{where or 'line'} has the keys {shown(list(line))}, expected {', '.join(expected)}")
    for key, right in expected.items():
        wrong, name = line[key], f"{where}{key}"
        if isinstance(right, dict) and isinstance(wrong, dict):
            if key != "parameters":  # they were compared as they were read
                _compare(wrong, right, f"{name}.")
        elif type(wrong) is not type(right) or not (
            _close(wrong, right) if isinstance(right, float) else wrong == right
        ):
            raise CheckFailed(f"{name} is {shown(wrong)}, recomputed {right!r}")


def _close(wrong: float, right: float) -> bool:
    same_sign = math.copysign(1.0, wrong) == math.copysign(1.0, right)  # tells -0.0 from 0.0
    return same_sign and abs(wrong - right) <= TOLERANCE * min(abs(wrong), abs(right))


def hold_budget(contract: Contract, totals: Totals) -> None:
    """Hold totals against the filter by which they were guarded."""
    if not contract.keeps(totals):
        spent = totals.epsilon_proven(contract.delta or 1.0)
        raise CheckFailed(f"epsilon_spent comes to {spent!r}, above what the header's filter lets through")
