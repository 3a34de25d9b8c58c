"""Ledgers by an attacker who hashes everything again: what still shows, and that nothing escapes ``CheckFailed``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet.forms import encode
from admmnet.privacy.budget import Totals, empty
from admmnet.privacy.contract import STAGES, Contract, Filter, MemoryLedger, Promise
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    GammaNorm,
    Gaussian,
    Laplace,
    NoRecords,
    SubsampledGaussian,
    Unprotected,
)
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.form import NO_DIGEST, event_start, with_digest
from admmnet.privacy.ledger.lines import digest

from .ledgers import (
    HEADER,
    IPP,
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

Book = Callable[[], bytes]


def placed(**where: object) -> Change:
    """Return the change that says anew where the first event was charged."""

    def change(lines: Lines) -> None:
        kind, _, *rest = lines[1].items()
        lines[1] = dict([kind, *where.items(), *rest])

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[1].update(rho=lines[1]["rho"] * (1 + 1e-8)), "line 2: rho is "),
        (put(1, xi=0), "line 2: it is not as admmnet writes it"),
        (put(1, rho_published=0.0), "line 2: rho_published is 0.0"),
        (put(2, "total", epsilon_spent=0.1), "line 3: total.epsilon_spent is 0.1"),
        (put(2, "total", epsilon_if_all_collude=None), "line 3: total.keys are "),
        (put(1, more=1), "line 2: unknown key `more`"),
        (put(1, "parameters", sigma=0), "sigma: expected a number above 0.0; it is 0"),
        (put(1, "parameters", gated=False), "line 2: parameters are not as admmnet writes them"),
        (put(1, "parameters", records=7001), "line 2: records is 7001, the header's is 7000"),
        (put(1, "parameters", sensitivity=1.0 / 7000), "under replace-one"),
        (put(1, "parameters", logistic=True, curvature=0.2), "for a logistic loss"),
        (put(1, mechanism="magic"), "line 2: unknown mechanism 'magic'"),
        (put(1, round=-4), "line 2: round: expected a whole number of at least 0; it is -4"),
        (put(1, round=7), "line 3: round 0 stands behind round 7"),
        (placed(round=0, stage="whiten"), "line 2: an event has either a round or a stage"),
        (placed(stage="whiten"), "line 2: round -1 is of a stage that its header has not"),
        (placed(), "line 2: an event has either a round or a stage"),
        (lambda lines: lines.insert(1, lines[0] | {"kind": "run"}), "line 2: is the beginning of another run"),
        (put(3, events=1), "line 4: is not the end of the 2 events"),
        (lambda lines: lines[3].update(account="0" * 64, previous=lines[3].pop("previous")), "line 4: is not the end"),
        (lambda lines: lines[3]["total"].update(rho=lines[3]["total"]["rho"] * (1 + 3e-16)), "line 4: is not the end"),
        (lambda lines: lines.insert(2, dict(lines[3])), "line 3: is not the end of the 1 events"),
        (lambda lines: lines.append(dict(lines[3])), "line 5: stands behind the end line"),
        (lambda lines: lines.pop(1), "line 2: total.rho is "),
        (put(0, budget={"epsilon": 0.1, "delta": 1e-4}), "epsilon_spent comes to|line 1: delta_clipping is"),
        (put(0, budget={"epsilon": None, "delta": 1e-4}), "line 1: has a budget without a filter"),
        (put(0, adjacency="zero-out"), "line 1: is not the zero-out header"),
        (put(0, schema=3), "schema: Invalid enum value 3; read it with the version"),
        (put(0, account="x" * 64), "line 1: it is not as admmnet writes it|line 1: account: expected text"),
        (lambda lines: lines[0].pop("filter"), "line 1: has a budget without a filter"),
        (put(0, "filter", draws=10**9), "line 1: delta_clipping is "),
        (put(0, "filter", order=1.0), "filter.order: expected|order: expected"),
        (put(0, "filter", order=12.66), "line 1: its filter lets through more than the budget's"),
        (put(0, "filter", kappa=0.5), "line 1: its filter lets through more than the budget's"),
        (put(0, "filter", kappa=-0.0), "line 1: a bound of its filter is below 0"),
        (put(0, covered=True), "line 1: it is not as admmnet writes it"),
    ],
)
def test_what_does_not_fit_is_found_though_all_hashes_are_right(path: Path, change: Change, words: str) -> None:
    lines = parsed(write(path))
    assert chained(lines) == path.read_bytes()
    change(lines)
    told = fault(path, chained(lines))
    assert any(word in told for word in words.split("|"))


def contract_of(event: Event, adjacency: str = "replace-one", colluders: int | None = None) -> Contract:
    worst = Totals.of(((event, 6),), "proven")
    filter = Filter.of(9.0, 1e-4, worst, getattr(event, "parts", 1))
    return Contract(Promise(9.0, 1e-4, adjacency=adjacency, colluders=colluders), filter)


def book_of(event: Event, rounds: tuple[int, ...] = (0,), stages: tuple[str, ...] = (), **words: Any) -> Book:
    """Make a ledger of one kind of event; under zero-out nobody hears of its agent."""
    neighbours = () if words.get("adjacency") else (1, 4)
    header = header_of(contract_of(event, **words), noise="private", neighbours=neighbours, stages=stages)
    return partial(forged, header, [(round_, event) for round_ in rounds])


SUM, MASKED = DiscreteGaussian(0.01, 1.5, 2.0**-30, 100), DiscreteGaussian(0.01, 1.5, 2.0**-30, 100, 5, 1)
COINS, BATCHES = SubsampledGaussian(50.0, 0.010001, 1, "poisson"), SubsampledGaussian(50.0, 0.01, 9, "poisson")
"""Theorem 24 asks for no whole batch of coins that are tossed once."""


@pytest.mark.parametrize(
    ("book", "change", "words"),
    [
        (book_of(COINS, adjacency="zero-out"), None, ""),
        (book_of(COINS), None, "line 2: holds for zero-out, the header is of replace-one"),
        (book_of(COINS, adjacency="zero-out"), put(0, neighbours=[1]), "line 1: is not the zero-out header"),
        (book_of(BATCHES, adjacency="zero-out"), None, ""),
        (book_of(BATCHES, adjacency="zero-out"), put(1, "parameters", rate=0.010001), "no whole batch of the header's"),
        (book_of(MASKED, colluders=1), None, ""),
        (book_of(MASKED, colluders=1), put(0, colluders=2), "line 2: colluders is 1, the header's is 2"),
        (book_of(MASKED, colluders=1), put(0, colluders=0), "header's"),
        (book_of(MASKED, colluders=1), lambda lines: lines[0].pop("colluders"), "replace-one"),
        (book_of(MASKED), None, "line 2: has noise of 5 agents, which its header does not say"),
        (book_of(SUM, colluders=1), None, "line 2: has noise of 1 agents, which its header does not say"),
        (book_of(SUM), put(1, "parameters", grid=1e-9), "line 2: discrete-gaussian: grid must be a power of two"),
        (book_of(SUM, (-3, -2, -1, 0, 0), tuple(STAGES)), None, ""),
        (book_of(SUM, (-2,), ("shape", "whiten")), None, ""),
        (book_of(SUM, (-3,), ("shape", "whiten")), None, r"round -3 is of a stage that its header has not: ['shape', "),
        (book_of(SUM, (-2, -3), tuple(STAGES)), None, "round -3 stands behind round -2"),
        (book_of(SUM, (0, -1), tuple(STAGES)), None, "round -1 stands behind round 0"),
    ],
)
def test_relations_masks_and_stages_are_those_of_the_header(
    path: Path, book: Book, change: Change | None, words: str
) -> None:
    lines = parsed(book())
    if change is not None:
        change(lines)
    if words:
        assert words in fault(path, chained(lines))
    else:
        assert not fails(path, chained(lines))


# rivals: gamma-norm and none


RIVAL = GammaNorm(2.0 / 7000, 200.0, 9, 0.25, 4.7e-3, 7000, logistic=True)
"""Of a convexity so small that the curvature costs something."""


@cache
def rival(norm: GammaNorm = RIVAL) -> bytes:
    """Ledger of two rounds, the second of which reads no record."""
    events: list[tuple[int, Event]] = [(0, norm), (0, Gaussian(4e-5, 0.01)), (1, NoRecords())]
    return forged(header_of(under(tuple((event, 1) for _, event in events)), "r-admm"), events)


def test_a_rivals_curvature_cannot_be_made_cheaper(path: Path) -> None:
    """By another convexity, or by the logistic case of another loss."""
    for norm, change in ((RIVAL, {"convexity": 1.0}), (replace(RIVAL, logistic=False), {"logistic": True})):
        lines = parsed(rival(norm))
        assert not fails(path, chained(lines))
        lines[1]["parameters"] |= change
        assert "line 2: rho is " in fault(path, chained(lines))


# budgets


ORDER = [None, *np.searchsorted(ORDERS, (12.0, 20.0)).tolist()]
LIMITS = [limited(Filter.keeping(1.0, 1e-4, order)) for order in ORDER]
BOOKED = Laplace(1e-6, 1.0, gate_epsilon=0.2)


@pytest.mark.parametrize(
    ("contract", "event"),
    [*((own, Gaussian(0.1, 1.0)) for own in LIMITS), (under(((BOOKED, 50),), 1.0, "published"), BOOKED)],
    ids=["mu^2", "order 12", "order 20", "published"],
)
def test_a_ledger_beyond_its_limit_is_found(path: Path, contract: Contract, event: Event) -> None:
    header, guard, count = header_of(contract), MemoryLedger(contract), 0
    while guard.affords((event,)):
        guard.charge(0, event)
        count += 1
    assert count > 0
    assert not fails(path, forged(header, [(0, event)] * count))
    assert "epsilon_spent comes to" in fault(path, forged(header, [(0, event)] * (count + 1)))
    assert "epsilon_spent comes to inf" in fault(path, forged(header, [(0, Unprotected())]))


def test_a_limit_is_that_of_the_budget(path: Path) -> None:
    """Epsilon of a header is its budget's alone: a larger limit in its currency is found, a smaller one keeps more."""
    one = Gaussian(0.1, 1.0)
    for order in (None, 300):
        limit = Filter.keeping(1.0, 1e-4, order)
        for times, fits in ((1.0, True), (0.9, True), (1.0 + 1e-6, False), (50.0, False)):
            header = header_of(limited(structs.replace(limit, limit=times * limit.most_added)))
            told = forged(header, [(0, one)])
            assert fails(path, told) is not fits
            assert fits or "its filter lets through more than the budget's epsilon, 1.0" in fault(path, told)
    steps = under(((BATCHES, 1),), 1.0, "proven").filter
    assert steps is not None
    for own in (structs.replace(Filter.keeping(1.0, 1e-4), draws=2**41), structs.replace(steps, limit=5.0)):
        assert "its filter lets through more" in fault(path, forged(header_of(limited(own)), []))
    first = Laplace(1e-6, 1.0, gate_epsilon=0.0)
    booked = forged(header_of(under(((BOOKED, 50),), 1.0, "published")), [(0, first)])
    assert "line 2: a first comparison books no gate_epsilon" in fault(path, booked)
    over = header_of(replace(limited(Filter.keeping(1.0, 1e-4)), account=steps))
    assert "a budget without a filter that keeps it" in fault(path, forged(over, []))


