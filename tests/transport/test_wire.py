"""Frames: what is encoded is decoded, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from admmnet.errors import RunError
from admmnet.transport.zmq.wire import (
    LIMIT,
    BadFrame,
    Frame,
    Hello,
    Kind,
    Wait,
    decode,
    encode,
    integers,
    numbers,
    packed,
    payload_of,
    unpacked,
)

FRAMES = some.builds(
    Frame,
    some.sampled_from(Kind),
    some.integers(0, 2**53 - 1),
    some.binary(max_size=32),
    some.integers(-1, 2**31 - 1),
    some.text(max_size=40),
    some.integers(0, 2**53 - 1),
    some.binary(),
    some.binary(),
)


@given(FRAMES)
def test_what_is_encoded_is_decoded(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


@given(some.binary())
def test_other_bytes_are_refused(data: bytes) -> None:
    for read in (decode, lambda data: unpacked(data, Hello), lambda data: unpacked(data, Wait)):
        try:
            read(data)
        except BadFrame:
            continue
        assert encode(decode(data)) == data


@given(FRAMES, some.data())
def test_a_frame_that_is_cut_or_longer_is_refused(frame: Frame, draw: some.DataObject) -> None:
    data = encode(frame)
    for bad in (data[: draw.draw(some.integers(0, len(data) - 1))], data + b"\x00"):
        with pytest.raises(BadFrame):
            decode(bad)


def test_brackets_in_brackets_are_refused() -> None:
    with pytest.raises(BadFrame):
        decode(b"\x91" * 100_000)


def test_numbers_travel_bit_for_bit() -> None:
    odd = np.array([0.0, -0.0, np.nan, np.inf, 5e-324, 1 / 3])
    assert numbers(payload_of(odd[::-1])).tobytes() == odd[::-1].tobytes()
    whole = np.array([-(2**63), 2**63 - 1, 0])
    assert integers(payload_of(whole, "<i8")).tolist() == whole.tolist()


def test_nobody_sends_more_than_others_take() -> None:
    with pytest.raises(RunError, match="at most"):
        encode(Frame(Kind.PART, payload=bytes(LIMIT)))
    with pytest.raises(BadFrame):
        unpacked(packed({"seconds": 1.0, "whom": [-1]}), Wait)
