"""What the door charges and when, its public bounds, its answers; what is said of faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError, RunError
from admmnet.holder import NO, REFUSED, Ask, Door, Holder, Released, SimulatedHolder
from admmnet.holder.door import FAILED
from admmnet.holder.holder import Secret
from admmnet.holder.outbox import Outbox
from admmnet.holder.series.gradient import GradientSteps
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.events import Gaussian, Laplace
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.blocks.group import Group
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import MOST

from .doors import ASKED, CENTRE, COSTS, INEXACT, LINEAR, LOGISTIC, Book, D, N, answer_all, ask, door_of, records

GATES = "joining gate", "gaussian gate", "held gate"
SUMS = "gradient sum", "moment sum", "second moments", "column counts"
"""What is no solve; how far a point may be changes what its sum costs: `test_sums.py`."""


@pytest.mark.parametrize("name", ASKED)
def test_the_cost_of_the_theorem_is_charged_before_anything_is_drawn_or_solved(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve, refusing, book = LocalSolver.solve, Book(affords=lambda events: False), Book()

    def solving(self: LocalSolver, *asked: Any) -> Any:
        book.log.append("solve")
        return solve(self, *asked)

    monkeypatch.setattr(LocalSolver, "solve", solving)
    assert ask(door_of(refusing, asked=ASKED[name]), ASKED[name], round=4) is REFUSED
    assert refusing.log == ["refused"]
    assert refusing.asked == [COSTS[name]], "also for what an answer may add"
    assert isinstance(ask(door_of(book, asked=ASKED[name]), ASKED[name]), Released)
    charges = len(COSTS[name])
    assert book.log[:charges] == list(COSTS[name])
    after = book.log[charges:]
    assert all(isinstance(entry, str) for entry in after)
    assert ("solve" in after) is (name not in ("gradient", "broadcast", *GATES, *SUMS))
    assert any(entry.startswith("draw") for entry in after) is (name != "exact")


def test_a_cost_is_charged_under_the_relation_it_is_proven_for() -> None:
    """Published costs are proven for replace-one, which covers any promise; sampled steps for zero-out alone."""
    steps = GradientSteps(0.05, 7, 0.5, 15, "poisson", 1.0, 0.8)
    for relation, fits in (("zero-out", True), ("replace-one", False), ("add-remove", False)):
        book: Any = Book()
        book.contract = Contract(Promise(1.0, 1e-5, adjacency=relation))
        door = Door(Holder(*records()), 0, LOGISTIC, book, AgentStreams(0, 1))
        assert isinstance(ask(door, ASKED["output"]), Released)
        if fits:
            assert isinstance(ask(door, steps), Released)
            continue
        with pytest.raises(RequestError, match=f"proven for zero-out, but this budget is for {relation}"):
            ask(door, ASKED["output"], steps)
        assert book.charged == list(COSTS["output"])


# a second question


def test_the_published_gate_charges_its_broadcast_on_a_yes_alone() -> None:
    door = door_of(book := Book())
    no, first, release = replace(ASKED["comparison"], threshold=1e3), COSTS["comparison"], ASKED["broadcast"]
    assert isinstance(first[1], Laplace)
    later = (first[0], replace(first[1], gate_epsilon=0.0))
    assert ask(door, no, release) is NO
    assert book.charged == list(first)
    assert ask(door, replace(no, gate_epsilon=0.0), release) is NO
    assert book.charged == [*first, *later]
    assert isinstance(ask(door, replace(ASKED["comparison"], gate_epsilon=0.0), release), Released)
    assert "draw OUTPUT" not in book.log
    assert isinstance(ask(door, release), Released)
    own = COSTS["broadcast"]
    assert book.charged == [*first, *later, *later, *own]
    assert book.asked == [(*first, *own), (*later, *own), (*later, *own), own], "it must fit before the question is put"


def test_a_broadcast_is_charged_for_the_candidate_that_the_comparison_has_kept() -> None:
    """By fields of its own it would be charged next to nothing for a minimiser that bears no noise to speak of."""
    door = door_of(book := Book())
    comparison, broadcast = replace(ASKED["comparison"], beta=1e4), ASKED["broadcast"]
    assert isinstance(ask(door, comparison), Released)
    charged = [*book.charged]
    for other in (broadcast, replace(broadcast, beta=1e4, convexity=1e6), replace(broadcast, beta=1e4, sigma1=1e6)):
        with pytest.raises(RequestError, match="without the comparison that found its candidate"):
            ask(door, other)
    assert book.charged == charged
    assert ask(door, comparison)
    assert isinstance(ask(door, replace(broadcast, beta=1e4)), Released)
    own = book.charged[-1]
    assert isinstance(own, Gaussian)
    assert own.sensitivity == 2.0 * 1e4 / 0.5


@pytest.mark.parametrize("between", ["no", "gradient", "broadcast"])
def test_a_candidate_is_broadcast_at_once_and_once_or_never(between: str) -> None:
    door = door_of(book := Book())
    asked = replace(ASKED["comparison"], threshold=1e3) if between == "no" else ASKED[between]
    for one in (ASKED["comparison"], asked):
        ask(door, one)
    charged = [*book.charged]
    with pytest.raises(RequestError, match="without the comparison that found its candidate"):
        ask(door, ASKED["broadcast"])
    assert book.charged == charged
    assert not door._secret.held


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
    """A start is one step of Theorem 5: nothing else is charged before it ends; point and pull are free."""
    door, yes, start = door_of(book := Book()), ASKED["held gate"], COSTS["held gate"][0]
    no = replace(yes, threshold=1e3)
    assert [ask(door, replace(no, here=0.1 * k * CENTRE, pull=-0.1 * k * LINEAR)) for k in range(5)] == [NO] * 5
    assert (book.charged, len(book.asked)) == ([start], 1)
    assert book.log.count("draw GATE") == 1 + 5, "one threshold, five comparisons"
    others = [replace(no, **{name: 0.25}) for name in ("threshold", "epsilon_threshold", "epsilon_query")]
    for asked in (*others, ASKED["gaussian gate"], ASKED["objective"]):
        with pytest.raises(RequestError, match="while a gate's threshold is held"):
            ask(door, asked)
    assert book.charged == [start]
    door = door_of(book := Book())
    assert all(isinstance(ask(door, yes), Released) for _ in range(3)), "after a yes the same question starts anew"
    assert book.charged == [start] * 3


# public bounds


@pytest.mark.parametrize("name", [name for name in ASKED if name not in ("exact", "broadcast", *SUMS)])
def test_public_inputs_are_scaled_back_to_their_radius(name: str) -> None:
    """``used`` tells; what lies within is left as it is, bit for bit."""
    field = next(own for own in ("linear", "centre", "here") if hasattr(ASKED[name], own))
    inside = ask(door_of(Book()), ASKED[name])
    assert getattr(inside.used, field).tobytes() == getattr(ASKED[name], field).tobytes()
    far = 1e30 * np.array([1.0, -2.0, 0.5, 0.0])
    answer = ask(door_of(book := Book()), replace(ASKED[name], **{field: far}))
    used = getattr(answer.used, field)
    radius = np.linalg.norm(used)
    assert radius < 1e25
    np.testing.assert_allclose(used / radius, far / np.linalg.norm(far), rtol=0, atol=1e-14)
    again = ask(door_of(Book()), answer.used)
    np.testing.assert_allclose(getattr(again.used, field), used, rtol=1e-15)
    assert book.charged == list(COSTS[name]), "the bound costs nothing"


def test_releases_are_bounded_like_messages() -> None:
    loud = ask(door_of(Book()), replace(ASKED["output"], sigma2=1e20)).value
    assert np.linalg.norm(loud) == pytest.approx(MOST, rel=1e-12)
    assert np.linalg.norm(ask(door_of(Book()), ASKED["output"]).value) < 10.0


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


def test_a_noisy_gradient_is_a_sum_over_n_of_those_drawn_with_clipped_slopes() -> None:
    X, y = records()
    asked, streams = replace(ASKED["gradient"], most=0.45, rate=0.4, times=3.0), AgentStreams(0, 1)
    drawn = streams[Purpose.BATCH].random(N) < 0.4
    noise = 0.05 * streams[Purpose.OBJECTIVE].standard_normal(D)
    slopes = np.clip(-y / (1.0 + np.exp(y * (X @ CENTRE))), -0.45, 0.45)
    assert 0 < drawn.sum() < N
    assert np.max(np.abs(slopes[drawn])) == 0.45
    wanted = 3.0 * (X[drawn].T @ slopes[drawn] / N + noise)
    np.testing.assert_allclose(ask(door_of(Book()), asked).value, wanted, rtol=0, atol=0.15 * 2.0**-20)
    nobody = ask(door_of(Book()), replace(asked, rate=1e-9)).value
    np.testing.assert_allclose(nobody, 3.0 * noise, rtol=0, atol=0.15 * 2.0**-20)


@pytest.mark.parametrize("name", ["joining gate", "comparison"])
def test_a_gate_compares_what_it_says_with_its_noise(name: str) -> None:
    (X, y), streams = records(), AgentStreams(0, 1)
    asked, gate = ASKED[name], streams[Purpose.GATE]
    if name == "joining gate":
        gradient = X.T @ (-y / (1.0 + np.exp(y * (X @ CENTRE)))) / N
        level = float(np.linalg.norm(gradient)) + 0.1 * float(gate.standard_normal())
    else:
        b1, scales = 0.05 * streams[Purpose.OBJECTIVE].standard_normal(D), gate.laplace(size=2)
        theta = ask(door_of(Book()), replace(ASKED["exact"], linear=LINEAR + b1)).value
        asked = replace(asked, before=30.0 * CENTRE, loss_clip=0.9, share=0.4, threshold_scale=0.3)
        before, after = (
            np.minimum(np.log1p(np.exp(-y * (X @ at))), 0.9).mean() + min(0.2 * at @ at, 0.9)
            for at in (asked.before, theta)
        )
        level = before - after - 0.3 * scales[0] + 0.1 * scales[1]
    assert ask(door_of(Book()), replace(asked, threshold=level + 1e-6)) is NO
    assert isinstance(ask(door_of(Book()), replace(asked, threshold=level - 1e-6)), Released)


def test_the_door_counts_the_records_itself() -> None:
    holder = Holder.of([records(), (records()[0][:7], records()[1][:7])])
    book: Any = Book()
    doors = [Door(holder, member, LOGISTIC, book, AgentStreams(member, 1)) for member in (0, 1)]
    assert [door.records for door in doors] == [N, 7]
    answer_all(doors, [Ask(ASKED["output"])] * 2, 0)
    assert [event.sensitivity for event in book.charged] == [2.0 / (n * 0.5) + INEXACT for n in (N, 7)]


# faults

PLACES = [(LocalSolver, "solve", 1), (Group, "solve", 2), (LocalSolver, "losses", 1), (Secret, "laplace", 1)]


@pytest.mark.parametrize("fault", [KeyError(0.7351948), RunError("0.7351948"), RequestError("0.7351948")], ids=repr)
@pytest.mark.parametrize(("kind", "name", "members"), PLACES)
def test_a_fault_inside_is_one_fixed_text_where_records_are_private(
    kind: Any, name: str, members: int, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any) -> Any:
        raise fault

    monkeypatch.setattr(kind, name, failing)
    for holder in (Holder, SimulatedHolder):
        book: Any = Book()
        of = holder.of([records()] * members)
        doors = [Door(of, k, LOGISTIC, book, AgentStreams(k, 1)) for k in range(members)]
        for answer in answer_all(doors, [Ask(ASKED["comparison"])] * members, 0):
            assert isinstance(answer, Exception)
            if holder is SimulatedHolder:  # nothing to hide, and an internal error stays one
                assert type(answer) is type(fault)
                assert "0.7351948" in str(answer)
                continue
            assert isinstance(answer, RunError)
            assert (str(answer), answer.__cause__, answer.__suppress_context__) == (FAILED, None, True)
        assert book.charged == [*COSTS["comparison"]] * members, "what it cost stays charged, and no more"


def test_an_interrupt_is_not_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalSolver, "solve", stopping)
    with pytest.raises(KeyboardInterrupt):
        ask(door_of(Book()), ASKED["objective"])


def test_nothing_behind_the_door_of_private_records_is_shown() -> None:
    door = door_of(Book())
    with pytest.raises(RequestError, match="nothing behind the door of private records is shown"):
        _ = door.secret
    assert door_of(Book(), SimulatedHolder).secret.held == {}
    shown = {name for name in dir(door) if not name.startswith("_")}
    assert shown == {"answer", "attempt", "nothing", "outbox", "records", "secret", "simulated", "spoke"}
    assert door.outbox is None  # otherwise it holds answers that may leave


# a run that goes on


def test_a_start_that_goes_on_pays_again_for_a_held_threshold() -> None:
    """It is nowhere but in the process that drew it."""
    no = replace(ASKED["held gate"], threshold=1e3)
    first, second = Book(), Book()
    before, after = door_of(first), door_of(second)
    before.outbox = Outbox()
    assert ask(before, no) is NO
    after.outbox = Outbox({0: before.outbox.take()}, last=0)
    assert ask(after, no) is NO
    assert second.log == []
    assert ask(after, no, round=1) is NO
    assert first.charged == second.charged == list(COSTS["held gate"])
