"""Records of ``journal.bin``: an agent's state, and its part in the next start, follow from them (docs/ledger.md).

A record is its length with a checksum, its sha256, and typed MessagePack. The file is its owner's alone; no manifest
covers it, and it is deleted once the run has ended.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from admmnet.errors import RequestError
from admmnet.forms import ready
from admmnet.holder.outbox import Answered
from admmnet.record.forms import StartEntry

JOURNAL = "journal.bin"
WENT_ON = "the run was interrupted and went on"
"""Beginning of a note: no theorem of the network ledger speaks of a run with several starts."""
HEAD = 4 + 4 + 32
"""Bytes of a record's length, of a checksum of it, and of the sha256 of its content."""


class Run(Struct, tag="run"):
    """The first record: name of the run, and digests of the settings as they were given."""

    name: str
    settings: dict[str, str]
    key: bytes
    """32 random bytes, in no other file: digests of what this agent sends are made with them."""


class Began(Struct, tag="start"):
    """A start that this agent takes part in; ``plan`` names the one in which its rounds are planned."""

    entry: StartEntry
    name: str
    plan: str
    shape: str
    edges: list[tuple[int, int]]
    changed: int | None
    """First planned round, if members or edges are not those of the network file, or rounds were lost."""


class Opening(Struct, tag="told"):
    """What agents have said before the first round: it stands, whatever they say in later starts."""

    facts: dict[str, dict[str, Any]]


class Measured(Struct, tag="measured"):
    """What is known of the records once a stage before the first round is over: ``Found.text``.

    ``lost`` are the names of stages that were not asked.
    """

    stage: int
    text: str
    lost: list[str] = []


class Centred(Struct, tag="centred"):
    """A changed start is planned, and duals are centred (112): rounds from it on, of earlier plans, are no more.

    ``nominal`` are budgets that members say are left to them, ``heard`` the last vectors of neighbours, ``shift`` the
    mean dual of the agent's part of the graph; ``first`` is the start's round in the agent's ledger, ``lines`` what the
    ledger is to have of it.
    """

    round: int
    first: int = 0
    nominal: dict[int, float] = {}
    heard: bytes = b""
    shift: bytes | None = None
    lines: bytes = b""


class Said(Struct, array_like=True, forbid_unknown_fields=True):
    """Answers of an agent's door in a round, and the lines that its ledger is to have of it."""

    answers: list[Answered]
    lines: bytes = b""


class Heard(Struct, array_like=True, forbid_unknown_fields=True):
    """What an agent has heard in a round: bytes of neighbours' vectors, or of a sum over some agents."""

    round: int
    vectors: dict[int, bytes] = {}
    total: bytes | None = None
    agents: list[int] = []


class Round(Struct, tag="round"):
    """A round of the agents of a process, written before anything of it is charged or sent."""

    round: int
    agents: dict[int, Said]
    heard: Heard | None = None
    """Of the round before, of an agent on a host of its own."""
    start: int = 0
    """Start of the run, in the order in which journals of several processes were written."""


class Cut(Struct, tag="cut"):
    """An agent's account had no room left for its last record with charges: it says nothing in that round.

    ``lines`` of the record stand in the ledger.
    """

    agent: int
    round: int
    lines: int
    start: int = 0


class Void(Struct, tag="void"):
    """Rounds of masked sums of which some agents have their part, and some have not: nobody says anything in them."""

    rounds: list[int]


class Made(Struct, tag="made"):
    """Hash of a model that this agent has come to, and of its ledger then."""

    digest: str


class Ended(Struct, tag="end"):
    """Digest of the end that this agent has signed: it signs no other one."""

    digest: str


Record = Run | Began | Opening | Measured | Centred | Round | Cut | Void | Made | Ended
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ready(Record))


def read_records(path: Path) -> Iterator[tuple[Any, int, int]]:
    """Records of a journal, each with where it begins and where the next one does, as far as they are whole.

    What a crash has torn off was never acted on. RequestError if a record is damaged.
    """
    number, place, size = 1, 0, path.stat().st_size if path.exists() else 0
    with path.open("rb") if size else nullcontext(BytesIO()) as file:
        while place + HEAD <= size:
            head = file.read(HEAD)
            length = int.from_bytes(head[:4], "little")
            try:
                if zlib.crc32(head[:4]) != int.from_bytes(head[4:8], "little"):
                    if not any(head) and not any(file.read()):  # a crash may leave zeros
                        return
                    raise ValueError("its length is another one")
                content = file.read(length)
                if len(content) < length or hashlib.sha256(content).digest() != head[8:]:
                    if place + HEAD + length >= size:
                        return
                    raise ValueError("its sha256 is another one")
                record = _DECODER.decode(content)
            except (ValueError, msgspec.MsgspecError, RecursionError) as error:
                raise RequestError(
                    f"{path}: record {number} is damaged ({error}): put the right file back, or run anew"
                ) from None
            yield record, place, place + HEAD + length
            number, place = number + 1, place + HEAD + length


def read_record(path: Path, place: int) -> Any:
    """The record that begins at a place, where one was read before."""
    with path.open("rb") as file:
        file.seek(place)
        head = file.read(HEAD)
        return _DECODER.decode(file.read(int.from_bytes(head[:4], "little")))


def record_bytes(record: Record) -> bytes:
    """Bytes of a record in the file."""
    content = msgspec.msgpack.encode(record)
    length = len(content).to_bytes(4, "little")
    return length + zlib.crc32(length).to_bytes(4, "little") + hashlib.sha256(content).digest() + content


def journals(folder: Path) -> list[Path]:
    """Journals of the processes of a run, that of the first one first."""
    return sorted(folder.glob("journal*.bin"), key=lambda path: (path.name != JOURNAL, path.name))


def starts_of(folder: Path) -> list[StartEntry]:
    """Starts of an agent's own folder; none where it has no journal that can be read."""
    try:
        return [one.entry for one, _, _ in read_records(folder / JOURNAL) if isinstance(one, Began)]
    except (OSError, RequestError):
        return []
