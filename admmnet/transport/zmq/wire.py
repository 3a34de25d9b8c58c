"""Frames between an agent and the relay: a head in typed MessagePack and a body (docs/protocol.md, "Wire").

A word to all has a topic, of a form of its own: nothing else is told (docs/protocol.md, "Told values").
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from admmnet.errors import RunError
from admmnet.forms import ready
from admmnet.identity.keys import SIGNATURE, Identity, statement, verify
from admmnet.transport.hosts import Peer
from admmnet.types import NEVER

PIECE = 2**20
"""Most bytes of a body in one frame: a larger one goes in several, between which heartbeats find room."""
SHORT, LONG, LARGEST, FILES_LIMIT = 2**14, 2**20, 2**26, 2**31
"""Most bytes of HELLO, OVER, STOP; of HERE and of a SAY without numbers; of numbers, 8 million; of an end's files."""
KEPT = 2**28
"""Most bytes that are kept for an agent to be sent again after a cut of its line."""
Whole = Annotated[int, Meta(ge=0, lt=2**53)]
Round = Annotated[int, Meta(ge=NEVER, lt=2**31)]
Name = Annotated[str, Meta(max_length=64)]
Head = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?(?!\n)$", max_length=64)]
"""sha256 of the last line of a ledger; "" of none."""
Signed = Annotated[bytes, Meta(min_length=SIGNATURE, max_length=SIGNATURE + 1000)]
"""A word behind the signature of its agent."""


class Kind(IntEnum):
    """Purpose of a frame."""

    HELLO = 1  # to the relay: which agent speaks on this line; back: how many of its frames have come
    HERE = 2  # to the relay: the agent would take part in the next start; signed
    START = 3  # to its members: words HERE, from which the start follows
    PART = 4  # to a neighbour: a part of an exchange, sealed
    SUM = 5  # to the parent in the tree: a part of a sum, sealed
    SAY = 6  # to the relay: a word to all, signed; to all: those of all members, or the total of a sum
    OVER = 7  # this start has ended: an error, and the neighbour whose part was none
    FILES = 8  # to the relay, and to members that have none: files of an end
    END = 9  # to an agent: finish.json
    STOP = 10  # the run ends here, with an exit code and a reason
    BYE = 11  # to the relay: the agent has finished


