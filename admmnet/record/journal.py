"""Records of ``journal.bin``, from which an agent's part in the next start follows (docs/protocol.md).

A record is its length with a checksum, its sha256, and typed MessagePack. The file is its owner's alone; no manifest
covers it.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from admmnet.errors import RequestError
from admmnet.record.forms import StartEntry

JOURNAL = "journal.bin"
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
    changed: int | None
    """First planned round, if members or edges are not those of the network file, or rounds were lost."""


class Made(Struct, tag="made"):
    """Hash of a model that this agent has come to, and of its ledger then."""

    digest: str


class Ended(Struct, tag="end"):
    """Digest of the end that this agent has signed: it signs no other one."""

    digest: str


Record = Run | Began | Made | Ended
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Record)


def read_records(path: Path) -> tuple[list[Any], int]:
    """Records of a journal, and where the last whole one ends: what a crash has torn off was never acted on.

    RequestError if one is damaged.
    """
    found, place = list[Any](), 0
    data = path.read_bytes() if path.exists() else b""
    while place + HEAD <= len(data) and any(data[place:]):  # a crash may leave zeros
        head, start = data[place : place + HEAD], place + HEAD
        length = int.from_bytes(head[:4], "little")
        content = data[start : start + length]
        try:
            if zlib.crc32(head[:4]) != int.from_bytes(head[4:8], "little"):
                raise ValueError("its length is another one")
            whole = len(content) == length and hashlib.sha256(content).digest() == head[8:]
            if not whole and start + length >= len(data):
                break
            if not whole:
                raise ValueError("its sha256 is another one")
            found.append(_DECODER.decode(content))
        except (ValueError, msgspec.MsgspecError) as error:
            raise RequestError(
                f"{path}: record {len(found) + 1} is damaged ({error}): put the right file back, or run anew"
            ) from None
        place = start + length
    return found, place


def record_bytes(record: Record) -> bytes:
    """Bytes of a record in the file."""
    content = msgspec.msgpack.encode(record)
    length = len(content).to_bytes(4, "little")
    return length + zlib.crc32(length).to_bytes(4, "little") + hashlib.sha256(content).digest() + content


class Past(Struct):
    """What a journal says of the starts of a run."""

    run: str = ""
    starts: list[StartEntry] = []

    @property
    def away(self) -> dict[int, int]:
        """Agents that take no part in the last start, and since which round; as far as this agent knows."""
        found = dict[int, int]()
        everybody = {i for one in self.starts for i in one.members}
        for one in self.starts:
            found = {i: found.get(i, max(0, one.round)) for i in everybody if i not in one.members}
        return found


def past_of(folder: Path) -> Past:
    """Run and starts of an agent's own folder; nothing where it has no journal that can be read."""
    try:
        records, _ = read_records(folder / JOURNAL)
    except (OSError, RequestError):
        return Past()
    names = [one.name for one in records if isinstance(one, Run)]
    return Past(names[-1] if names else "", [one.entry for one in records if isinstance(one, Began)])
