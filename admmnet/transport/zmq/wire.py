"""Frames between processes: a header, a payload of raw float64 or int64 or JSON, words (docs/protocol.md, "Wire").

Pure: bytes in, values out. Nothing is unpickled, and whatever arrives, ``decode`` returns a frame or raises
``BadFrame`` with a named reason.
"""

from __future__ import annotations

import json
import struct
import zlib
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
import numpy as np

from admmnet.errors import RunError
from admmnet.types import Integers, Vector

MAGIC, VERSION = b"ADMM", 2
LIMIT = 2**26
"""Largest frame in bytes: 8 million numbers."""
NO_LINK = bytes(16)
"""Link id of HELLO, the only frame before both ends know each other's nonce."""

# magic, version, kind, dtype, 0, link, channel, length of words, sender, origin, round, sequence, acknowledged,
# length of payload, checksum
_FIELDS = struct.Struct("<4sBBBB16sHHIIiQQI")
_CHECKSUM = struct.Struct("<I")
HEADER = _FIELDS.size + _CHECKSUM.size
"""Bytes of a header."""


class Kind(IntEnum):
    """What a frame is for."""

    HELLO = 1  # nonces, settings and network of a process that connects
    VECTOR = 2  # what an agent broadcasts in a round
    SILENCE = 3  # an agent broadcasts nothing in this round
    SHARE = 4  # one process's value of a gather; it travels on from neighbour to neighbour
    ROWS = 5  # one process's rows of a collect; they travel on likewise
    WAITING = 6  # the sender lives, and waits for the processes listed
    ACKNOWLEDGE = 7  # nothing but how far the sender has received
    AGAIN = 8  # likewise, and the receiver shall send what comes after that once more
    WORD = 9  # what an agent says of a start that is being formed; travels on
    ABORT = 10  # all shall end with an exit code; travels on
    BYE = 11  # the sender needs nothing more and leaves
    UP = 12  # a partial sum, from an agent to its parent in the tree of an attempt
    DOWN = 13  # the total of a sum
    START = 14  # what follows on this link belongs to the start of this name
    POST = 15  # one process's rows of a round, for which nobody waits; they travel on likewise


NOTHING, FLOAT64, JSON, INT64, BYTES = 0, 1, 2, 3, 4
_DTYPE = (
    dict.fromkeys(Kind, NOTHING)
    | dict.fromkeys((Kind.VECTOR, Kind.ROWS, Kind.POST), FLOAT64)
    | dict.fromkeys((Kind.UP, Kind.DOWN), INT64)
    | dict.fromkeys((Kind.HELLO, Kind.SHARE, Kind.WAITING, Kind.ABORT), JSON)
    | dict.fromkeys((Kind.WORD, Kind.START), BYTES)
)
MOST = {kind: LIMIT if dtype else 0 for kind, dtype in _DTYPE.items()}
"""Largest payload in bytes. JSON takes up to 35 times its size in memory once it is read, so it is held short."""
MOST |= {Kind.HELLO: 2**16, Kind.SHARE: 2**21, Kind.WORD: 2**20, Kind.START: 32}
MOST |= {Kind.WAITING: 2**14, Kind.ABORT: 2**14}
_KINDS = {int(kind): kind for kind in Kind}
SPEAKING = (Kind.VECTOR, Kind.SILENCE, Kind.SHARE, Kind.ROWS, Kind.POST, Kind.ABORT)
"""Kinds with words: whose origin signs what it says."""
REASONS = (
    *("truncated", "magic", "version", "oversized", "trailing"),
    *("checksum", "kind", "dtype", "reserved", "payload", "words"),
)
"""Why bytes are refused, in the order of the tests."""


def check_size(size: int, what: str, kind: Kind) -> None:
    """Refuse to send what no frame of a kind can carry."""
    most = min(MOST[kind], LIMIT - HEADER)
    if size > most:
        raise RunError(f"{what} has {size} bytes; a message carries at most {most}")


class BadFrame(Exception):
    """Bytes that are no frame; ``reason`` is one of ``REASONS``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Frame(NamedTuple):
    """One message of a link."""

    kind: Kind
    link: bytes
    """16 bytes that both ends of this link made from their nonces: no frame of another session has them."""
    sender: int
    """Process that sends this frame."""
    channel: int = 0
    """Which network of the world; 0 to 65535."""
    origin: int = 0
    """Whose content it is: an agent in VECTOR, SILENCE and UP, a process in SHARE, ROWS, ABORT and DOWN."""
    round: int = 0
    """Number of the exchange or sum of its channel, the gather, the collect; below 2^31."""
    sequence: int = 0
    """Place among the frames that must arrive on this link, from 1; 0 for those that need not."""
    acknowledged: int = 0
    """Sequence up to which the sender has received the receiver's frames."""
    payload: bytes = b""
    """Float64 or int64 in little-endian order, or UTF-8 JSON, or nothing, as the kind says."""
    words: bytes = b""
    """Signature of the origin of one of ``SIGNED``, receipt of a VECTOR or SILENCE; below 2^16 bytes."""