def test_a_changed_start_stands_between_its_rounds(path: Path) -> None:
    one = Gaussian(0.1, 1.0)
    header = header_of(limited(Filter.keeping(1.0, 1e-4)), neighbours=(1,))
    start = {"kind": "start", "round": 1, "neighbours": [1], "previous": ""}
    own = parsed(forged(header, [(0, one), (1, one)]))
    path.write_bytes(chained([*own[:2], start, *own[2:]]))
    assert [changed.round for changed in audit.read(path).changed] == [1]
    assert "is no start of round 0" in fault(path, chained([*own[:2], {**start, "round": 0}, *own[2:]]))


# any value in any place

NASTY = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "-0.0", "1E5", "01", "1.", "+1", "1e-400"),
    *("null", "true", "false", "[]", "{}", "-1", "-5e-324", "5e-324", "2e308", "1" + "0" * 308, "9" * 400),
    *('"x"', '""', '"\\ud800"', '"\\u0000\\u001b[2J"', "9" * 5000, "[" * 100_000, "[" * 500 + "]" * 500),
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


@cache
def gated() -> bytes:
    noise = noise_of(IPP)
    events: list[tuple[int, Event]] = [(1, noise.objective), (1, noise.gate[0]), (1, noise.release[-1])]
    return forged(header_of(noise.contract, "ipp-admm"), events)


