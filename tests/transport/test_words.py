"""What a signature of a word covers: who says it, of what kind, where, when, in which run, and what."""

from __future__ import annotations

from typing import Any

import pytest

from admmnet.identity.keys import SIGNATURE, Identity
from admmnet.transport.zmq.wire import Frame, Kind, as_json
from admmnet.transport.zmq.words import SIGNED, SignedWords

PEOPLE = [Identity.fresh() for _ in range(3)]
KEYS = [person.public for person in PEOPLE]
START = "ab" * 32


def words_of(place: int, start: str = "") -> SignedWords:
    words = SignedWords(PEOPLE[place], KEYS)
    words.start = start
    return words


def signed(words: SignedWords, kind: Kind, origin: int, channel: int = 0, turn: int = 5) -> Frame:
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
    frame = signed(words_of(1, START), kind, 1)
    others = words_of(0, START)
    assert others.genuine(frame)
    assert others.genuine(frame._replace(sender=0, link=bytes(range(16)), sequence=9))  # whoever passes it on
    assert not others.genuine(frame._replace(**change))


@pytest.mark.parametrize("kind", SIGNED)
def test_words_of_another_start_are_none_of_this_one(kind: Kind) -> None:
    frame = signed(words_of(1, START), kind, 1)
    assert not words_of(0, "cd" * 32).genuine(frame)
    assert not words_of(0).genuine(frame)  # before there is one
    assert words_of(1).sign(kind, 0, 1, 0, b"{}") == b""
