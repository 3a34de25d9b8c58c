"""Events go into a ledger and come back; whatever else stands in a ledger is refused, with words."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import pytest

from admmnet.errors import RequestError
from admmnet.privacy.events import (
    EVENTS,
    AboveThreshold,
    DiscreteGaussian,
    Event,
    GammaNorm,
    GammaNormVector,
    Gaussian,
    Laplace,
    NoRecords,
    ObjectivePerturbation,
    SubsampledGaussian,
    Unprotected,
    check,
    from_parameters,
    parameters,
    relation_of,
)

FULL: list[Event] = [
    ObjectivePerturbation(2.0 / 50, 1e300, 1.0, 0.25, 1e-300, 50, True, True, 0.5, "quadratic"),
    Gaussian(6e-4, 0.22, 2.0 / 7000, 0.005, 0.5),
    Laplace(2e-3, 1797.4, gate_epsilon=0.037),
    AboveThreshold(0.01, 0.1, 0.16),
    GammaNorm(2.0 / 50, 1e-300, 1, 0.25, 1e300, 50, penalty=2.0, logistic=True),
    GammaNormVector(2.0, 0.25, 105),
    SubsampledGaussian(1.19, 1000 / 347786, 17350, "poisson"),
    DiscreteGaussian(2.0, 63.7, 2.0**-26, 105),
]
EXAMPLES: list[Event] = [
    *FULL,
    ObjectivePerturbation(2.0 / 7000, 0.007, 1.0, 0.25, 1.05, 7000),
    Gaussian(6e-4, 0.22),
    Laplace(2e-3, 1797.4),
    Laplace(2e-3, 1797.4, gate_epsilon=0.0),
    GammaNorm(2.0 / 7000, 300.0, 105, 0.25, 1.05, 7000),
    SubsampledGaussian(1e-3, 1.0, 1, "fixed"),
    NoRecords(),
    Unprotected(),
]
OPTIONAL = {
    "lam",
    *("gated", "logistic", "one_sided", "gate_epsilon", "penalty", "agents", "colluders", "noise_share"),
    *("objective_sensitivity", "objective_sigma"),
}
BAD: list[Any] = [math.nan, math.inf, -1.0, -1, -5e-324, 10**309, 10**5000, 1j, None, "1", [1.0], {}]


def refusal(mechanism: str, values: dict[str, Any]) -> str:
    with pytest.raises(RequestError) as caught:
        from_parameters(mechanism, values)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 400
    return message


@pytest.mark.parametrize("event", EXAMPLES, ids=repr)
def test_round_trip_through_a_ledger_line(event: Event) -> None:
    values = json.loads(json.dumps(parameters(event)))
    back = from_parameters(event.mechanism, values)
    assert back == event
    check(event)
    assert list(values) == list(parameters(back))
    assert [type(value) for value in values.values()] == [type(value) for value in parameters(back).values()]
    assert None not in values.values()
    assert False not in [value for value in values.values() if isinstance(value, bool)]
    if event in FULL:
        assert set(values) == {field.name for field in fields(event)}
    for name in set(values) - OPTIONAL:
        rest = {key: value for key, value in values.items() if key != name}
        assert f"missing key `{name}`" in refusal(event.mechanism, rest)


def test_the_rest_of_the_form() -> None:
    assert {event.mechanism for event in EXAMPLES} == set(EVENTS)
    assert json.dumps(parameters(Gaussian(1, 2))) == '{"sensitivity": 1.0, "sigma": 2.0}'
    assert from_parameters("gaussian", {"sensitivity": 1, "sigma": 2}) == Gaussian(1.0, 2.0)
    for mechanism in ("", "Gaussian", "\x1b[2J", "x" * 10_000):
        assert refusal(mechanism, {"sensitivity": 1.0, "sigma": 1.0}).startswith("unknown mechanism ")
    with pytest.raises(RequestError, match="sigma: expected"):
        check(Gaussian(1.0, -1.0))
    relations = {sampling: relation_of(SubsampledGaussian(1.0, 0.5, 1, sampling)) for sampling in ("fixed", "shown")}
    assert relations == {"fixed": "replace-one", "shown": "zero-out"}
    assert {relation_of(event) for event in EXAMPLES if not isinstance(event, SubsampledGaussian)} == {"replace-one"}


@pytest.mark.parametrize("event", FULL, ids=lambda event: event.mechanism)
def test_values_that_are_no_parameters_are_refused(event: Event) -> None:
    for name in parameters(event):
        for bad in BAD:
            if bad is None and name in OPTIONAL:
                continue  # never written
            message = refusal(event.mechanism, {**parameters(event), name: bad})
            assert message.startswith((f"{event.mechanism}: {name}: ", f"{event.mechanism}: {name} must be ")), message
        for bad in (0.0, -0.0, 0, True, False):
            whole, boolean = {**parameters(event), name: bad}, isinstance(bad, bool)
            if name == "colluders" and type(bad) is int:
                assert from_parameters(event.mechanism, whole) == event
            elif (name == "gate_epsilon" and not boolean) or (name in ("gated", "logistic", "one_sided") and boolean):
                back = from_parameters(event.mechanism, whole)
                assert math.copysign(1.0, parameters(back).get(name, 0.0)) == 1.0, "-0.0 is written 0.0"
            else:
                assert f": {name}: expected " in refusal(event.mechanism, whole)


@pytest.mark.parametrize(
    ("event", "changed", "words"),
    [
        (FULL[0], {"records": 7000.0}, "records: expected a whole number"),
        (FULL[4], {"dimension": 2**53 + 1}, "dimension: expected a whole number"),
        (FULL[0], {"noise_share": 1.5}, "noise_share: expected a number of at most 1.0; it is 1.5"),
        (FULL[6], {"rate": 1.5}, "rate: expected a number of at most 1.0; it is 1.5"),
        (FULL[6], {"sampling": "odd"}, "sampling: Invalid enum value 'odd'"),
        (FULL[1], {"objective_sigma": None}, "together"),
        (FULL[1], {"objective_sensitivity": None}, "together"),
        (FULL[7], {"grid": 1e-9}, "grid must be a power of two"),
        (FULL[7], {"grid": 64.0}, "at most sigma = 63.7"),
        (FULL[7], {"colluders": 1}, "agents must be at least colluders + 2"),
        (FULL[7], {"agents": 5, "colluders": 4}, "agents must be at least colluders + 2"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(event: Event, changed: dict[str, Any], words: str) -> None:
    assert words in refusal(event.mechanism, {**parameters(event), **changed})


def test_the_least_noise_of_a_part_and_the_least_sensitivity_are_allowed() -> None:
    """12 steps of the grid in each part; grid sqrt(dimension)."""
    least = DiscreteGaussian(2.0 * math.sqrt(9.0), 12.0 * 2.0 * math.sqrt(4.0), 2.0, 9, 4, 0)
    assert from_parameters(least.mechanism, parameters(least)) == least
    assert "12 steps" in refusal(least.mechanism, {**parameters(least), "sigma": 47.9})
    assert "sqrt(dimension)" in refusal(least.mechanism, {**parameters(least), "sensitivity": 5.99})