class Frame(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Head of a message between an agent and the relay."""

    kind: Kind
    number: Whole = 0
    """Place among the frames of this direction, from 1; 0 of HELLO."""
    start: Annotated[bytes, Meta(max_length=32)] = b""
    """Name of the start to which it belongs."""
    who: Annotated[int, Meta(ge=-1, lt=2**31)] = -1
    """The agent for which it is, or from which."""
    turn: Whole = 0
    more: bool = False
    """Whether its body goes on in the next frame."""


class BadFrame(Exception):
    """Bytes that are no frame, or whose content is not that of its kind."""


class Lost(BadFrame):
    """A frame before this one has not come."""


packed = msgspec.msgpack.encode
"""Bytes of a typed value."""


def unpacked(data: bytes, kind: Any) -> Any:
    """Undo ``packed``; BadFrame, and nothing else, if the bytes are no value of this type."""
    try:
        return msgspec.msgpack.decode(data, type=ready(kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFrame from None


Message = tuple[bytes, "bytes | memoryview"]
"""Head and body."""


class Line:
    """Frames between one process and the relay, numbered in both directions, whatever happens to its connections."""

    def __init__(self, sent: int = 0, got: int = 0) -> None:
        self.sent, self.got = sent, got
        self._log: deque[tuple[int, int, Message]] = deque()
        self._kept, self._parts, self._size = 0, list[bytes](), 0
        self._of: Frame | None = None  # first frame of a body that goes on

    def frames(self, kind: Kind, body: bytes = b"", *, turn: int = 0, **fields: Any) -> list[Message]:
        """Messages that carry a body, kept to be sent again."""
        if len(body) > FILES_LIMIT:
            raise RunError(f"a message has {len(body)} bytes; at most {FILES_LIMIT} can be sent")
        view, found = memoryview(body), list[Message]()
        for start in range(0, max(len(body), 1), PIECE):
            self.sent += 1
            more = start + PIECE < len(body)
            piece = view[start : start + PIECE]
            found.append((packed(Frame(kind, self.sent, turn=turn, more=more, **fields)), piece))
            self._log.append((self.sent, turn, found[-1]))
            self._kept += len(piece)
        while self._kept > KEPT:
            self._drop()
        return found

    def forget(self, turn: int) -> None:
        """Keep no frames of turns before this one: their receiver has shown that it has them."""
        while self._log and self._log[0][1] < turn:
            self._drop()

    def _drop(self) -> None:
        self._kept -= len(self._log.popleft()[2][1])

    def after(self, got: int) -> list[Message] | None:
        """Messages that the other end has not got; None where some are not kept any more."""
        found = [message for number, _, message in self._log if number > got]
        return found if len(found) == self.sent - got else None

    def take(self, frame: Frame, body: bytes, limit: int) -> bytes | None:
        """Whole body of a message whose last frame this is; None before that.

        Lost says that a frame is missing, BadFrame that the body is too large.
        """
        if frame.number != self.got + 1:
            self.got, self._parts, self._size, self._of = max(self.got, frame.number), [], 0, None
            raise Lost
        self.got += 1
        self._size += len(body)
        place = (frame.kind, frame.start, frame.who, frame.turn)
        first, self._of = self._of, frame if frame.more else None
        if self._size > limit or (first and (first.kind, first.start, first.who, first.turn) != place):
            self._parts, self._size, self._of = [], 0, None
            raise BadFrame
        self._parts.append(body)
        if frame.more:
            return None
        whole = body if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole


class Word(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Signed by its agent with every SAY and, sealed, with every part: what was said where, and what was charged."""

    run: Name
    start: Name
    agent: Whole
    to: Annotated[int, Meta(ge=-1, lt=2**31)]
    """A neighbour, or all (-1)."""
    turn: Whole
    round: Round
    """Highest round that its agent has been charged for; ``NEVER`` in seeded runs."""
    lines: Whole
    head: Head
    """Of its ledger: lines, and the head."""
    said: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """Digest of what it goes with."""

    @property
    def age(self) -> tuple[int, int]:
        """Order of an agent's words: the newest one is that with most lines, then the highest round."""
        return self.lines, self.round


def sign_word(word: Word, identity: Identity) -> bytes:
    """A word behind its signature."""
    content = packed(word)
    return identity.sign(statement("word", content)) + content


def read_word(data: bytes, keys: Sequence[str], **place: object) -> Word:
    """Undo ``sign_word``; BadFrame if no agent with one of these keys has signed it, or it is of another ``place``."""
    word: Word = unpacked(data[SIGNATURE:], Word)
    if word.agent >= len(keys) or not verify(keys[word.agent], data[:SIGNATURE], statement("word", data[SIGNATURE:])):
        raise BadFrame
    if any(getattr(word, name) != value for name, value in place.items()):
        raise BadFrame
    return word


def contradict(one: Word, other: Word) -> bool:
    """Whether an agent has signed two things in one place."""
    place, there = (one.start, one.agent, one.to, one.turn), (other.start, other.agent, other.to, other.turn)
    return place == there and one.said != other.said


class Said(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Body of SAY."""

    topic: Annotated[str, Meta(max_length=40)]
    payload: bytes
    word: Signed


def digest_of(topic: str, payload: bytes) -> bytes:
    """What a word has of a SAY."""
    return hashlib.sha256(statement("say", topic, payload)).digest()


class Hello(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of HELLO."""

    agent: Whole
    session: Name
    """Drawn when the process began."""
    sent: Whole = 0
    got: Whole = 0
    """Frames that it has sent, and got, in this session: after a cut the relay sees whether one was lost."""


class Failed(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of OVER and STOP; said in place of an agent's word, its error: exit code and public text."""

    code: Annotated[int, Meta(ge=0, le=255)]
    text: Annotated[str, Meta(max_length=1000)] = ""
    """"" where the sender's own output says it."""
    whom: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    """An agent that has said before what cannot be."""
    word: Annotated[bytes, Meta(max_length=SIGNATURE + 1000)] = b""
    """Of STOP to an agent whose run folder is an older copy: what it has signed of the newest one."""


class End(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of FILES and END."""

    digest: Name
    files: dict[Annotated[str, Meta(max_length=40, pattern=r"^[a-z]+\.[a-z]+\Z")], bytes]
    finish: bytes = b""
    """finish.json, of END."""


class Signature(Struct, frozen=True, forbid_unknown_fields=True):
    """The last SAY: an agent's signature of an end whose files are on its disk."""

    digest: Name
    signature: Annotated[bytes, Meta(min_length=SIGNATURE, max_length=SIGNATURE)]


ROWS, TOTAL, ERROR, END = "rows", "total", "error", "end"
"""Topics of every run: numbers of agents, the total of a sum, an error in place of a word, and a signature of the end.
"""


class Topic(NamedTuple):
    """What an agent can say of a topic."""

    form: Any
    """Type of its value, with ranges."""
    fits: Callable[[Any, Peer], bool] = lambda value, peer: True
    """Whether a value is one that this agent of the network file may say."""


class Topics:
    """All topics of a run by their names."""

    def __init__(self, table: Mapping[str, Topic]) -> None:
        self.table = {ERROR: Topic(Failed, lambda value, peer: not value.word), END: Topic(Signature), **table}

    def write(self, topic: str, value: Any) -> bytes:
        """Payload of a value: numbers as they are, all else as JSON."""
        if topic in (ROWS, TOTAL):
            return bytes(value)
        payload = json.dumps(msgspec.to_builtins(value)).encode()
        msgspec.json.decode(payload, type=ready(self.table[topic].form))
        return payload

    def read(self, topic: str, payload: bytes, peer: Peer) -> Any:
        """Undo ``write``; BadFrame if the value has another form, or is none that this agent may say."""
        if topic in (ROWS, TOTAL):
            if len(payload) % 8:
                raise BadFrame
            return payload
        known = self.table.get(topic)
        if known is None or len(payload) > LONG:
            raise BadFrame
        try:
            value = msgspec.json.decode(payload, type=ready(known.form))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadFrame from None
        if not known.fits(value, peer):
            raise BadFrame
        return value if topic in (ERROR, END) else msgspec.json.decode(msgspec.json.encode(value))
