"""Frames between an agent and the relay: typed MessagePack; nothing is unpickled (docs/protocol.md, "Wire")."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from admmnet.errors import RunError
from admmnet.types import Integers, Vector

LIMIT = 2**26
"""Largest frame in bytes: 8 million numbers."""
LOG = 64
"""Frames that are kept to be sent again where a line is cut and comes back."""
Whole = Annotated[int, Meta(ge=0, lt=2**53)]


class Kind(IntEnum):
    """What a frame is for."""

    HELLO = 1  # to the relay: who speaks on this line, under which settings; back: how many of its frames have come
    HERE = 2  # to the relay: the agent would take part in the next start; signed
    START = 3  # to all: words HERE, from which the next start follows
    PART = 4  # to one neighbour: a part of a turn
    SAY = 5  # to the relay: a part of a turn, signed; to all: those of all members
    WAIT = 6  # to the relay: for whom the agent waits, in which turn
    OVER = 7  # this start has ended, and why
    STAGED = 8  # to the relay: the files of an end, and the agent's signature of them
    SIGN = 9  # to an agent: files of an end that others have signed
    END = 10  # to an agent: files of an end that most have signed, and these signatures
    STOP = 11  # the run ends here, with an exit code and a reason
    BYE = 12  # to the relay: the agent has finished


class Frame(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One message between an agent and the relay."""

    kind: Kind
    number: Whole = 0
    """Place among the frames of this direction, from 1; 0 of HELLO."""
    start: bytes = b""
    """Name of the start to which it belongs."""
    who: Annotated[int, Meta(ge=-1, lt=2**31)] = -1
    """The agent for which it is, or from which."""
    topic: Annotated[str, Meta(max_length=40)] = ""
    turn: Whole = 0
    payload: bytes = b""
    words: bytes = b""
    """Signature of a SAY or STAGED."""


class BadFrame(Exception):
    """Bytes that are no frame, or whose content is not that of its kind."""


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """Bytes of a frame; RunError if they are too many."""
    data = _ENCODER.encode(frame)
    if len(data) > LIMIT:
        raise RunError(f"a message has {len(data)} bytes; at most {LIMIT} can be sent")
    return data


def decode(data: bytes) -> Frame:
    """Frame of a message; BadFrame, and nothing else, whatever the bytes are."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFrame from None


def packed(value: Any) -> bytes:
    """Payload of a typed value."""
    return _ENCODER.encode(value)


def unpacked(data: bytes, kind: Any) -> Any:
    """Undo ``packed``; BadFrame if the value is of another type."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFrame from None


Parts = Sequence[tuple[bytes, bytes] | None]
"""What all have said in a turn, with its signatures, by agent; None of no members."""


class Hello(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of HELLO, whose ``words`` are the agent's signature."""

    agent: Whole
    session: str
    """Drawn when the process began."""
    network: str
    """Digest of its network file."""
    settings: dict[str, Any]
    begun: bool
    """Whether it goes on with a run, so that settings which were "auto" have values."""
    sent: Whole = 0
    got: Whole = 0
    """Frames that it has sent, and got, in this session: after a cut the relay sees whether one was lost."""


class Wait(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of WAIT."""

    seconds: float
    whom: list[Whole]


class Over(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of OVER: the reason, and the agent that is to blame for it."""

    text: str
    whom: int | None = None


class Stop(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of STOP."""

    code: int
    text: str | None = None
    """None where the sender's own output says it."""


class End(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of STAGED, SIGN and END."""

    digest: str
    files: dict[str, bytes]
    finish: bytes = b""
    """finish.json, of END."""


def numbers(payload: bytes) -> Vector:
    """Float64 numbers of a payload, in an array of its own, bit for bit."""
    return np.frombuffer(payload, dtype="<f8").astype(np.float64)


def integers(payload: bytes) -> Integers:
    """Int64 numbers of a payload, in an array of its own."""
    return np.frombuffer(payload, dtype="<i8").astype(np.int64)


def payload_of(numbers: Vector | Integers, kind: str = "<f8") -> bytes:
    """Undo ``numbers``, or of kind "<i8" ``integers``."""
    return np.ascontiguousarray(numbers, dtype=kind).tobytes()
