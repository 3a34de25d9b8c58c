"""What the door charges and when, its public bounds, and that its answers are the mechanisms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import NO, REFUSED, Ask, Door, Holder, Released
from admmnet.holder.door import answer_all
from admmnet.holder.outbox import Outbox
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
    charges = len(COSTS[name])
    assert kinds[:charges] == ["charge"] * charges
    assert "charge" not in kinds[charges:]
    assert ("solve" in kinds) is (name not in ("gradient", "joining gate", "broadcast", *SUMS))
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
    no, first, release = replace(ASKED["comparison"], threshold=1e3), COSTS["comparison"], ASKED["broadcast"]
    assert isinstance(first[1], Laplace)
    later = (first[0], replace(first[1], gate_epsilon=0.0))
    assert ask(door, no, release) is NO
    assert book.charged == list(first)
    assert ask(door, no, release) is NO
    assert book.charged == [*first, *later], "the paper's epsilon of the gate is booked once"
    assert isinstance(ask(door, ASKED["comparison"], release), Released)
    assert "draw OUTPUT" not in book.log
    assert isinstance(ask(door, release), Released)
    own = COSTS["broadcast"]
    assert book.charged == [*first, *later, *later, *own]
    wanted = [(*first, *own), (*later, *own), (*later, *own), own]
    assert book.asked == wanted, "a broadcast must fit before the question is put"


def test_a_broadcast_is_charged_for_the_candidate_that_the_comparison_has_kept() -> None:
    """By fields of its own it would be charged next to nothing for a minimiser that bears no noise to speak of."""
    book = Book()
    door = door_of(book)
    comparison, broadcast = replace(ASKED["comparison"], beta=1e4), ASKED["broadcast"]
    assert isinstance(ask(door, comparison), Released)
    charged = [*book.charged]
    for other in (broadcast, replace(broadcast, beta=1e4, convexity=1e6), replace(broadcast, beta=1e4, sigma1=1e6)):
        with pytest.raises(RequestError, match="without the comparison that found its candidate"):
            ask(door, other)
    assert book.charged == charged
    (event,) = replace(broadcast, beta=1e4).cost(door._known)
    assert ask(door, comparison)
    assert isinstance(ask(door, replace(broadcast, beta=1e4)), Released)
    assert book.charged[-1] == event
    assert event.sensitivity == 2.0 * 1e4 / 0.5


@pytest.mark.parametrize("between", ["no", "gradient", "broadcast"])
def test_a_candidate_is_broadcast_at_once_and_once_or_never(between: str) -> None:
    book = Book()
    door = door_of(book)
    asked = replace(ASKED["comparison"], threshold=1e3) if between == "no" else ASKED[between]
    for one in (ASKED["comparison"], asked):
        ask(door, one)
    charged = [*book.charged]
    with pytest.raises(RequestError, match="without the comparison that found its candidate"):
        ask(door, ASKED["broadcast"])
    assert book.charged == charged
    assert not door._secret.kept


def test_a_start_that_was_killed_before_its_broadcast_says_nothing_in_that_round_again() -> None:
    """The candidate is gone with its process: the yes comes again, and the broadcast is no question of that round."""
    book = Book()
    first, second = (door_of(book) for _ in range(2))
    first.outbox = Outbox()
    ask(first, ASKED["comparison"])
    charged = [*book.charged]
    second.outbox = Outbox({0: first.outbox.take()}, last=0)
    assert isinstance(ask(second, ASKED["comparison"]), Released)
    assert ask(second, ASKED["broadcast"]) is REFUSED
    with pytest.raises(RequestError, match="without the comparison that found its candidate"):
        ask(second, ASKED["broadcast"], round=1)
    assert book.charged == charged


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


@pytest.mark.parametrize("name", [name for name in ASKED if name not in ("exact", "broadcast", *SUMS)])
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
    answer_all(doors, [Ask(ASKED["output"])] * 2, 0)
    sensitivities = [event.sensitivity for event in book.charged]
    assert sensitivities == [2.0 / (n * 0.5) + INEXACT for n in (N, 7)]
