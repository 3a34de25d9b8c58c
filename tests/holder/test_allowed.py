"""Whom the door answers: our own measurements, made of plain numbers that make sense."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError
from admmnet.holder import Released, SimulatedHolder
from admmnet.holder.answers import KINDS, Measurement, same_fields
from admmnet.holder.known import Known
from admmnet.holder.measurements import ExactMinimiser, PerturbedMinimiser
from admmnet.holder.secrets import Secret
from admmnet.privacy.events import Event, GammaNorm
from admmnet.solvers.losses import Logistic
from admmnet.types import Vector

from . import doors
from .doors import ASKED, LINEAR, Book, D, N, ask, door_of


def test_every_measurement_is_here() -> None:
    """Series have tests of their own."""
    own = {kind for kind in KINDS if kind.__module__.startswith("admmnet.holder.measurements.")}
    assert {type(measurement) for measurement in ASKED.values()} == own


# who is answered


class FreeMinimiser(PerturbedMinimiser):
    """A subclass of ours that says it costs nothing."""

    def cost(self, known: Known) -> tuple[Event, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class Copied:
    """A class of its own that looks like one of ours and hands out rows."""

    def within(self, known: Known) -> Copied:
        return self

    def cost(self, known: Known) -> tuple[Event, ...]:
        return ()

    def carry_out(self, secret: Secret, known: Known) -> Vector:
        row: Vector = secret.solver.X[0]
        return row


class Disguised(Copied):
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ExactMinimiser


@pytest.mark.parametrize(
    "foreign", [FreeMinimiser(LINEAR, 0.5, 1e-8, 0.05, 1e-6), Copied(), Disguised(), object(), None]
)
def test_foreign_measurements_are_not_answered(foreign: Any) -> None:
    for reserve in (False, True):
        book = Book()
        with pytest.raises(RequestError, match=r"is no measurement of admmnet\.holder"):
            ask(door_of(book), *((ASKED["held gate"], foreign) if reserve else (foreign,)))
        assert book.log == []


class Lying(float):
    """A number whose arithmetic is not that of its value."""

    def _nothing(self, *others: Any) -> Any:
        return Lying(0.0)

    __truediv__ = __rtruediv__ = __mul__ = __rmul__ = __pow__ = _nothing

    def __lt__(self, other: Any) -> bool:
        return True

    __gt__ = __le__ = __ge__ = __lt__


class LyingVector(np.ndarray):
    """An array that says it is short, and changes when it is added to."""

    def __matmul__(self, other: Any) -> Any:
        return 0.0

    def __add__(self, other: Any) -> Any:
        return np.zeros(D)


@pytest.mark.parametrize("name", ASKED)
def test_foreign_values_in_fields_are_made_plain(name: str) -> None:
    honest = ASKED[name]
    told: dict[str, Any] = {}
    for field in fields(honest):
        value = getattr(honest, field.name)
        told[field.name] = Lying(value) if type(value) is float else value
        if isinstance(value, np.ndarray) and value.size:
            told[field.name] = value.copy().view(LyingVector)
    lying = type(honest)(**told)
    for field in fields(lying):
        assert type(getattr(lying, field.name)) is type(getattr(honest, field.name)), field.name
    books = [Book(), Book()]
    answers = [ask(door_of(book, asked=asked), asked) for book, asked in zip(books, (honest, lying), strict=True)]
    assert books[0].log == books[1].log
    assert_equal(*answers)


@pytest.mark.parametrize("name", ASKED)
def test_what_is_put_into_a_measurement_afterwards_is_left_outside(name: str) -> None:
    """Frozen values can be written to all the same: the door takes the fields alone, made plain again."""
    honest, tampered = ASKED[name], replace(ASKED[name])
    for method, lie in (("cost", lambda known: ()), ("within", lambda known: tampered)):
        object.__setattr__(tampered, method, lie)
    for field in fields(tampered):
        value = getattr(tampered, field.name)
        if type(value) is float:
            object.__setattr__(tampered, field.name, Lying(value))
    books = [Book(), Book()]
    answers = [ask(door_of(book, asked=asked), asked) for book, asked in zip(books, (honest, tampered), strict=True)]
    assert books[0].log == books[1].log
    assert_equal(*answers)


def assert_equal(one: Any, two: Any) -> None:
    assert isinstance(one, Released)
    assert isinstance(two, Released)
    assert np.array_equal(one.value, two.value)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "much", None, [1.0, 2.0]], ids=str)
def test_numbers_that_would_understate_a_cost_are_refused(name: str, value: Any) -> None:
    measurement = ASKED[name]
    free = {"threshold"} | ({"share", "gate_epsilon"} if value == 0.0 else {"scale"})
    for field in fields(measurement):
        if type(getattr(measurement, field.name)) is not float:
            continue
        if field.name in free and isinstance(value, float) and np.isfinite(value):
            assert getattr(replace(measurement, **{field.name: value}), field.name) == value
        elif not (value is None and "None" in str(field.type)):
            with pytest.raises(RequestError, match=f"{type(measurement).__name__}: {field.name}"):
                replace(measurement, **{field.name: value})


def test_equal_numbers_are_looked_at_once_and_equal_costs_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents of a network ask the same, round after round; what was put into a field afterwards is still found."""
    numbers, looked = (0.5123, 1.0377e-8, 0.2617, 0.1179), []

    def in_range(cls: type, name: str, value: Any) -> bool:
        looked.append(name)
        return bool(np.all(np.isfinite(value)))

    monkeypatch.setattr(PerturbedMinimiser, "in_range", classmethod(in_range))
    known = Known(10, D, Logistic(), frozenset())
    first, second = (PerturbedMinimiser(np.full(D, here), *numbers) for here in (0.0, 1.0))
    assert sorted(set(looked)) == sorted(["linear", "convexity", "beta", "sigma1", "sigma2"])
    assert [looked.count(name) for name in ("linear", "sigma1")] == [2, 1]
    assert first.cost(known)[0] is second.cost(known)[0]
    object.__setattr__(second, "sigma1", np.nan)
    with pytest.raises(RequestError, match="sigma1 is not finite"):
        same_fields(second)


