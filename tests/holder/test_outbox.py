"""Answers that a door gives again: to the same questions in the same order, and to no other ones."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from admmnet.errors import CheckFailed
from admmnet.forms import decode, encode
from admmnet.holder.answers import NO, REFUSED, Ask, Released
from admmnet.holder.door import Door
from admmnet.holder.measurements import NoisyGradient
from admmnet.holder.outbox import Answered, Outbox, question_hash
from admmnet.masking import Attempt
from admmnet.methods.agent import Agent, AgentPlan
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.running.node import carried_out, proposal
from admmnet.transport.begun import Begun
from admmnet.types import BEFORE

ONE, OTHER = (NoisyGradient(np.full(2, value), 1.0) for value in (0.0, 1.0))
VALUES: list[Any] = [np.array([1.5, -0.0]), np.array([2**62, -1]), True]


def kept(*answers: tuple[NoisyGradient, Any], round: int = 3) -> dict[int, list[Answered]]:
    first = Outbox("first", {}, BEFORE)
    for question, answer in answers:
        first.add(round, question, answer)
    return {round: first.take()}


@pytest.mark.parametrize("answer", [NO, REFUSED, *(Released(value, ONE) for value in VALUES)])
def test_an_answer_comes_again_bit_by_bit(answer: Any) -> None:
    again: Any = Outbox("second", kept((ONE, answer)), 3).repeated(3, ONE)
    assert type(again) is type(answer)
    if isinstance(again, Released):
        assert np.asarray(again.value).tobytes() == np.asarray(answer.value).tobytes()
        assert again.used is ONE
    else:
        assert again is answer


def test_questions_come_in_their_order() -> None:
    said = kept((ONE, NO), (OTHER, Released(True, OTHER)))
    box = Outbox("second", said, 3)
    assert box.repeated(3, ONE) is NO
    assert isinstance(box.repeated(3, OTHER), Released)
    assert box.silent is None
    assert box.repeated(3, ONE) is REFUSED, "more than was asked"
    swapped = Outbox("second", said, 3)
    assert [swapped.repeated(3, question) for question in (OTHER, OTHER)] == [REFUSED] * 2
    assert swapped.silent == 3


@pytest.mark.parametrize(
    ("charged", "asked"), [(BEFORE, {2: False, 4: True, 5: True}), (4, {4: True}), (6, {4: False, 5: False, 6: True})]
)
def test_which_rounds_ask_the_door(charged: int, asked: dict[int, bool]) -> None:
    for round, fresh in asked.items():
        assert (Outbox("second", kept((ONE, NO)), charged).repeated(round, ONE) is None) is fresh
    assert Outbox("second", {}, BEFORE).repeated(-3, ONE) is None


def test_a_changed_start_asks_nothing_in_the_round_that_was_charged_last() -> None:
    begun, agent = Begun("b" * 64, 3, (0, 1), ((0, 1),), "go on", round=3, changed=3), SimpleNamespace(id=0)
    keeper: Any = SimpleNamespace(_jump=0, kept=True, starts=[SimpleNamespace(name="second")])
    keeper.past = {0: SimpleNamespace(marks=frozenset(), answers={})}
    charges: list[int] = []
    for now, first in ((begun, 4), (replace(begun, rule="replay"), 3), (replace(begun, changed=None), 3), (None, 3)):
        keeper._transport = SimpleNamespace(world=SimpleNamespace(start=now))
        ledger: Any = SimpleNamespace(charged=3, charge=lambda round, event: charges.append(round))
        agent.ledger, agent.door = ledger, object.__new__(Door)
        agent.door._ledger, agent.door._secret = ledger, SimpleNamespace(marks=frozenset())
        Keeper.open_outboxes(keeper, [agent])  # type: ignore[list-item]
        asked = [round for round in range(2, 6) if agent.door.outbox.repeated(round, ONE) is None]
        assert asked[0] == first
        for round in (3, 4):
            agent.door.nothing(round)
        assert charges.pop() == 4
        assert not charges


def test_a_hash_is_of_all_that_was_asked() -> None:
    attempts = [None, Attempt(1, (0, 1, 2), 1), Attempt(1, (0, 1), 1)]
    hashes = {question_hash(*words) for words in (("a", 1, ONE), ("b", 1, ONE), ("a", 2, ONE), ("a", 1, OTHER))}
    hashes |= {question_hash("a", 1, ONE, attempt) for attempt in attempts}
    hashes |= {
        question_hash("a", 1, NoisyGradient(np.zeros(2), 2.0)),
        question_hash("a", 1, NoisyGradient(-ONE.here, 1.0)),
    }
    assert len(hashes) == 8
    assert question_hash("a", 1, ONE, attempts[1]) == question_hash("a", 1, ONE, Attempt(9, (0, 1, 2), 1))


class Stubborn:
    """A method that says something whatever it is told."""

    def propose(self, agent: object, round: int) -> Iterator[Any]:
        yield Ask(OTHER)
        return np.ones(2)  # type: ignore[return-value]


class Repeating:
    """A door that has answered another question."""

    def __init__(self) -> None:
        self.outbox = Outbox("second", kept((ONE, NO)), 3)

    def answer(self, ask: Ask, round: int) -> Any:
        return self.outbox.repeated(round, ask.measurement)


def test_a_method_cannot_break_the_silence() -> None:
    method = Stubborn()
    door: Any = Repeating()
    assert carried_out(proposal(method, Agent(0, (), AgentPlan()), door, 3), door, 3) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "data"), [("<f8", b"1234567"), ("<i8", b"123456789"), ("yes", b"12345678")])
def test_bytes_that_are_no_numbers_are_refused(kind: Any, data: bytes) -> None:
    with pytest.raises(CheckFailed, match=f"{len(data)} bytes are no numbers"):
        decode(Answered, encode({"start": "first", "question": "0" * 64, "kind": kind, "data": data}))