def encode(frame: Frame) -> bytes:
    """Bytes of a frame; a field out of range is a ValueError, callers check what comes from outside."""
    place = (frame.link, frame.channel, len(frame.words), frame.sender, frame.origin, frame.round)
    end = (frame.sequence, frame.acknowledged, len(frame.payload))
    try:
        head = _FIELDS.pack(MAGIC, VERSION, frame.kind, _DTYPE[frame.kind], 0, *place, *end)
    except struct.error as error:
        raise ValueError(f"no frame can carry this: {error}") from None
    body = frame.payload + frame.words
    return b"".join((head, _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(head))), body))


def decode(data: bytes) -> Frame:
    """Frame of a message of at most ``LIMIT`` bytes: exactly the one that ``encode`` turns into them.

    Raises
    ------
    BadFrame
        And nothing else, whatever the bytes are.
    """
    if len(data) < HEADER:
        raise BadFrame("truncated")
    fields = _FIELDS.unpack_from(data)
    magic, version, kind, dtype, zero, link, channel, spoken, sender, origin = fields[:10]
    round, sequence, acknowledged, length = fields[10:]
    if magic != MAGIC:
        raise BadFrame("magic")
    if version != VERSION:  # another version may lay out the rest differently
        raise BadFrame("version")
    end = HEADER + length
    whole = end + spoken
    if max(len(data), whole) > LIMIT:
        raise BadFrame("oversized")
    if len(data) != whole:
        raise BadFrame("truncated" if len(data) < whole else "trailing")
    (checksum,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if zlib.crc32(data[HEADER:], zlib.crc32(data[: _FIELDS.size])) != checksum:
        raise BadFrame("checksum")
    known = _KINDS.get(kind)
    if known is None:
        raise BadFrame("kind")
    if dtype != _DTYPE[known]:
        raise BadFrame("dtype")
    if zero:
        raise BadFrame("reserved")
    if dtype in (FLOAT64, INT64) and length % 8:
        raise BadFrame("payload")
    if length > MOST[known] or (dtype == JSON and not length):
        raise BadFrame("payload")
    if spoken and known not in SPEAKING:
        raise BadFrame("words")
    place = (sender, channel, origin, round, sequence, acknowledged)
    return Frame(known, link, *place, payload=data[HEADER:end], words=data[end:])


def numbers(payload: bytes) -> Vector:
    """Numbers of a VECTOR or ROWS, in an array of its own, bit for bit."""
    return np.frombuffer(payload, dtype="<f8").astype(np.float64)


def payload_of(numbers: Vector | Integers, kind: str = "<f8") -> bytes:
    """Payload of a VECTOR or ROWS, of ``kind`` "<i8" that of an UP or DOWN: the numbers in C order."""
    return np.ascontiguousarray(numbers, dtype=kind).tobytes()


def integers(payload: bytes) -> Integers:
    """Numbers of an UP or DOWN, in an array of its own."""
    return np.frombuffer(payload, dtype="<i8").astype(np.int64)


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of HELLO."""

    nonce: str
    """The sender's."""
    echo: str
    """The receiver's nonce as the sender knows it, or ""."""
    ready: bool
    """Whether the sender has seen its own nonce come back."""
    network: str
    """Digest of its network file."""
    settings: dict[str, Any]
    """Its public settings."""
    begun: bool = False
    """Whether it goes on with a run, so that settings which were "auto" have values."""
    run: str = ""
    """Name of the first start of the run with which it goes on; "" where it has charged nothing."""


class Excuse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"absent": "for"}):
    """Content of WAITING: for which processes, and how many frames the sender has sent."""

    absent: list[int]
    sent: int


class Abort(msgspec.Struct, frozen=True):
    """Content of ABORT: exit code, and the reason unless the sender's own output says it."""

    code: int
    reason: str | None = None


_CONTENT: dict[Kind, Any] = {Kind.HELLO: Hello, Kind.WAITING: Excuse, Kind.ABORT: Abort}


def content(frame: Frame) -> Any:
    """JSON value of a frame, typed where its kind's always is; BadFrame if its payload is none."""
    try:
        value = json.loads(frame.payload.decode("utf-8"))
        return msgspec.convert(value, _CONTENT.get(frame.kind, Any))
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise BadFrame("payload") from None


def as_json(value: Any) -> bytes:
    """Payload of a JSON kind."""
    return json.dumps(msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value).encode()
