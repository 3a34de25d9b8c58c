"""Answers that a door gives again: to the same questions in the same order, and to no other ones."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import networkx as nx
import numpy as np
import pytest

from admmnet.config.run_config import RunConfig
from admmnet.holder.answers import REFUSED, Ask, Part
from admmnet.holder.door import Door
from admmnet.holder.measurements import NoisyGradient
from admmnet.holder.outbox import Answered, Outbox, question_hashes
from admmnet.masking import Attempt
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks
from admmnet.methods.base import Facts, Method
from admmnet.privacy.events import NoRecords
from admmnet.running.party import Node, Party
from admmnet.types import BEFORE

from .doors import ASKED, CENTRE, COSTS, Book, D, answer_all, ask, door_of

ONE, OTHER = (NoisyGradient(np.full(D, value), 1.0) for value in (0.0, 1.0))


def hashed(question: Any, round: int = 3, attempt: Attempt | None = None, rows: Any = None) -> list[bytes]:
    known: Any = SimpleNamespace(attempt=attempt)
    if rows is None and question.free:
        rows = getattr(question, question.free)[None]
    return question_hashes(round, Part(question, known, list(range(1 if rows is None else len(rows))), rows, []))


def kept(*answers: tuple[NoisyGradient, Any], round: int = 3) -> dict[int, list[Answered]]:
    first = Outbox()
    for question, value in answers:
        (own,) = hashed(question, round)
        first.add(own, value)
    return {round: first.take()}


def test_questions_come_in_their_order() -> None:
    said = kept((ONE, None), (OTHER, np.zeros(0)))
    box = Outbox(said, last=3)
    assert box.repeated(3, *hashed(ONE)) is None
    assert box.repeated(3, *hashed(OTHER)) is True
    assert not box.silent(3)
    assert box.repeated(3, *hashed(ONE)) is REFUSED, "more than was asked"
    assert box.silent(3)
    swapped = Outbox(said, last=3)
    assert [swapped.repeated(3, *hashed(question)) for question in (OTHER, OTHER)] == [REFUSED] * 2
    assert swapped.silent(3)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_an_outbox_says_each_draw_is_charged_before(seed: int) -> None:
    """So it is not in the trusted base."""
    rng, door = np.random.default_rng(seed), door_of(book := Book())

    class Lying(Outbox):
        past = silent = lambda self, round: bool(rng.random() < 0.5)

        def repeated(self, round: int, hashed: bytes) -> Any:
            return (None, REFUSED, np.ones(D))[rng.integers(3)]

    door.outbox, drawn = Lying(), 0
    for round, name in enumerate(rng.choice(["objective", "output", "gradient", "joining gate", "held gate"], 60)):
        start, cost = len(book.log), list(COSTS[name])
        ask(door, ASKED[name], round=round)
        own = book.log[start:]
        if any(isinstance(one, str) and one.startswith("draw") for one in own):
            drawn += 1
            assert own[: len(cost)] == cost
    assert 20 < drawn < 40


@pytest.mark.parametrize(
    ("last", "silent_until", "known", "silent"),
    [
        (BEFORE, BEFORE, range(0), range(0)),
        (4, BEFORE, range(5), range(0)),
        (4, 6, range(7), range(5, 7)),  # rounds of another start, whose answers are not known any more
        (6, 4, range(7), range(0)),
    ],
)
def test_in_which_rounds_the_door_is_asked(last: int, silent_until: int, known: range, silent: range) -> None:
    box = Outbox(last=last, silent_until=silent_until)
    assert [round for round in range(9) if box.past(round)] == [*known]
    assert [round for round in range(9) if box.silent(round)] == [*silent]


def test_a_hash_is_of_all_that_was_asked() -> None:
    attempts = [None, Attempt(1, (0, 1, 2), 1), Attempt(1, (0, 1), 1), Attempt(1, (0, 1, 2), 2)]
    asked = [(ONE, 3), (ONE, 4), (OTHER, 3), (NoisyGradient(-ONE.here, 1.0), 3), (NoisyGradient(ONE.here, 2.0), 3)]
    hashes = {*(hashed(*one)[0] for one in asked), *(hashed(ONE, 3, attempt)[0] for attempt in attempts)}
    assert len(hashes) == 5 + 3
    assert hashed(ONE, 3, attempts[1]) == hashed(ONE, 3, Attempt(9, (0, 1, 2), 1)), "whichever attempt it was"
    solve, rows = ASKED["objective"], np.array([CENTRE, -CENTRE])
    assert hashed(solve, rows=rows) == [*(hashed(solve.placed(row))[0] for row in rows)], "together or alone"


# at the door


def open_door(**box: Any) -> tuple[Door, Outbox, Book]:
    door, outbox = door_of(book := Book()), Outbox(**box)
    door.outbox = outbox
    return door, outbox, book


@pytest.mark.parametrize("names", [("gradient", "objective"), ("joining gate",), ("gradient sum",)])
def test_what_was_answered_is_answered_as_it_was_then_and_costs_nothing(names: Sequence[str]) -> None:
    door, box, _ = open_door()
    said = [ask(door, ASKED[name], round=3) for name in names]
    again, fresh, book = open_door(earlier={3: box.take()}, last=3)
    for name, first in zip(names, said, strict=True):
        second = ask(again, ASKED[name], round=3)
        assert np.asarray(second.value).tobytes() == np.asarray(first.value).tobytes()
        assert type(second.used) is type(first.used)
    assert again.spoke(3) == ("joining gate" not in names)
    assert (book.log, fresh.fresh) == ([], []), "nothing is charged, drawn, or noted again"
    ask(again, ASKED[names[0]], round=4)
    assert book.charged == list(COSTS[names[0]])
    assert len(fresh.take()) == 1


def test_a_refusal_is_noted_and_stands() -> None:
    door = door_of(Book(lambda events: False))
    door.outbox = Outbox()
    assert ask(door, ASKED["gradient"], round=3) is REFUSED
    (noted,) = door.outbox.take()
    assert (noted.kind, noted.data) == ("refused", b"")
    again, _, other = open_door(earlier={3: [noted]}, last=3)
    assert ask(again, ASKED["gradient"], round=3) is REFUSED
    assert other.log == ["refused"], "the ledger knows it as refused, whatever it affords"


def test_another_question_is_refused_without_a_mark_in_the_ledger() -> None:
    door, box, _ = open_door()
    ask(door, ASKED["gradient"], round=3)
    again, silent, book = open_door(earlier={3: box.take()}, last=3)
    assert ask(again, NoisyGradient(2.0 * CENTRE, 0.05), round=3) is REFUSED
    assert book.log == []
    assert silent.silent(3)


def test_doors_of_a_block_repeat_and_ask_at_the_same_time() -> None:
    """One of them is a round ahead: it repeats, the other one is asked and charged."""
    door, box, _ = open_door()
    said = ask(door, ASKED["gradient"], round=3)
    one, ahead, first = open_door(earlier={3: box.take()}, last=3)
    two, behind, second = open_door(last=2)
    found: list[Any] = answer_all([one, two], [Ask(ASKED["gradient"])] * 2, 3)
    assert found[0].value.tobytes() == said.value.tobytes()
    assert (first.charged, second.charged) == ([], list(COSTS["gradient"]))
    assert (len(ahead.fresh), len(behind.fresh)) == (0, 1)


def test_a_message_of_nothing_is_noted_once() -> None:
    door, _, book = open_door(last=3, silent_until=5)
    for round in range(8):
        door.nothing(round)
    assert book.log == [NoRecords()] * 2


class Stubborn(Method):
    """It says something whatever it is told."""

    def propose(self, agents: Agents, round: int) -> Asking[Any]:
        yield Asks([OTHER])
        return np.ones((1, D))


def test_a_method_cannot_break_the_silence() -> None:
    door, _, book = open_door(earlier=kept((ONE, None)), last=3)
    method = Stubborn(RunConfig().sections.method, Facts(nx.path_graph(2), {0: D, 1: D}, D, {}))
    party = Party(method, {0: AgentPlan()}, [Node(0, door, book)])  # type: ignore[arg-type]
    party.propose(3, np.ones(1, dtype=bool))
    assert party.outgoing is None


@pytest.mark.parametrize(("kind", "data"), [("<f8", b"1234567"), ("<i8", b"123456789"), ("yes", b"12345678")])
def test_bytes_that_are_no_numbers_are_refused(kind: Any, data: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"{len(data)} bytes are no numbers"):
        msgspec.msgpack.decode(msgspec.msgpack.encode([b"0" * 16, kind, data]), type=Answered)
