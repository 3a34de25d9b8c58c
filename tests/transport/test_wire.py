"""Frames: each message arrives once and in order, whatever the line does; other bytes are refused, and nothing more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from admmnet.errors import RunError
from admmnet.transport.zmq import wire
from admmnet.transport.zmq.meeting import Hail, sign_here
from admmnet.transport.zmq.wire import (
    BadFrame,
    Failed,
    Frame,
    Kind,
    Line,
    Lost,
    Message,
    Word,
    packed,
    read_word,
    sign_word,
)
from tests.transport.starts import IDENTITIES, KEYS, call_of, here, word

WORD = read_word(word(1, 3), KEYS)
SAMPLES: list[Any] = [
    *(Frame(Kind.PART, 7, b"s" * 32, 3, 2**53 - 1, True), WORD, wire.Said("rows", b"12345678", word(1, 3))),
    *(here(1, staged="end"), Hail(b"here", [word(1, 3)]), wire.Hello(3, "session", 1, 2), Failed(3, "late")),
    *(Failed(3, "late", 3), Failed(3), Failed(0, "text")),
    *(wire.Signature("end", bytes(64)), wire.End("end", {"model.npz": b"x"}, b"finish")),
    call_of([here(0), here(1)], [word(0, 3)], [(0, 1)]),
]
FORMS = [*dict.fromkeys(map(type, SAMPLES))]


def take(line: Line, message: Message, limit: int = 2**40) -> bytes | None:
    return line.take(wire.unpacked(message[0], wire.Frame), bytes(message[1]), limit)


# frames and their forms


@pytest.mark.parametrize("value", SAMPLES, ids=lambda value: type(value).__name__)
def test_what_is_packed_is_unpacked(value: Any) -> None:
    data = packed(value)
    assert wire.unpacked(data, type(value)) == value
    for bad in (data[:-1], data + b"\x00", data[1:], b""):
        with pytest.raises(BadFrame):
            wire.unpacked(bad, type(value))


@settings(max_examples=300)
@given(some.binary(max_size=200), some.sampled_from(FORMS))
def test_other_bytes_are_refused(data: bytes, form: Any) -> None:
    for kind in (form, list[wire.Said]):
        try:
            wire.unpacked(data, kind)
        except BadFrame:
            continue


@settings(max_examples=300)
@given(some.sampled_from(SAMPLES), some.data())
def test_changed_bytes_are_refused_or_another_value_in_range(value: Any, draw: some.DataObject) -> None:
    data = bytearray(packed(value))
    for _ in range(draw.draw(some.integers(1, 3))):
        data[draw.draw(some.integers(0, len(data) - 1))] = draw.draw(some.integers(0, 255))
    try:
        found = wire.unpacked(bytes(data), type(value))
    except BadFrame:
        return
    assert wire.unpacked(packed(found), type(value)) == found


@pytest.mark.parametrize("data", [b"\x91" * 100_000, b"\x81" * 100_000, b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xa1\xff"])
def test_brackets_in_brackets_and_large_counts_are_refused(data: bytes) -> None:
    for form in FORMS:
        with pytest.raises(BadFrame):
            wire.unpacked(data, form)
    with pytest.raises(BadFrame):
        wire.unpacked(data, wire.Frame)


OUT_OF_RANGE = [
    (Frame, [0]),
    (Frame, [13]),
    (Frame, [4, 2**53]),
    (Frame, [4, 1, b"x" * 33]),
    (Frame, [4, 1, b"", -2]),
    (Frame, [4, 1, b"", 0, -1]),
    (Frame, [4, 1, b"", 0, 0, 1]),
    (Frame, [4, 1, b"", 0, 0, True, 0]),
    (Word, ["r", "s", 0, 1, 2, 2**31, 0, "h", bytes(32)]),
    (Word, ["r", "s", 0, 1, 2, -6, 0, "h", bytes(32)]),
    (Word, ["r", "s", 0, 1, 2, 3, 0, "h", bytes(31)]),
    (Word, ["r", "s", 0, 1, 2**53, 3, 0, "h", bytes(32)]),
    (Word, ["r" * 65, "s", 0, 1, 2, 3, 0, "h", bytes(32)]),
    (wire.Said, ["t" * 41, b"", bytes(100)]),
    (wire.Said, ["t", b"", bytes(64 + 1001)]),
    (wire.Hello, {"agent": -1, "session": ""}),
    (wire.Hello, {"agent": 1, "session": "", "more": 1}),
    (Failed, {"code": 3, "text": "x" * 1001}),
    (Failed, {"code": 3, "text": "x", "whom": -1}),
    (Failed, {"code": 256}),
    (Failed, {"code": -1, "text": ""}),
    (wire.Signature, {"digest": "x", "signature": bytes(63)}),
    *((wire.End, {"digest": "x", "files": {name: b""}}) for name in ("x" * 38 + ".npz", "../x.npz", "x/y.npz")),
]


@pytest.mark.parametrize(("form", "value"), OUT_OF_RANGE)
def test_values_out_of_range_are_refused(form: Any, value: Any) -> None:
    with pytest.raises(BadFrame):
        wire.unpacked(packed(value), form)


# words


def test_a_word_is_its_agents() -> None:
    data = sign_word(WORD, IDENTITIES[1])
    assert read_word(data, KEYS) == WORD
    other = msgspec.structs.replace(WORD, round=9)
    for bad in (sign_word(WORD, IDENTITIES[2]), data[:64] + packed(other), data[:-1], data + b"x", b"", data[:64]):
        with pytest.raises(BadFrame):
            read_word(bad, KEYS)
    with pytest.raises(BadFrame):
        read_word(data, KEYS[:1])
    with pytest.raises(BadFrame):  # HERE is no word, though its agent has signed it
        read_word(sign_here(here(1), IDENTITIES[1]), KEYS)


@pytest.mark.parametrize("name", ["run", "start", "agent", "to", "turn", "round", "lines", "head"])
def test_words_contradict_in_one_place_alone(name: str) -> None:
    said = msgspec.structs.replace(WORD, said=b"x" * 32)
    assert wire.contradict(WORD, said)
    assert not wire.contradict(WORD, WORD)
    value = "other" if isinstance(getattr(WORD, name), str) else 4
    elsewhere = msgspec.structs.replace(said, **{name: value})
    assert wire.contradict(WORD, elsewhere) == (name not in ("start", "agent", "to", "turn"))
    assert not wire.contradict(WORD, msgspec.structs.replace(WORD, **{name: value}))


def test_the_newest_word_has_most_lines_then_the_highest_round() -> None:
    ages = [read_word(word(1, round, lines=lines), KEYS).age for round, lines in ((9, 1), (2, 2), (3, 2))]
    assert ages == sorted(ages)


def test_what_is_said_depends_on_topic_and_payload() -> None:
    assert len({wire.digest_of(*said) for said in (("ab", b"c"), ("a", b"bc"), ("abc", b""), ("", b"abc"))}) == 4


# lines


@pytest.fixture(params=[wire.PIECE, 4])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(wire, "PIECE", request.param)
    return int(request.param)


def test_a_body_goes_in_pieces(piece: int) -> None:
    sender, receiver = Line(), Line()
    for size, count in ((0, 1), (1, 1), (piece, 1), (piece + 1, 2), (3 * piece, 3)):
        body = bytes(i % 251 for i in range(size))
        sent = sender.frames(Kind.SAY, body, turn=3, who=2, start=b"name")
        assert len(sent) == count
        heads = [wire.unpacked(head, wire.Frame) for head, _ in sent]
        assert {(one.kind, one.turn, one.who, one.start) for one in heads} == {(Kind.SAY, 3, 2, b"name")}
        assert [one.more for one in heads] == [True] * (count - 1) + [False]
        assert [take(receiver, message) for message in sent] == [None] * (count - 1) + [body]
    assert sender.sent == receiver.got == 8


def test_a_missing_or_repeated_frame_is_noticed() -> None:
    sender, receiver = Line(), Line()
    first, second, third = (sender.frames(Kind.PART, bytes([i]))[0] for i in range(3))
    assert take(receiver, first) == b"\x00"
    with pytest.raises(Lost):
        take(receiver, first)
    assert take(receiver, second) == b"\x01"
    fourth = sender.frames(Kind.PART, b"\x03")[0]
    with pytest.raises(Lost):  # it is told once; what comes behind is taken
        take(receiver, fourth)
    assert third
    assert take(receiver, sender.frames(Kind.PART, b"\x04")[0]) == b"\x04"


def test_too_large_a_body_is_refused_before_it_is_whole(piece: int) -> None:
    sender, receiver = Line(), Line()
    messages = sender.frames(Kind.SAY, bytes(3 * piece))
    assert take(receiver, messages[0], 2 * piece) is None
    assert take(receiver, messages[1], 2 * piece) is None
    with pytest.raises(BadFrame) as caught:
        take(receiver, messages[2], 2 * piece)
    assert not isinstance(caught.value, Lost)
    assert take(receiver, sender.frames(Kind.SAY, b"next")[0], 2 * piece) == b"next"


def test_nobody_sends_more_than_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FILES_LIMIT", 100)
    assert Line().frames(Kind.FILES, bytes(100))
    with pytest.raises(RunError, match="a message has 101 bytes; at most 100"):
        Line().frames(Kind.FILES, bytes(101))


def test_what_is_kept_is_sent_again() -> None:
    line = Line()
    sent = [line.frames(Kind.PART, bytes([turn]), turn=turn)[0] for turn in (0, 1, 1, 2, 0, 3)]
    assert [line.after(got) for got in (0, 4, 6)] == [sent, sent[4:], []]
    assert line.after(7) is None  # it cannot have got more than was sent
    line.forget(2)
    assert line.after(2) is None
    assert line.after(3) == sent[3:]
    line.forget(3)  # what stands between turns goes with them
    assert line.after(5) == sent[5:]
    line.forget(2**53)
    assert (line.after(5), line.after(6)) == (None, [])


def test_no_more_than_a_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "KEPT", 10)
    line = Line()
    sent = [line.frames(Kind.PART, bytes(4))[0] for _ in range(5)]
    assert line.after(2) is None
    assert line.after(3) == sent[3:]
    line.frames(Kind.PART, bytes(11))
    assert line.after(5) is None


@settings(max_examples=150)
@given(
    some.lists(some.binary(max_size=20), max_size=20),
    some.lists(some.sampled_from(["send", "arrive", "arrive", "arrive", "cut", "mend"]), max_size=100),
)
def test_each_message_arrives_once_and_in_order_over_a_line_that_is_cut(bodies: list[bytes], acts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "PIECE", 4)
        sender, receiver = Line(), Line()
        way: list[Message] = []  # sent, and not arrived
        heard, left, up = list[bytes](), list(bodies), True
        for act in [*acts, *["send"] * len(bodies), "mend", *["arrive"] * 5 * len(bodies)]:
            if act == "send" and left:
                messages = sender.frames(Kind.PART, left.pop(0))
                way += messages if up else []
            elif act == "arrive" and way:
                whole = take(receiver, way.pop(0))
                heard += [] if whole is None else [whole]
            elif act == "cut":
                way, up = [], False
            elif act == "mend" and not up:
                again = sender.after(receiver.got)
                assert again is not None
                way, up = again, True
        assert heard == bodies
