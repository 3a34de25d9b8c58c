"""Verification of the lines that DVP, M-ADMM and R-ADMM write: ``gamma-norm`` and ``none``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig
from admmnet.privacy.events import Event, GammaNorm, NoRecords, parameters
from admmnet.privacy.ledger import audit
from tests.planned import Planned, calibrated

from .ledgers import Change, chained, fails, fault, forged, header_of, parsed, put, under
from .test_audit_forged import surviving

FORM_NAMES = ("published", "proven")
FORMS = pytest.mark.parametrize("form", FORM_NAMES)


def noise_of(form: str, *, logistic: bool = True, convexity: float = 2.0) -> Planned:
    """Either loss has G = 1 and c1 = 1/4."""
    loss: dict[str, Any] = {"loss": "logistic"} if logistic else {"loss": "smoothed-hinge", "loss_width": 2.0}
    own = RunConfig(algorithm="r-admm", method=form, accountant=form)
    settings = own.changed(rounds=4, beta=1e-8, **loss)
    return calibrated(7000, convexity, 1.0, 1e-4, settings, penalty=min(convexity, 2.0), width=9)


def book(form: str = "published", **others: Any) -> bytes:
    """Ledger of an honest run: rounds 0 and 2 release, rounds 1 and 3 read no record."""
    noise, events = noise_of(form, **others), list[tuple[int, Event]]()
    for t in range(4):
        events += [(t, NoRecords())] if t % 2 else [(t, event) for event in noise.release]
    return forged(header_of(noise.contract, "r-admm"), events)


@FORMS
def test_honest_ledgers_hold(path: Path, form: str) -> None:
    data = book(form)
    path.write_bytes(data)
    account, noise = audit.read(path), noise_of(form)
    assert account.finished
    release = [*noise.release]
    events = [*release, NoRecords(), *release, NoRecords()]
    assert [event for _, event, _ in account.events] == events
    assert account.totals.rho == pytest.approx(noise.worst_case.rho, rel=1e-12)
    norm, none = parsed(data)[1], parsed(data)[3]
    assert norm["parameters"] == parameters(noise.release[0])
    assert ("penalty" in norm["parameters"]) is (form == "published")
    assert norm["parameters"]["logistic"] is True
    assert (none["mechanism"], none["parameters"], none["rho"]) == ("none", {}, 0.0)
    assert none["total"] == parsed(data)[2]["total"]
    assert parsed(data)[6]["total"] == parsed(data)[5]["total"] != none["total"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.update(records=7001), "line 2: records is 7001, the header's is 7000"),
        (lambda p: p.update(curvature=0.2), "line 2: curvature is 0.2, for a logistic loss lipschitz^2/4"),
        (lambda p: p.update(sensitivity=1.0 / 7000), "for a logistic loss lipschitz^2/4"),
        (lambda p: p.update(rate=0.999 * p["rate"]), "line 2: rho is "),
        (lambda p: p.update(rate=(1.0 - 1e-8) * p["rate"]), "line 2: rho is "),
        (lambda p: p.update(penalty=2.1), "line 2: rho_published is "),
        (lambda p: p.update(rate=-1.0), "rate: expected a number above 0.0; it is -1.0"),
        (lambda p: p.update(dimension=0), "dimension: expected a whole number of at least 1; it is 0"),
        (lambda p: p.update(dimension=9.0), "dimension: expected a whole number; it is 9.0"),
        (
            lambda p: p.update(penalty=None),
            "parameters[...]: expected true or false or a whole number or a number or text, got null",
        ),
        (lambda p: p.update(logistic=False), "line 2: parameters are not as admmnet writes them"),
        (lambda p: p.update(more=1.0), "line 2: parameters are not as admmnet writes them"),
        (lambda p: p.pop("dimension"), "missing key `dimension`"),
        (lambda p: p.pop("penalty"), "line 2: rho_published is "),
        (lambda p: p.clear(), "gamma-norm: missing key `sensitivity`"),
    ],
)
def test_other_numbers_are_found(path: Path, change: Callable[[Any], Any], words: str) -> None:
    lines = parsed(book())
    change(lines[1]["parameters"])
    assert words in fault(path, chained(lines))


def test_the_logistic_case_cannot_be_claimed_by_another_loss(path: Path) -> None:
    lines = parsed(book("proven", logistic=False))
    assert not fails(path, chained(lines))
    lines[1]["parameters"]["logistic"] = True
    assert "line 2: rho is " in fault(path, chained(lines))
    lines[1]["parameters"]["curvature"] = 0.26
    assert "for a logistic loss lipschitz^2/4" in fault(path, chained(lines))
    # nor may a logistic loss's convexity be larger than it was, where curvature costs something
    lines = parsed(book("proven", convexity=5e-4))
    norm = noise_of("proven", convexity=5e-4).release[0]
    assert isinstance(norm, GammaNorm)
    assert norm.rate * norm.sensitivity < 8 * 0.25 / (7000 * 5e-4), "(L) does not apply"
    lines[1]["parameters"]["convexity"] = 1.0
    assert "line 2: rho is " in fault(path, chained(lines))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put(3, parameters={"rho": 0.0}), "line 4: parameters are not as admmnet writes them"),
        (put(3, rho=1e-300), "line 4: rho is 1e-300, recomputed 0.0"),
        (put(3, rho=None), "line 4: rho is None, recomputed 0.0"),
        (put(3, rho=0), "line 4: it is not as admmnet writes it"),
        (put(3, rho=-0.0), "line 4: rho is -0.0, recomputed 0.0"),
        (put(3, rho_published=None), "line 4: rho_published is None, recomputed 0.0"),
        (put(3, "total", rho=0.0), "line 4: total.rho is 0.0"),
        (put(3, mechanism="None"), "line 4: unknown mechanism 'None'"),
        (put(3, mechanism="unprotected"), "line 4: rho is 0.0"),
        # a round that released something, passed off as one that read nothing
        (put(1, mechanism="none", parameters={}), "line 2: rho is "),
        (lambda lines: lines.pop(1), "line 2: total.rho is "),
    ],
)
def test_a_round_without_records_is_what_it_says(path: Path, change: Change, words: str) -> None:
    lines = parsed(book())
    change(lines)
    assert words in fault(path, chained(lines))


def test_lines_of_no_cost_can_be_left_out_by_who_hashes_again(path: Path) -> None:
    """As every rewriting of a whole file that keeps to its plan; the digest in summary.json shows it."""
    lines = parsed(book())
    del lines[3]
    lines[-1]["events"] -= 1
    assert not fails(path, chained(lines))
    lines = parsed(book())
    lines[1]["parameters"]["dimension"] = 10  # enters no cost, but the plan says 9
    assert "line 2: asks gamma-norm" in fault(path, chained(lines))
    lines[0]["filter"]["planned"][0][1]["dimension"] = 10
    assert "line 5: asks gamma-norm" in fault(path, chained(lines)), "the other release"
    lines[4]["parameters"]["dimension"] = 10
    assert not fails(path, chained(lines))


@FORMS
def test_a_ledger_beyond_its_plan_or_its_budget_is_found(path: Path, form: str) -> None:
    noise = noise_of(form)
    header, release = header_of(noise.contract, "r-admm"), [(0, event) for event in noise.release]
    assert not fails(path, forged(header, 2 * release))
    assert "more of it is charged than its plan has" in fault(path, forged(header, 3 * release))
    for count, fits in ((2, True), (3, False)):
        more = header_of(under(tuple((event, count) for event in noise.release), 1.0, form, form), "r-admm")
        assert fails(path, forged(more, count * release)) is not fits
    assert "line 1: its plan comes to more than the budget's epsilon, 1.0" in fault(path, path.read_bytes())


@pytest.mark.parametrize("index", [1, 3])
def test_nothing_in_a_line_escapes_as_another_exception(path: Path, index: int) -> None:
    passed = surviving(path, parsed(book()), index)
    same = {(("parameters", "logistic"), "true"), (("parameters",), "{}")}
    free = {(("parameters", "convexity"), "1e308")}  # of a logistic loss at this slope it enters no cost
    assert passed <= same | free, "which is what stood there"


def test_costs_beyond_all_numbers_are_found(path: Path) -> None:
    line = parsed(book())[1]
    null = {"rho": None, "xi": 0.0, "epsilon_spent": None, "epsilon_published": None}
    huge: list[dict[str, Any]] = [
        {"rate": 1e308, "sensitivity": 1e300},
        {"rate": 1e308},
        {"curvature": 1e300, "convexity": 1e-300},
        {"curvature": 1e308, "penalty": 1e-300},
        {"curvature": 1e308, "convexity": 5e-324, "penalty": 5e-324},
    ]
    for values, form, total, rho in product(huge, FORM_NAMES, (line["total"], null), (line["rho"], None)):
        own = {**line["parameters"], **values}
        del own["logistic"]
        event = {**line, "parameters": own, "rho": rho, "rho_published": rho, "total": total}
        header = parsed(book(form))[0]
        assert fails(path, chained([header, event])), values
        header["filter"]["planned"] = [["gamma-norm", own, 1]]
        assert "line 1: " in fault(path, chained([header, event])), "nor can a plan have it"