class Same(float):
    """A number that says it is any other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def test_no_number_is_taken_for_another_that_says_it_is_equal() -> None:
    asked = ASKED["objective"]
    assert [replace(asked, sigma2=Same(size)).sigma2 for size in (5.0, 0.5)] == [5.0, 0.5]
    for wrong in (Same(-1.0), Same("nan"), ([1],)):
        with pytest.raises(RequestError, match="PerturbedMinimiser: sigma2"):
            replace(asked, sigma2=wrong)


class Scaled(Logistic):
    """A loss with a factor that its == leaves out, and without a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, factor: float) -> None:
        super().__init__("scaled")
        object.__setattr__(self, "steepest", factor)


def test_costs_are_those_of_the_doors_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = Scaled(1.0), Scaled(10.0)
    assert losses[0] == losses[1]
    found: list[Any] = []
    for loss in losses:
        monkeypatch.setattr(doors, "LOGISTIC", loss)
        ask(door_of(book := Book(), SimulatedHolder), ASKED["objective"])
        found.append(book.charged[0])
    assert [(event.sensitivity, event.lipschitz) for event in found] == [(2.0 / N, 1.0), (20.0 / N, 10.0)]


def test_a_range_of_a_measurement_itself_is_asked_every_time() -> None:
    """Those of other packages have it as a method, which may look at the fields before."""

    @dataclass(frozen=True, eq=False)
    class Paired(Measurement):
        least: float
        most: float

        def in_range(self, name: str, value: Any) -> bool:  # type: ignore[override]
            return super().in_range(name, value) and (name == "least" or value >= self.least)

    assert (Paired(1.0, 2.0).most, Paired(2.0, 2.0).least) == (2.0, 2.0)
    with pytest.raises(RequestError, match="Paired: most is"):
        Paired(3.0, 2.0)


@pytest.mark.parametrize("name", ASKED)
def test_vectors_are_finite_and_copied(name: str) -> None:
    measurement = ASKED[name]
    for field in fields(measurement):
        value = getattr(measurement, field.name)
        if isinstance(value, np.ndarray) and value.size:
            own = value.copy()
            kept = getattr(replace(measurement, **{field.name: own}), field.name)
            own[:] = 7.0
            assert np.array_equal(kept, value)
            own[1] = np.nan
            with pytest.raises(RequestError, match="is not finite"):
                replace(measurement, **{field.name: own})


@pytest.mark.parametrize("name", ["objective", "gamma", "comparison"])
def test_a_linear_term_of_another_length_is_refused(name: str) -> None:
    book = Book()
    for wrong in (np.ones(1), np.ones(D + 1), np.ones((1, D))):
        with pytest.raises(
            RequestError, match=rf"the linear term has {wrong.size} numbers, a model of these records has {D}"
        ):
            ask(door_of(book), replace(ASKED[name], linear=wrong))
    assert book.log == []


def test_a_convexity_is_booked_at_most_as_it_is_solved_with() -> None:
    dear = replace(ASKED["gamma"], booked=0.6)
    with pytest.raises(RequestError, match=r"booked convexity 0\.6 must be positive and at most the solve's, 0\.5"):
        ask(door_of(Book()), dear)
    book = Book()
    ask(door_of(book), replace(ASKED["gamma"], booked=0.25))
    event = book.charged[0]
    assert isinstance(event, GammaNorm)
    assert event.convexity == 0.25


@pytest.mark.parametrize("name", ["gaussian gate", "held gate"])
def test_a_gap_that_no_solve_can_certify_is_refused(name: str) -> None:
    book = Book()
    with pytest.raises(RequestError, match=r"a gap of 1e-17 cannot be certified for 40 records of 4 features"):
        ask(door_of(book), replace(ASKED[name], gap=1e-17))
    assert book.log == []
