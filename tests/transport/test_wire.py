"""The decoder against everything: a sample of cases here, 100,000 with ADMMNET_FUZZ=100000 in the environment."""

from __future__ import annotations

import json
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admmnet.transport.zmq.wire import (
    HEADER,
    LIMIT,
    MOST,
    REASONS,
    SPEAKING,
    BadFrame,
    Frame,
    Kind,
    as_json,
    content,
    decode,
    encode,
    integers,
    numbers,
    payload_of,
)

PROPERTIES = 6
CASES = int(os.environ.get("ADMMNET_FUZZ", "450"))
"""Of all properties together."""
fuzz = settings(max_examples=-(-CASES // PROPERTIES), deadline=None, suppress_health_check=list(HealthCheck))
LINK = bytes(range(16))
FRAME = Frame(Kind.VECTOR, LINK, 3, origin=5, round=7, sequence=9, acknowledged=8, payload=payload_of(np.ones(3)))
DATA = encode(FRAME)

doubles = st.lists(st.integers(0, 2**64 - 1), max_size=40).map(
    lambda bits: np.array(bits, dtype=np.uint64).view(np.float64)  # every bit pattern, nan payloads included
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
whole_numbers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40).map(
    lambda values: np.array(values, dtype=np.int64)
)
WITH_NUMBERS, WITH_INTEGERS = (Kind.VECTOR, Kind.ROWS, Kind.POST), (Kind.UP, Kind.DOWN)
EMPTY = (Kind.SILENCE, Kind.ACKNOWLEDGE, Kind.AGAIN, Kind.BYE)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    kind = draw(st.sampled_from(Kind))
    if kind in WITH_NUMBERS:
        payload = payload_of(draw(doubles))
    elif kind in WITH_INTEGERS:
        payload = payload_of(draw(whole_numbers), "<i8")
    elif kind in EMPTY:
        payload = b""
    else:
        payload = draw(st.binary(max_size=32)) if kind in (Kind.WORD, Kind.START) else as_json(draw(json_values))
    return Frame(
        kind,
        link=draw(st.binary(min_size=16, max_size=16)),
        sender=draw(st.integers(0, 2**32 - 1)),
        channel=draw(st.integers(0, 2**16 - 1)),
        origin=draw(st.integers(0, 2**32 - 1)),
        round=draw(st.integers(-(2**31), 2**31 - 1)),
        sequence=draw(st.integers(0, 2**64 - 1)),
        acknowledged=draw(st.integers(0, 2**64 - 1)),
        payload=payload,
        words=draw(st.binary(max_size=80)) if kind in SPEAKING else b"",
    )


def refused(data: bytes) -> str | None:
    """Return the reason why bytes are refused, None for a frame; whatever is taken is exactly a frame."""
    reason: str | None = None
    try:
        frame = decode(data)
    except BadFrame as bad:
        reason = bad.reason
    assert reason in REASONS if reason is not None else encode(frame) == data
    return reason


@fuzz
@given(frames())
def test_round_trip_is_bit_for_bit(frame: Frame) -> None:
    data = encode(frame)
    assert decode(data) == frame
    assert len(data) == HEADER + len(frame.payload) + len(frame.words)
    if frame.kind in WITH_NUMBERS:
        arrived = numbers(decode(data).payload)
        assert arrived.dtype == np.float64
        assert arrived.tobytes() == frame.payload
        assert arrived.flags.writeable
    if frame.kind in WITH_INTEGERS:
        whole = integers(decode(data).payload)
        assert whole.dtype == np.int64
        assert whole.tobytes() == frame.payload
        assert whole.flags.writeable


@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.SHARE, Kind.WAITING, Kind.ABORT])
def test_json_that_nobody_needs_is_not_even_read(kind: Kind) -> None:
    assert MOST[kind] <= 2**21
    long = FRAME._replace(kind=kind, payload=b"[" + b" " * (MOST[kind] - 2) + b"]")
    assert decode(encode(long)) == long
    assert refused(encode(long._replace(payload=long.payload + b" "))) == "payload"


