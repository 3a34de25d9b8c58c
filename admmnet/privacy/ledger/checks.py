"""Check one line of a ledger: its canonical form, its numbers, its cost, recomputed from its parameters alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from admmnet.errors import AdmmnetError, CheckFailed
from admmnet.privacy import moments
from admmnet.privacy.budget import SHARED, SLACK, Totals, grown
from admmnet.privacy.conversion import loose_rho
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
from admmnet.privacy.ledger.form import SCHEMA, Header, encode, event_bytes, event_line

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


_HEADER: dict[str, Callable[[Any], bool]] = {  # of what may be None, `Header` leaves most out then
    "agent": lambda value: is_count(value, 0),
    "neighbours": lambda value: isinstance(value, list) and all(is_count(j, 0) for j in value),
    "records": is_count,
    "adjacency": lambda value: value in ("replace-one", "zero-out"),
    "budget": _is_budget,
    "accountant": lambda value: value in ("proven", "published"),
    "order": lambda value: value is None or (is_positive(value) and value > 1),
    "account": lambda value: value is None or is_digest(value),
    "noise": lambda value: value in ("private", "seeded"),
    "mode": lambda value: value in (None, "simulation", "private"),
    "loss": lambda value: value is None or isinstance(value, str),
    "loss_digest": lambda value: value is None or is_digest(value),
    "weight": lambda value: value is None or is_positive(value),
    "trust": lambda value: value in (None, "masked"),
    "colluders": lambda value: value is None or is_count(value, 0),
    "accounting": lambda value: value in (None, "moments"),
    "delta_clipping": lambda value: value is None or (is_positive(value) and value <= 1),
    **dict.fromkeys(
        ("method", "algorithm", "preprocessing", "admmnet"), lambda value: isinstance(value, str)
    ),
}


def header_of(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line, which is a header."""
    if line.get("kind") != "header":
        raise CheckFailed("is not a header")
    if line.get("schema") not in (1, SCHEMA):
        raise CheckFailed(f"schema {shown(line.get('schema'))} is not one this version reads (1, {SCHEMA})")
    for name, good in _HEADER.items():
        if not good(line.get(name)):
            raise CheckFailed(f"{name} = {shown(line.get(name))} is out of range")
    if (line.get("trust") is None) != (line.get("colluders") is None):
        raise CheckFailed("trust and colluders stand together, or neither does")
    values: dict[str, Any] = {name: line.get(name) for name in _HEADER if name not in ("budget", "admmnet")}
    header = Header(version=line["admmnet"], **line["budget"], **values).line()
    # agents of a network have neighbours, and replace-one
    if encode(header) != encode(line) or (line["adjacency"] == "zero-out" and line["neighbours"]):
        raise CheckFailed(f"is not a replace-one header, nor a zero-out one: {', '.join(header)}")
    return line


def run_header(line: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Header of another run of an account; records, delta, order and relation are those of the run before."""
    header = header_of({key: value for key, value in {**line, "kind": "header"}.items() if key != "previous"})
    own, asked = ({**one, **one["budget"]} for one in (before, header))
    for name in ("agent", "records", "order", "adjacency", "delta"):
        if own[name] != asked[name]:
            raise CheckFailed(f"{name} is {shown(asked[name])}, the account's is {shown(own[name])}")
    return header


def resumed_at(line: dict[str, Any], header: dict[str, Any]) -> int:
    """Round from which a run goes on, whose noise no seed can make again; charges before it stand."""
    round_ = line.get("round")
    if list(line) != ["kind", "round", "previous"] or not is_count(round_, 0) or header["noise"] != "private":
        raise CheckFailed("is not the resumption of a private run")
    return round_


def facts_of(header: dict[str, Any]) -> tuple[Any, ...]:
    """What a header says that its events are held against."""
    names = ("records", "adjacency", "trust", "colluders", "accounting")
    return header["budget"]["delta"], *map(header.get, names)


@lru_cache(maxsize=4 * SHARED)  # most agents of a run have the same lines, but for their chains
def charged(data: bytes, totals: Totals, facts: tuple[Any, ...]) -> tuple[int, Event, dict[str, Any], Totals]:
    """Round, event and line of a checked event, whose ``previous`` is empty, and the totals with it; all shared."""
    line = parse(data)
    delta, records, adjacency, trust, colluders, accounting = facts
    round_, event = _event(line, records)
    if (relation := relation_of(event)) not in ("replace-one", adjacency):
        raise CheckFailed(f"holds for {relation}, the header is of {adjacency}")
    if isinstance(event, DiscreteGaussian):
        if (event.parts > 1) != (trust == "masked"):  # masked where the header says so, and nowhere else
            raise CheckFailed(f"has noise of {event.agents} agents, which its header does not say")
        if event.colluders != (colluders or 0):
            raise CheckFailed(f"colluders is {event.colluders}, the header's is {colluders or 0}")
    try:
        totals = grown(totals, event)
        if event_bytes(round_, event, totals, delta, "") != data:
            if accounting is None:
                totals = moments.as_booked(totals, line, delta)
            _compare(line, event_line(round_, event, totals, delta, ""))
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
        raise CheckFailed(
            f"{where or 'line'} has the keys {shown(list(line))}, expected {', '.join(expected)}"
        )
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


def hold_budget(header: dict[str, Any], totals: Totals) -> None:
    """Hold the totals against the budget by which the run was guarded."""
    if header["budget"]["delta"] is None:
        return
    epsilon, delta = float(header["budget"]["epsilon"]), float(header["budget"]["delta"])
    spent: float | None
    if header["accountant"] == "proven":
        spent, limit, what = totals.epsilon_proven(delta), epsilon, "epsilon_spent"
    elif totals.alone is not None:
        spent, limit, what = totals.epsilon_published(delta), epsilon, "the published epsilon"
    else:
        spent, limit, what = totals.rho_published, loose_rho(epsilon, delta), "the published rho"
    if spent is None or not spent <= limit * (1.0 + TOLERANCE + SLACK):
        raise CheckFailed(f"{what} comes to {spent!r}, above the budget's {limit!r}")
