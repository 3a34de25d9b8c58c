"""What a signature of a word covers: who says it, of what kind, where, when, in which run, and what."""

from __future__ import annotations

from typing import Any

import pytest

from admmnet.identity.keys import SIGNATURE, Identity
from admmnet.transport.zmq.wire import Frame, Kind, as_json
from admmnet.transport.zmq.words import GATHERS, NONCES, SIGNED, SignedWords

PEOPLE = [Identity.fresh() for _ in range(3)]
KEYS = [person.public for person in PEOPLE]
NUMBERS = {q: as_json(f"number of {q}") for q in range(3)}


def words_of(place: int, numbers: dict[int, bytes] | None = None) -> SignedWords:
    words = SignedWords(PEOPLE[place], KEYS)
    if numbers is not None:
        words.begin(numbers)
    return words


def signed(words: SignedWords, kind: Kind, origin: int, channel: int = GATHERS, turn: int = 5) -> Frame:
    payload = as_json({"x": 1})
    signature = words.sign(kind, channel, origin, turn, payload)
    return Frame(kind, bytes(16), 2, channel=channel, origin=origin, round=turn, payload=payload, words=signature)


@pytest.mark.parametrize("kind", SIGNED)
@pytest.mark.parametrize(
    "change",
    [
        {"origin": 0},
        {"origin": 2**32 - 1},
        {"round": 6},
        {"channel": 7},
        {"payload": as_json({"x": 2})},
        {"kind": Kind.VECTOR},
        {"words": b""},
        {"words": bytes(SIGNATURE)},
        {"words": bytes(3)},
    ],
)
def test_a_word_is_taken_as_it_was_said(kind: Kind, change: dict[str, Any]) -> None:
    frame = signed(words_of(1, NUMBERS), kind, 1)
    others = words_of(0, NUMBERS)
    assert others.genuine(frame)
    assert others.genuine(frame._replace(sender=0, link=bytes(range(16)), sequence=9))  # whoever passes it on
    assert not others.genuine(frame._replace(**change))


@pytest.mark.parametrize("kind", SIGNED)
def test_words_of_another_run_are_none_of_this_one(kind: Kind) -> None:
    frame = signed(words_of(1, NUMBERS), kind, 1)
    assert not words_of(0, NUMBERS | {0: as_json("a fresh number")}).genuine(frame)
    assert not words_of(0).genuine(frame)  # before there is a run


def test_before_the_run_numbers_alone_are_signed() -> None:
    early = words_of(1)
    assert early.sign(Kind.ABORT, 0, 1, 0, as_json({})) == b""
    assert not signed(early, Kind.SHARE, 1, NONCES, 1).words  # the word on the run's id
    number = signed(early, Kind.SHARE, 1, NONCES, 0)
    assert len(number.words) == SIGNATURE
    assert words_of(0).genuine(number)
    assert words_of(0, NUMBERS).genuine(number)  # who is further than the sender takes it, too
    assert not words_of(0).genuine(number._replace(channel=GATHERS))
    assert not words_of(0, NUMBERS).genuine(number._replace(channel=GATHERS))
