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
    from_parameters,
    parameters,
)

EXAMPLES: list[Event] = [
    ObjectivePerturbation(2.0 / 7000, 0.007, 1.0, 0.25, 1.05, 7000),
    ObjectivePerturbation(2.0 / 50, 1e300, 1.0, 0.25, 1e-300, 50, True, True, 0.5, True),
    Gaussian(6e-4, 0.22),
    Gaussian(6e-4, 0.22, 2.0 / 7000, 0.005, 0.5),
    Laplace(2e-3, 1797.4),
    Laplace(2e-3, 1797.4, gate_epsilon=0.0),
    Laplace(2e-3, 1797.4, gate_epsilon=0.037),
    AboveThreshold(0.01, 0.1, 0.16),
    Unprotected(),
    GammaNorm(2.0 / 7000, 300.0, 105, 0.25, 1.05, 7000),
    GammaNorm(2.0 / 50, 1e-300, 1, 0.25, 1e300, 50, penalty=2.0, logistic=True),
    GammaNorm(2.0 / 50, 25.0, 2, 1.0, 0.5, 50, penalty=0.5),
    NoRecords(),
    GammaNormVector(2.0, 0.25, 105),
    SubsampledGaussian(1.19, 1000 / 347786, 17350, "poisson"),
    SubsampledGaussian(1e-3, 1.0, 1, "fixed"),
    DiscreteGaussian(2.0, 63.7, 2.0**-26, 105),
]
OPTIONAL = {
    *("gated", "logistic", "one_sided", "gate_epsilon", "penalty", "agents", "colluders", "noise_share"),
    *("objective_sensitivity", "objective_sigma"),
}
FULL: list[Event] = [EXAMPLES[k] for k in (1, 3, 6, 7, 10, 13, 14, -1)]
BAD: list[Any] = [
    *(math.nan, math.inf, -math.inf, -1.0, -1, -5e-324, 10**309, 10**5000, -(10**5000), 1j),
    *(None, "1", "", [1.0], {}),
]


def refusal(mechanism: str, values: dict[str, Any]) -> str:
    with pytest.raises(RequestError) as caught:
        from_parameters(mechanism, values)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 400
    return message


def test_examples_cover_every_mechanism() -> None:
    assert {event.mechanism for event in EXAMPLES} == set(EVENTS)
    assert {event.mechanism for event in FULL} == {name for name, kind in EVENTS.items() if fields(kind)}
    assert all(set(parameters(event)) == {field.name for field in fields(event)} for event in FULL)


@pytest.mark.parametrize("event", EXAMPLES, ids=repr)
def test_round_trip_through_a_ledger_line(event: Event) -> None:
    values = json.loads(json.dumps(parameters(event)))
    back = from_parameters(event.mechanism, values)
    assert back == event
    assert list(values) == list(parameters(back))
    assert [type(value) for value in values.values()] == [type(value) for value in parameters(back).values()]
    assert None not in values.values()
    assert False not in [value for value in values.values() if isinstance(value, bool)]


def test_integers_become_the_floats_that_they_are() -> None:
    event = from_parameters("gaussian", {"sensitivity": 1, "sigma": 2})
    assert event == Gaussian(1.0, 2.0)
    assert json.dumps(parameters(Gaussian(1, 2))) == '{"sensitivity": 1.0, "sigma": 2.0}'
    assert json.dumps(parameters(event)) == '{"sensitivity": 1.0, "sigma": 2.0}'


@pytest.mark.parametrize("event", FULL, ids=lambda event: event.mechanism)
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
def test_values_that_are_no_parameters_are_refused(event: Event, bad: Any) -> None:
    for name in parameters(event):
        if bad is None and name in OPTIONAL:
            continue  # never written
        message = refusal(event.mechanism, {**parameters(event), name: bad})
        assert message.startswith((f"{event.mechanism}: {name}: ", f"{event.mechanism}: {name} must be ")), message


@pytest.mark.parametrize("event", FULL, ids=lambda event: event.mechanism)
@pytest.mark.parametrize("bad", [0.0, -0.0, 0, True, False])
def test_zero_and_booleans_are_no_sizes(event: Event, bad: float) -> None:
    for name in parameters(event):
        boolean = isinstance(bad, bool)
        if name == "colluders" and type(bad) is int:
            assert from_parameters(event.mechanism, {**parameters(event), name: bad}) == event
        elif (name == "gate_epsilon" and not boolean) or (name in ("gated", "logistic", "one_sided") and boolean):
            back = from_parameters(event.mechanism, {**parameters(event), name: bad})
            assert math.copysign(1.0, parameters(back).get(name, 0.0)) == 1.0, "-0.0 is written 0.0"
        else:
            assert f": {name}: expected " in refusal(event.mechanism, {**parameters(event), name: bad})


@pytest.mark.parametrize("count", [7000.0, 7000.5, 2**53 + 1, 0, -7000, True])
def test_records_and_dimensions_are_counted(count: float) -> None:
    for event, names in ((EXAMPLES[0], ("records",)), (EXAMPLES[10], ("records", "dimension"))):
        for name in names:
            assert f"{name}: expected a whole number" in refusal(event.mechanism, {**parameters(event), name: count})


@pytest.mark.parametrize("event", EXAMPLES, ids=repr)
def test_missing_parameters_are_named(event: Event) -> None:
    for name in set(parameters(event)) - OPTIONAL:
        rest = {key: value for key, value in parameters(event).items() if key != name}
        assert f"missing key `{name}`" in refusal(event.mechanism, rest)


def test_shares_are_at_most_the_whole() -> None:
    for event, name in ((EXAMPLES[1], "noise_share"), (EXAMPLES[3], "noise_share"), (EXAMPLES[14], "rate")):
        message = refusal(event.mechanism, {**parameters(event), name: 1.5})
        assert f"{name}: expected a number of at most 1.0; it is 1.5" in message


def test_discrete_noise_is_one_agents_on_a_grid_of_two() -> None:
    values = parameters(DiscreteGaussian(2.0, 63.7, 2.0**-26, 105))
    for changed, words in (
        ({"grid": 1e-9}, "grid must be a power of two"),
        ({"grid": 64.0}, "at most sigma = 63.7"),
        ({"sensitivity": 1e-12}, "sensitivity must be at least grid sqrt(dimension)"),
        ({"colluders": 1}, "agents must be at least colluders + 2"),
        ({"agents": 5, "colluders": 4}, "agents must be at least colluders + 2"),
        ({"agents": 2**30, "grid": 2.0**-10}, "a sigma of at least 12 steps"),
    ):
        assert words in refusal("discrete-gaussian", {**values, **changed})


@pytest.mark.parametrize("mechanism", ["", "Gaussian", "GAUSSIAN", "None", "\x1b[2J", "x" * 10_000])
def test_unknown_mechanisms_are_refused(mechanism: str) -> None:
    message = refusal(mechanism, {"sensitivity": 1.0, "sigma": 1.0})
    assert message.startswith("unknown mechanism ")
    assert all(name in message for name in EVENTS)


def test_half_of_a_candidate_is_refused() -> None:
    whole = parameters(FULL[1])
    for name in ("objective_sensitivity", "objective_sigma"):
        assert "together" in refusal("gaussian", {key: value for key, value in whole.items() if key != name})
