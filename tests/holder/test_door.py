"""What the door charges and when, its public bounds, and that its answers are the mechanisms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import NO, REFUSED, Ask, Door, Holder, Released
from admmnet.holder.block_door import BlockDoor
from admmnet.privacy.events import Laplace
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import MOST

from .doors import ASKED, CENTRE, COSTS, INEXACT, LINEAR, LOGISTIC, Book, D, N, ask, door_of, records


@pytest.fixture
def _solves_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solves stand in the log of the streams of the last door made."""
    solve = LocalSolver.solve

    def solving(self: LocalSolver, *asked: Any) -> Any:
        LOGS[-1].append("solve")
        return solve(self, *asked)

    monkeypatch.setattr(LocalSolver, "solve", solving)


LOGS: list[list[Any]] = []
SUMS = "gradient sum", "moment sum", "second moments", "column counts"
"""What is no solve; how far a point may be changes what its sum costs: `test_sums.py`."""


# what it costs, from the door's own count and loss


@pytest.mark.parametrize("name", ASKED)
def test_the_charge_is_that_of_the_theorem(name: str) -> None:
    book = Book()
    assert isinstance(ask(door_of(book, asked=ASKED[name]), ASKED[name]), Released)
    assert book.charged == list(COSTS[name])


@pytest.mark.usefixtures("_solves_noted")
@pytest.mark.parametrize("name", ASKED)
def test_charges_stand_before_anything_is_drawn_or_solved(name: str) -> None:
    book = Book()
    LOGS.append(book.log)
    ask(door_of(book, asked=ASKED[name]), ASKED[name])
    kinds = [entry if isinstance(entry, str) else "charge" for entry in book.log]
    if name == "comparison":
        draws = ["draw OBJECTIVE", "solve", "draw GATE", "draw GATE"]
        assert kinds == ["charge", "charge", *draws, "charge", "draw OUTPUT"]
        return
    charges = len(COSTS[name])
    assert kinds[:charges] == ["charge"] * charges
    assert "charge" not in kinds[charges:]
    assert ("solve" in kinds) is (name not in ("gradient", "joining gate", *SUMS))
    assert any(kind.startswith("draw") for kind in kinds) is (name != "exact")


@pytest.mark.usefixtures("_solves_noted")
@pytest.mark.parametrize("name", ASKED)
def test_what_is_refused_is_neither_charged_nor_drawn_nor_solved(name: str) -> None:
    book = Book(affords=lambda events: False)
    LOGS.append(book.log)
    assert ask(door_of(book, asked=ASKED[name]), ASKED[name], round=4) is REFUSED
    assert book.log == ["refused"]
    assert book.asked == [COSTS[name]], "also for what an answer may add"


def test_what_is_reserved_must_fit_too() -> None:
    gate, release = ASKED["held gate"], ASKED["objective"]
    wanted = (*COSTS["held gate"], *COSTS["objective"])
    book = Book(affords=lambda events: len(events) < len(wanted))
    door = door_of(book)
    assert ask(door, gate, release) is REFUSED
    assert book.asked == [wanted]
    assert book.log == ["refused"]
    book = Book()
    assert isinstance(ask(door_of(book), gate, release), Released)
    assert book.charged == list(COSTS["held gate"]), "reserved is not charged"


def test_a_round_that_costs_nothing_asks_no_ledger() -> None:
    book = Book()
    door = door_of(book)
    no = replace(ASKED["held gate"], threshold=1e3)
    assert [ask(door, no) for _ in range(3)] == [NO] * 3
    assert len(book.asked) == 1


def test_the_published_gate_charges_its_broadcast_on_a_yes_alone() -> None:
    book = Book()
    door = door_of(book)
    no, first = replace(ASKED["comparison"], threshold=1e3), COSTS["comparison"]
    assert isinstance(first[1], Laplace)
    later = (first[0], replace(first[1], gate_epsilon=0.0), first[2])
    assert ask(door, no) is NO
    assert book.charged == list(first[:2])
    assert "draw OUTPUT" not in book.log
    assert ask(door, no) is NO
    assert book.charged == [*first[:2], *later[:2]], "the paper's epsilon of the gate is booked once"
    assert isinstance(ask(door, ASKED["comparison"]), Released)
    assert book.charged == [*first[:2], *later[:2], *later]
    assert book.asked == [first, later, later], "a broadcast must fit before the question is put"


