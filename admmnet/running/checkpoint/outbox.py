"""Outboxes on the disk: answers of the doors of a process's agents, a line a round (docs/ledger.md)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field

from admmnet.errors import CheckFailed, RequestError, RunError
from admmnet.files import remedy
from admmnet.forms import decode, encode
from admmnet.holder.outbox import Answered
from admmnet.privacy.ledger.file import Place
from admmnet.running.node import Node

FILES = "outbox-*.jsonl"


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """What one agent's door has answered in a round; with it stand its marks and its ledger afterwards."""

    answers: list[Answered]
    marks: list[str]
    ledger: Place


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """Of the agents of a process that have asked in a round."""

    round: int
    agents: dict[int, Said]


class Past(Struct):
    """Of one agent: answers by round, marks since, and where its ledger stood when the last one was written."""

    answers: dict[int, list[Answered]] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    ledger: Place | None = None


def read_outboxes(paths: Iterable[Path], agents: Collection[int], since: int) -> dict[int, Past]:
    """Return answers from a round on in files of agents; RequestError if a line was changed.

    An incomplete last line was not sent.
    """
    found = {i: Past() for i in agents}
    for path in paths:
        for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
            digest, _, content = text.partition(b" ")
            try:
                if digest != _digest(content):
                    raise CheckFailed("its sha256 is another one")
                line = decode(Line, content)
            except CheckFailed as error:
                raise RequestError(
                    f"the outbox {path}: line {number} is damaged ({error}): put the right file back; without it the "
                    "agent is silent in the rounds that it lacks"
                ) from None
            for agent, said in line.agents.items():
                past = found.get(agent)
                if past is not None and line.round >= since:
                    past.answers.setdefault(line.round, []).extend(said.answers)
                    past.marks |= frozenset(said.marks)
                    if past.ledger is None or said.ledger.lines >= past.ledger.lines:
                        past.ledger = said.ledger
    return found


class OutboxFile:
    """File to which a process appends what its agents' doors answer, before it is sent."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._file, self._durable = path.open("a+b", buffering=0), durable
        self._file.seek(0)
        os.truncate(path, self._file.read().rfind(b"\n") + 1)  # what a crash has cut off was never sent

    def write(self, round: int, nodes: Sequence[Node]) -> None:
        """Write down the answers of a round, before anything of it is sent; RunError if the disk refuses."""
        agents = {
            node.id: Said(fresh, sorted(node.door.marks), node.ledger.place(round))
            for node in nodes
            if node.door.outbox is not None and (fresh := node.door.outbox.take())
        }
        if not agents:
            return
        content = encode(Line(round, agents))
        data = _digest(content) + b" " + content + b"\n"
        try:
            if self._file.write(data) < len(data):
                raise OSError(28, os.strerror(28))
            if self._durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(f"cannot write the outbox {self._file.name}: {remedy(error)}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