@pytest.mark.parametrize(("book", "index"), [*((gated, index) for index in range(5)), (rival, 1), (rival, 3)])
def test_nothing_in_a_line_escapes_as_another_exception(path: Path, book: Book, index: int) -> None:
    lines, passed = parsed(book()), set[tuple[Where, str]]()
    for place in places(lines[index]):
        for literal in NASTY:
            out: list[bytes] = []
            for number, line in enumerate(lines[: index + 1]):
                line = {**line, "previous": digest(out[-1])} if out else line
                out.append(with_literal(line, place, literal) if number == index else encode(line))
            if not fails(path, b"\n".join([*out, b""])):
                passed.add((place, literal))
    if index:  # no event and no end line passes, but with what stood there, or where it enters no cost
        same = {(("parameters", "gated"), "true"), (("parameters", "logistic"), "true"), (("parameters",), "{}")}
        assert passed <= same | {(("parameters", "convexity"), "1e308")}
    else:  # texts and the numbers of an agent, of records, of a budget can be any
        assert {place[0] for place, _ in passed} <= {
            *("agent", "neighbours", "budget", "filter", "delta_clipping"),
            *("algorithm", "preprocessing", "admmnet"),
        }


@pytest.mark.parametrize("tiny", [1e-300, 5e-324])
def test_costs_beyond_all_numbers_are_found(path: Path, tiny: float) -> None:
    line = json.loads(with_digest(event_start(0, Gaussian(1.0, 1.0), empty("published"), HEADER.contract), NO_DIGEST))
    plain = {"sensitivity": 1.0, "sigma": 1.0}
    norm = {**plain, "dimension": 9, "curvature": 1e308, "records": 7000}
    events: list[tuple[str, dict[str, Any]]] = [
        ("gaussian", {"sensitivity": 1e300, "sigma": tiny}),
        ("gaussian", plain | {"objective_sensitivity": 1e300, "objective_sigma": tiny}),
        ("laplace", {"sensitivity": 1e300, "scale": tiny, "gate_epsilon": 1e300}),
        ("above-threshold", {"sensitivity": 1.0, "epsilon_threshold": 1.5e308, "epsilon_query": 1.5e308}),
        ("gamma-norm", {**norm, "rate": 1e308, "convexity": 1.0}),
        ("gamma-norm", {**norm, "rate": 1.0, "convexity": tiny, "penalty": tiny}),
    ]
    lists = ((1.0, tiny), (1.0, 1e300), (0.25, 1e300), (1.0, tiny))
    for sigma, lipschitz, curvature, convexity in [*itertools.product(*lists)][1:]:
        values = {"sensitivity": 2.0 * lipschitz / 7000, "sigma": sigma, "lipschitz": lipschitz}
        rest = {"curvature": curvature, "convexity": convexity, "records": 7000}
        events.append(("objective-perturbation", values | rest))
    null = {"rho": None, "xi": 0.0, "epsilon_spent": None, "epsilon_published": None}
    cases = itertools.product(events, ("proven", "published"), (line["total"], null), ({}, {"rho_published": None}))
    for (mechanism, parameters), accountant, total, claim in cases:
        header = builtins(HEADER.line) | {"accountant": accountant}
        charge = line | {"mechanism": mechanism, "parameters": parameters, "rho": None, "total": total} | claim
        assert fails(path, chained([header, charge])), (mechanism, parameters)