def test_a_held_threshold_costs_once_a_start() -> None:
    book = Book()
    door = door_of(book)
    yes = ASKED["held gate"]
    start = COSTS["held gate"][0]
    ask(door, replace(yes, threshold=1e3))
    other = replace(yes, threshold=1e3, centre=CENTRE + 0.3)
    assert [ask(door, other) for _ in range(4)] == [NO] * 4
    assert book.charged == [start]
    assert book.log.count("draw GATE") == 1 + 5, "one threshold, five comparisons"
    # a start is one step of Theorem 5: nothing else is charged before it ends
    changes: tuple[dict[str, float], ...] = ({"radius": 4.0}, {"gap": 2e-5}, {"epsilon_threshold": 0.1})
    for asked in (yes, ASKED["objective"], *(replace(other, **change) for change in changes)):
        with pytest.raises(RequestError, match="while a gate's threshold is held"):
            ask(door, asked)
    assert book.charged == [start]
    # after a yes the same question starts anew
    book = Book()
    door = door_of(book)
    assert all(isinstance(ask(door, yes), Released) for _ in range(3))
    assert book.charged == [start] * 3


# public bounds


@pytest.mark.parametrize("name", [name for name in ASKED if name not in ("exact", *SUMS)])
def test_public_inputs_are_scaled_back_to_their_radius(name: str) -> None:
    """``used`` tells; what lies within is left as it is, bit for bit."""
    points = {"gradient": "here", "joining gate": "here", "gaussian gate": "centre", "held gate": "centre"}
    field = points.get(name, "linear")
    inside = ask(door_of(Book()), ASKED[name])
    assert getattr(inside.used, field).tobytes() == getattr(ASKED[name], field).tobytes()
    far = 1e30 * np.array([1.0, -2.0, 0.5, 0.0])
    book = Book()
    answer = ask(door_of(book), replace(ASKED[name], **{field: far}))
    used = getattr(answer.used, field)
    radius = np.linalg.norm(used)
    assert radius < 1e25
    np.testing.assert_allclose(used / radius, far / np.linalg.norm(far), rtol=0, atol=1e-14)
    again = ask(door_of(Book()), answer.used)
    np.testing.assert_allclose(getattr(again.used, field), used, rtol=1e-15)
    assert book.charged == list(COSTS[name]), "the bound costs nothing"


def test_releases_are_bounded_like_messages() -> None:
    loud = replace(ASKED["output"], sigma2=1e20)
    value = ask(door_of(Book()), loud).value
    assert np.linalg.norm(value) == pytest.approx(MOST, rel=1e-12)
    quiet = ask(door_of(Book()), ASKED["output"]).value
    assert np.linalg.norm(quiet) < 10.0


# what is answered is right


def test_the_answers_are_the_mechanisms() -> None:
    X, y = records()
    exact = ask(door_of(Book()), ASKED["exact"]).value
    gradient = X.T @ (-y / (1.0 + np.exp(y * (X @ exact)))) / N + 0.5 * exact + LINEAR
    assert np.linalg.norm(gradient) <= 1e-8
    streams = AgentStreams(0, 1)
    b1, b2 = (streams[purpose].standard_normal(D) for purpose in (Purpose.OBJECTIVE, Purpose.OUTPUT))
    shifted = ask(door_of(Book()), replace(ASKED["exact"], linear=LINEAR + 0.05 * b1)).value
    both = ask(door_of(Book()), ASKED["objective"]).value
    np.testing.assert_allclose(both, shifted + 1e-6 * b2, rtol=0, atol=1e-6 * 2.0**-20)
    output = ask(door_of(Book()), ASKED["output"]).value
    np.testing.assert_allclose(output, exact + 0.05 * b2, rtol=0, atol=0.05 * 2.0**-20 + 1e-8)


def test_the_door_counts_the_records_itself() -> None:
    holder = Holder.of([records(), (records()[0][:7], records()[1][:7])])
    book: Any = Book()
    doors = [Door(holder, member, LOGISTIC, book, AgentStreams(member, 1)) for member in (0, 1)]
    assert [door.records for door in doors] == [N, 7]
    BlockDoor(doors).answer([Ask(ASKED["output"])] * 2, 0)
    sensitivities = [event.sensitivity for event in book.charged]
    assert sensitivities == [2.0 / (n * 0.5) + INEXACT for n in (N, 7)]
