"""Whom the door answers: our own measurements, made of plain numbers that make sense."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError
from admmnet.holder import Released, SimulatedHolder
from admmnet.holder.answers import KINDS, Known, Measurement
from admmnet.holder.measurements import ExactMinimiser, PerturbedMinimiser
from admmnet.privacy.events import Event
from admmnet.solvers.losses import Logistic

from . import doors
from .doors import ASKED, LINEAR, Book, D, N, ask, door_of


def test_every_measurement_is_here() -> None:
    """Series have tests of their own."""
    own = {kind for kind in KINDS if kind.__module__.startswith("admmnet.holder.measurements.")}
    assert {type(measurement) for measurement in ASKED.values()} == own


class FreeMinimiser(PerturbedMinimiser):
    """A subclass of ours that says it costs nothing."""

    def cost(self, known: Known) -> tuple[Event, ...]:
        return ()


class Disguised:
    """A class of its own that looks like one of ours."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ExactMinimiser


@pytest.mark.parametrize("foreign", [FreeMinimiser(LINEAR, 0.5, 1e-8, 0.05, 1e-6), Disguised(), object(), None])
def test_foreign_measurements_are_not_answered(foreign: Any) -> None:
    for asked in ((foreign,), (ASKED["objective"], foreign)):
        book = Book()
        with pytest.raises(RequestError, match=r"is no measurement of admmnet\.holder"):
            ask(door_of(book), *asked)
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
def test_the_door_takes_plain_fields_alone(name: str) -> None:
    """Whether a foreign value is given, or is put into a frozen measurement afterwards, beside other methods."""
    honest = ASKED[name]
    told: dict[str, Any] = {}
    for field in fields(honest):
        value = getattr(honest, field.name)
        told[field.name] = Lying(value) if type(value) is float else value
        if isinstance(value, np.ndarray) and value.size:
            told[field.name] = value.copy().view(LyingVector)
    lying, tampered = type(honest)(**told), replace(honest)
    for field in fields(lying):
        assert type(getattr(lying, field.name)) is type(getattr(honest, field.name)), field.name
    more = {"cost": lambda known: (), "within": lambda known: tampered}
    for attribute, lie in (told | more).items():
        object.__setattr__(tampered, attribute, lie)
    books = [Book() for _ in range(3)]
    answers = [ask(door_of(book, asked=one), one) for book, one in zip(books, (honest, lying, tampered), strict=True)]
    assert books[0].log == books[1].log == books[2].log
    assert all(isinstance(answer, Released) for answer in answers)
    assert len({np.asarray(answer.value).tobytes() for answer in answers}) == 1


@pytest.mark.parametrize("name", ASKED)
def test_fields_that_would_understate_a_cost_are_refused(name: str) -> None:
    """Vectors are finite, and copied."""
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
        for wrong in (0.0, -1.0, np.nan, np.inf, "much", None, [1.0, 2.0]) if type(value) is float else ():
            free = field.name in {"threshold"} | ({"share", "gate_epsilon"} if wrong == 0.0 else {"scale"})
            if free and isinstance(wrong, float) and np.isfinite(wrong):
                assert getattr(replace(measurement, **{field.name: wrong}), field.name) == wrong
            elif not (wrong is None and "None" in str(field.type)):
                with pytest.raises(RequestError, match=f"{type(measurement).__name__}: {field.name}"):
                    replace(measurement, **{field.name: wrong})


class Same(float):
    """A number that says it is any other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def test_no_number_is_taken_for_another_that_says_it_is_equal() -> None:
    """Equal numbers are looked at once for all agents of a network."""
    asked = ASKED["objective"]
    assert [replace(asked, sigma2=Same(size)).sigma2 for size in (5.0, 0.5)] == [5.0, 0.5]
    for wrong in (Same(-1.0), Same("nan"), ([1],)):
        with pytest.raises(RequestError, match="PerturbedMinimiser: sigma2"):
            replace(asked, sigma2=wrong)


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


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("objective", {"linear": np.ones(D + 1)}, f"linear term has {D + 1} numbers, a model of these records has {D}"),
    ("gamma", {"linear": np.ones(1)}, "linear term has 1 numbers"),
    ("comparison", {"linear": np.ones((1, D))}, f"linear term has {D} numbers"),
    ("comparison", {"before": np.ones(1)}, "last broadcast has 1 numbers"),
    ("gradient", {"here": np.ones(D + 1)}, "point has"),
    ("gradient", {"rate": 1.1}, "rate"),
    ("joining gate", {"here": np.ones(D + 1)}, "point has"),
    ("held gate", {"here": np.ones(D + 1)}, "point has"),
    ("gaussian gate", {"pull": np.ones(D + 1)}, "gate's pull has"),
    ("gamma", {"booked": 0.6}, r"booked convexity 0\.6 must be positive and at most the solve's, 0\.5"),
]


@pytest.mark.parametrize(("name", "change", "told"), WRONG)
def test_what_makes_no_sense_of_these_records_is_refused(name: str, change: dict[str, Any], told: str) -> None:
    book = Book()
    with pytest.raises(RequestError, match=told):
        ask(door_of(book), replace(ASKED[name], **change))
    assert book.log == []


def test_a_convexity_is_booked_below_that_of_the_solve() -> None:
    ask(door_of(book := Book()), replace(ASKED["gamma"], booked=0.25))
    assert book.log[0].convexity == 0.25
