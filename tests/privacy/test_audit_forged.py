"""Ledgers by an attacker who hashes everything again: what still shows, and that nothing escapes ``CheckFailed``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.forms import encode
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import MemoryLedger
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.events import Event, Gaussian, Laplace, Unprotected
from admmnet.privacy.filters import Spend
from admmnet.privacy.ledger.form import event_line
from admmnet.privacy.ledger.lines import digest

from .ledgers import (
    HEADER,
    IPP,
    PP,
    Change,
    Lines,
    builtins,
    chained,
    fails,
    fault,
    forged,
    header_of,
    limited,
    noise_of,
    parsed,
    put,
    under,
    write,
)


def spend(order: float | None, kappa: float = 0.0, parts: int | None = 1) -> dict[str, Any]:
    return {"by": "spend", "order": order, "kappa": kappa, "parts": parts}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[1].update(rho=0.5 * lines[1]["rho"]), "line 2: rho is "),
        (lambda lines: lines[1].update(rho=lines[1]["rho"] * (1 + 1e-8)), "line 2: rho is "),
        (put(1, rho=None), "line 2: rho is None"),
        (put(1, xi=0), "line 2: it is not as admmnet writes it"),
        (put(1, xi=-0.0), "line 2: xi is -0.0, recomputed 0.0"),
        (put(1, xi=False), "line 2: xi: expected a number or null; it is False"),
        (put(1, rho_published=0.0), "line 2: rho_published is 0.0"),
        (put(2, "total", rho=0.0), "line 3: total.rho is 0.0"),
        (put(2, "total", epsilon_spent=0.1), "line 3: total.epsilon_spent is 0.1"),
        (put(2, "total", epsilon_if_all_collude=None), "line 3: total.keys are "),
        (put(2, "total", more=1.0), "line 3: total: unknown key `more`"),
        (lambda lines: lines[2]["total"].pop("xi"), "line 3: total: missing key `xi`"),
        (put(1, more=1), "line 2: unknown key `more`"),
        (lambda lines: lines[1].update(round=lines[1].pop("round")), "line 2: it is not as admmnet writes it"),
        (put(1, "parameters", sigma=1.0), "line 2: rho is "),
        (put(1, "parameters", sigma=0), "sigma: expected a number above 0.0; it is 0"),
        (put(1, "parameters", lipschitz=1), "line 2: parameters are not as admmnet writes them"),
        (put(1, "parameters", gated=False), "line 2: parameters are not as admmnet writes them"),
        (put(1, "parameters", more=1.0), "line 2: parameters are not as admmnet writes them"),
        (
            lambda lines: lines[1]["parameters"].update(sigma=lines[1]["parameters"].pop("sigma")),
            "line 2: parameters are not as admmnet writes them",
        ),
        (put(1, "parameters", records=7001), "line 2: records is 7001, the header's is 7000"),
        (put(1, "parameters", sensitivity=1.0 / 7000), "under replace-one"),
        (put(1, "parameters", logistic=True, curvature=0.2), "for a logistic loss"),
        (lambda lines: lines[1]["parameters"].pop("sigma"), "missing key `sigma`"),
        (put(1, mechanism="laplace"), "line 2: laplace: missing key `scale`"),
        (put(1, mechanism="magic"), "line 2: unknown mechanism 'magic'"),
        (put(1, mechanism=["gaussian"]), "line 2: mechanism: expected text"),
        (put(1, round=True), "line 2: round: expected a whole number; it is True"),
        (put(1, round=0.0), "line 2: round: expected a whole number; it is 0.0"),
        (put(1, round=-4), "line 2: round: expected a whole number of at least -3; it is -4"),
        (put(1, round=7), "line 3: round 0 stands behind round 7"),
        (put(1, kind="header"), "line 2: unknown key `round`"),
        (lambda lines: lines.insert(1, dict(lines[0])), "line 2: unknown key `previous`"),
        (lambda lines: lines.insert(1, lines[0] | {"kind": "run"}), "line 2: is the beginning of another run"),
        (put(1, kind="end"), "line 2: unknown key `round`"),
        (put(3, events=1), "line 4: is not the end of the 2 events"),
        (put(3, events=2.0), "line 4: events: expected a whole number; it is 2.0"),
        (put(3, "total", xi=-0.0), "line 4: is not the end of the 2 events"),
        (put(3, account="0" * 64), "line 4: it is not as admmnet writes it"),
        (lambda lines: lines[3].update(account="0" * 64, previous=lines[3].pop("previous")), "line 4: is not the end"),
        (lambda lines: lines[3]["total"].update(rho=lines[3]["total"]["rho"] * (1 + 3e-16)), "line 4: is not the end"),
        (lambda lines: lines.insert(2, dict(lines[3])), "line 3: is not the end of the 1 events"),
        (lambda lines: lines.append(dict(lines[3])), "line 5: stands behind the end line"),
        (lambda lines: lines.append(dict(lines[1])), "line 5: stands behind the end line"),
        (lambda lines: lines.insert(1, dict(lines[1])), "line 3: total.rho is "),
        (lambda lines: lines.pop(1), "line 2: total.rho is "),
        (put(0, budget={"epsilon": 0.1, "delta": 1e-4}), "line 1: its plan comes to more than the budget's"),
        (put(0, budget={"epsilon": True, "delta": 1e-4}), "line 1: budget.epsilon: expected a number or null"),
        (put(0, budget={"epsilon": None, "delta": 1e-4}), "line 1: is not the replace-one header"),
        (put(0, budget={"epsilon": 1.0, "delta": None}), "line 1: is not the replace-one header"),
        (put(0, budget={"epsilon": 1.0, "delta": 1}), "line 1: budget.delta: expected a number below 1.0; it is 1"),
        (put(0, budget={"delta": 1e-4, "epsilon": 1.0}), "line 1: it is not as admmnet writes it"),
        (put(0, adjacency="zero-out"), "line 1: is not the zero-out header"),
        (put(0, unit="person"), "line 1: unit: Invalid enum value 'person'"),
        (put(0, mode="public"), "line 1: mode: Invalid enum value 'public'"),
        (put(0, accountant="moments"), "line 1: accountant: Invalid enum value 'moments'"),
        *((put(0, schema=n), f"schema: Invalid enum value {n}; read it with the version") for n in (1, 2, 4)),
        *((put(0, schema=n), "; read it with the version") for n in (2.0, None)),
        (put(0, records=0), "line 1: records: expected a whole number of at least 1; it is 0"),
        (put(0, records=8000), "line 2: records is 7000, the header's is 8000"),
        (put(0, agent=2**53 + 1), "line 1: agent: expected a whole number of at most "),
        (put(0, neighbours="14"), "line 1: neighbours: expected a list; it is '14'"),
        (put(0, more=1), "line 1: unknown key `more`"),
        (put(0, filter=None), "line 1: it is not as admmnet writes it"),
        (lambda lines: lines[0].pop("filter"), "line 1: has a budget without a filter"),
        (put(0, "filter", planned=[]), "line 1: is not the replace-one header"),
        (put(0, "filter", planned=[["gaussian", {"sensitivity": 1.0}, 1]]), "line 1: filter: gaussian: missing key"),
        (put(0, "filter", planned=[["unprotected", {}, 1]]), "line 1: its plan comes to more"),
        (put(0, filter=spend(2.0, parts=None)), "line 1: filter.parts: expected a whole number"),
        (put(0, filter=spend(0.5)), "line 1: filter.order: expected a number above 1.0"),
        (put(0, filter=spend(2.5)), "line 1: delta_clipping is"),
        (put(0, filter=spend(None, kappa=-0.5)), "line 1: filter.kappa: expected a number of at least 0.0"),
        (put(0, filter=spend(None, kappa=0.5)), "line 1: filter: kappa is 0.5, at most "),
        (put(0, filter=spend(None, parts=0)), "line 1: filter.parts: expected a whole number of at least 1"),
        (lambda lines: lines[0]["filter"]["planned"][0].append(1), "filter.planned[0]: expected a list of length 3"),
        (
            lambda lines: lines[0]["filter"]["planned"][0].__setitem__(2, 0),
            "planned[0][2]: expected a whole number of at least 1",
        ),
        (lambda lines: lines[0]["filter"]["planned"].pop(0), "line 1: delta_clipping is "),
        (put(0, account_filter={"by": "count", "planned": []}), "line 1: account_filter.by: Invalid value 'count'"),
        (put(0, covered=True), "line 1: it is not as admmnet writes it"),
        (put(0, group_size=1), "line 1: group_size: expected a whole number of at least 2; it is 1"),
        (lambda lines: lines[0].pop("shards"), "line 1: missing key `shards`"),
        (lambda lines: lines[0].pop("mode"), "line 1: missing key `mode`"),
        (put(0, kind="event"), "line 1: kind: Invalid value 'event'"),
    ],
)
def test_what_does_not_fit_is_found_though_all_hashes_are_right(path: Path, change: Change, words: str) -> None:
    lines = parsed(write(path))
    assert chained(lines) == path.read_bytes()
    change(lines)
    assert words in fault(path, chained(lines))


def test_what_an_attacker_can_write_who_recomputes_everything(path: Path) -> None:
    """A ledger holds itself together; it cannot prove that it is the one that was written.

    Who may rewrite the whole file can claim other noise, other rounds, a larger budget, as long as every cost
    follows from its parameters, the header's plan has every event and fits the header's budget. Only the digest
    in summary.json, kept or published elsewhere, shows that.
    """
    honest = write(path)
    noise = noise_of(PP)
    less = replace(noise.objective, sigma=2.0 * noise.objective.sigma)
    lies: list[list[tuple[int, Event]]] = [[(0, less), (0, noise.release)], [(0, noise.release)], []]
    for events in lies:
        lie = forged(HEADER, events)
        assert lie != honest
        assert not fails(path, lie)
    dearer = replace(noise.objective, sigma=0.999 * noise.objective.sigma)
    assert "line 2: asks objective-perturbation" in fault(path, forged(HEADER, [(0, dearer)]))
    more: list[tuple[int, Event]] = [(r, noise.objective) for r in range(8)]
    assert "line 5: objective-perturbation: more of it is charged" in fault(path, forged(HEADER, more))
    plan = ((noise.objective, 8),)
    assert "its plan comes to more" in fault(path, forged(header_of(under(plan)), more))
    assert not fails(path, forged(header_of(under(plan, 3.0)), more))


@pytest.mark.parametrize("accountant", ["proven", "published"])
def test_a_ledger_beyond_its_budget_is_found(path: Path, accountant: str) -> None:
    event: Event = Laplace(1e-6, 1.0, gate_epsilon=0.2) if accountant == "published" else Gaussian(0.2, 1.0)

    def header(count: int, planned: int) -> bytes:
        return forged(header_of(under(((event, planned),), 1.0, accountant)), [(0, event)] * count)

    count = 0
    while count < 2 or not fails(path, header(count, count)):
        count += 1
        assert count < 100
    assert "line 1: its plan comes to more than the budget's epsilon" in fault(path, header(count, count))
    assert not under(((event, count),), 1.0, accountant).sound()
    assert under(((event, count - 1),), 1.0, accountant).sound()
    assert f"line {count + 1}: {event.mechanism}: more of it" in fault(path, header(count, count - 1))
    plan = header_of(under(((event, 1),), 1.0, accountant))
    assert "asks unprotected" in fault(path, forged(plan, [(0, Unprotected())]))


@pytest.mark.parametrize("order", [None, *np.searchsorted(ORDERS, (12.0, 20.0)).tolist()])
def test_a_ledger_beyond_its_limit_is_found(path: Path, order: int | None) -> None:
    """Of a method that cannot list its steps: Theorem 5."""
    header, event = header_of(limited(Spend(1.0, 1e-4, order))), Gaussian(0.1, 1.0)
    guard, count = MemoryLedger(header.contract), 0
    while guard.affords((event,)):
        guard.charge(0, event)
        count += 1
        assert count < 100
    assert count > 1
    assert not fails(path, forged(header, [(0, event)] * count))
    told = fault(path, forged(header, [(0, event)] * (count + 1)))
    assert "epsilon_spent comes to" in told
    assert "above the limit of the header's filter" in told
    assert "epsilon_spent comes to inf" in fault(path, forged(header, [(0, Unprotected())]))


NASTY = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "-0.0", "1E5", "01", "1.", "+1", "1e-400"),
    *("null", "true", "false", "[]", "{}", "-1", "-5e-324", "5e-324", "2e308", "1" + "0" * 308, "9" * 400),
    *('"x"', '""', '"\\ud800"', '"\\u0000\\u001b[2J"', "9" * 5000, "-" + "9" * 400, "[" * 100_000),
    *("[" * 500 + "]" * 500, "[" * 100_000 + "]" * 100_000),
    *('{"a":' * 900 + "1" + "}" * 900, '"' + "x" * 100_000 + '"'),
]


Where = tuple[str | int, ...]
"""Keys of tables and places in lists, from the outermost on."""


def places(value: Any, prefix: Where = ()) -> Iterator[Where]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*prefix, key)
        yield from places(inner, (*prefix, key))


def with_literal(line: dict[str, Any], place: Where, literal: str) -> bytes:
    copy = json.loads(json.dumps(line))
    inner: Any = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = "@literal@"
    return encode(copy).replace(b'"@literal@"', literal.encode())


def surviving(path: Path, lines: Lines, index: int) -> set[tuple[Where, str]]:
    """Places of a line and literals that verification lets stand there."""
    passed = set()
    for place in places(lines[index]):
        for literal in NASTY:
            out: list[bytes] = []
            for number, line in enumerate(lines[: index + 1]):
                line = {**line, "previous": digest(out[-1])} if out else line
                out.append(with_literal(line, place, literal) if number == index else encode(line))
            if not fails(path, b"\n".join([*out, b""])):
                passed.add((place, literal))
    return passed


@pytest.mark.parametrize("index", range(5))
def test_nothing_in_a_line_escapes_as_another_exception(path: Path, index: int) -> None:
    noise = noise_of(IPP)
    assert noise.gate is not None
    events: list[tuple[int, Event]] = [(1, noise.objective), (1, noise.gate.first), (1, noise.release)]
    header = header_of(noise.contract, "ipp-admm")
    lines = parsed(forged(header, events))
    assert not fails(path, forged(header, events))
    passed = surviving(path, lines, index)
    # texts and the numbers of an agent, of records, of a budget can be any; no event and no end line passes
    if index:
        assert passed <= {(("parameters", "gated"), "true")}, "which is what stood there"
    else:
        assert {place[0] for place, _ in passed} <= {
            *("agent", "neighbours", "budget", "filter", "delta_clipping"),
            *("algorithm", "preprocessing", "admmnet"),
        }


@pytest.mark.parametrize("tiny", [1e-300, 5e-324, 1e-160])
def test_costs_beyond_all_numbers_are_found(path: Path, tiny: float) -> None:
    line = builtins(event_line(0, Gaussian(1.0, 1.0), Totals(), HEADER.contract))
    plain = {"sensitivity": 1.0, "sigma": 1.0}
    objective = {"lipschitz": 1.0, "curvature": 0.25, "convexity": 1.0, "records": 7000, **plain}
    values = itertools.product((1.0, tiny), (1.0, 1e300), (0.25, 1e300), (1.0, tiny))
    odd = [dict(zip(("sigma", "lipschitz", "curvature", "convexity"), row, strict=True)) for row in values]
    events = [
        ("gaussian", plain | {"sigma": tiny}),
        ("gaussian", plain | {"sensitivity": 1e300, "sigma": tiny}),
        ("gaussian", plain | {"objective_sensitivity": 1e300, "objective_sigma": tiny}),
        ("laplace", {"sensitivity": 1e300, "scale": tiny, "gate_epsilon": 1e300}),
        ("above-threshold", {"sensitivity": 1.0, "epsilon_threshold": 1.5e308, "epsilon_query": 1.5e308}),
        *(
            ("objective-perturbation", objective | own | {"sensitivity": 2.0 * own["lipschitz"] / 7000})
            for own in odd[1:]
        ),
    ]
    null = {"rho": None, "xi": 0.0, "epsilon_spent": None, "epsilon_published": None}
    cases = itertools.product(events, ("proven", "published"), (line["total"], null), ({}, {"rho_published": None}))
    for (mechanism, parameters), accountant, total, claim in cases:
        header = builtins(HEADER.line()) | {"accountant": accountant}
        own = {"mechanism": mechanism, "parameters": parameters, "rho": None, "total": total}
        assert fails(path, chained([header, line | own | claim])), (mechanism, parameters)
        header["filter"] = {"by": "count", "planned": [[mechanism, parameters, 1]]}
        assert "line 1: " in fault(path, chained([header, line | own | claim])), "nor can a plan have it"