@fuzz
@given(frames(), st.data())
def test_one_flipped_bit_is_always_refused(frame: Frame, data: st.DataObject) -> None:
    whole = bytearray(encode(frame))
    place = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[place // 8] ^= 1 << place % 8
    assert refused(bytes(whole)) is not None


@fuzz
@given(frames(), st.data(), st.binary(min_size=1, max_size=200))
def test_cut_and_extended_frames_are_refused(frame: Frame, data: st.DataObject, extra: bytes) -> None:
    whole = encode(frame)
    assert refused(whole[: data.draw(st.integers(0, len(whole) - 1))]) == "truncated"
    assert refused(whole + extra) == "trailing"
    assert refused(extra + whole) is not None


@fuzz
@given(frames(), st.data(), st.booleans())
def test_changed_frames_are_refused_or_frames(frame: Frame, data: st.DataObject, seal: bool) -> None:
    """Anywhere, or in the header under the checksum that fits."""
    whole = bytearray(encode(frame))
    low, high = (4, HEADER - 5) if seal else (0, len(whole) - 1)
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(low, high))] = data.draw(st.integers(0, 255))
    refused(sealed(bytes(whole)) if seal else bytes(whole))


@fuzz
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused_or_frames(noise: bytes, with_head: bool) -> None:
    refused(DATA[:8] + noise if with_head else noise)


@fuzz
@given(st.binary(max_size=60))
def test_content_is_json_or_refused(payload: bytes) -> None:
    try:
        expected = json.loads(payload.decode("utf-8"))
    except ValueError:
        with pytest.raises(BadFrame, match="payload"):
            content(Frame(Kind.SHARE, LINK, 0, payload=payload))
    else:
        found = content(Frame(Kind.SHARE, LINK, 0, payload=payload))
        assert json.dumps(found) == json.dumps(expected)


def sealed(data: bytes) -> bytes:
    """Return the bytes with the checksum that fits them."""
    head, payload = data[: HEADER - 4], data[HEADER:]
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


def patched(place: int, value: bytes, data: bytes = DATA) -> bytes:
    return sealed(data[:place] + value + data[place + len(value) :])


SIGNED = encode(FRAME._replace(words=b"signed"))
SILENCE = encode(Frame(Kind.SILENCE, LINK, 3))
LENGTH = HEADER - 8


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (DATA[:-1], "truncated"),
        (patched(LENGTH, struct.pack("<I", 32)), "truncated"),
        (DATA + b"\0", "trailing"),
        (patched(LENGTH, struct.pack("<I", 16)), "trailing"),
        (patched(LENGTH, struct.pack("<I", 2**32 - 1)), "oversized"),
        (DATA + bytes(LIMIT + 1 - len(DATA)), "oversized"),
        (patched(0, b"HTTP"), "magic"),
        (patched(4, b"\x01"), "version"),
        (patched(5, b"\x00"), "kind"),
        (patched(5, b"\x63"), "kind"),
        (patched(6, b"\x02"), "dtype"),
        (patched(6, b"\x07"), "dtype"),
        (patched(7, b"\x01"), "reserved"),
        (patched(26, b"\x01"), "truncated"),
        (patched(26, b"\x05", SIGNED), "trailing"),
        (patched(26, b"\x0e\x00", SIGNED), "truncated"),
        (sealed(patched(26, b"\x01", encode(Frame(Kind.BYE, LINK, 3))) + b"\0"), "words"),
        (DATA[:-1] + b"\x01", "checksum"),
        (sealed(patched(LENGTH, struct.pack("<I", 23))[:-1]), "payload"),
        (sealed(patched(LENGTH, struct.pack("<I", 8), SILENCE) + bytes(8)), "payload"),
        (encode(Frame(Kind.SHARE, LINK, 0)), "payload"),
    ],
)
def test_reasons(data: bytes, reason: str) -> None:
    assert refused(data) == reason


def test_deep_json_is_refused() -> None:
    deep = Frame(Kind.SHARE, LINK, 0, payload=b"[" * 100_000)
    with pytest.raises(BadFrame, match="payload"):
        content(decode(encode(deep)))


@pytest.mark.parametrize(
    "bad",
    [
        {"round": 2**31},
        {"channel": 2**16},
        {"sender": -1},
        {"origin": 2**32},
        {"sequence": -1},
        {"words": bytes(2**16)},
    ],
)
def test_fields_out_of_range_are_not_sent(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="no frame can carry this"):
        encode(FRAME._replace(**bad))  # type: ignore[arg-type]
