"""Journal of a run: answers that this process's doors have given, round by round (docs/ledger.md, "The journal").

A run that goes on plays its rounds again. Doors repeat their answers, so that nothing is asked or charged twice
(docs/proofs.md, Theorem 30), and all that follows from answers follows again. A record is on the disk before anything
of its round is charged or sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import BinaryIO

from admmnet.errors import RequestError, RunError
from admmnet.faults.model import FaultModel
from admmnet.files import remedy, sync
from admmnet.holder.outbox import Answered, Outbox
from admmnet.privacy.ledger.file import Journaled
from admmnet.record.journal import (
    JOURNAL,
    WENT_ON,
    Cut,
    Heard,
    Record,
    Round,
    Run,
    Said,
    Void,
    journals,
    read_record,
    read_records,
    record_bytes,
)
from admmnet.running.party import Node
from admmnet.transport import Transport, World
from admmnet.transport.collective import share
from admmnet.types import BEFORE
from admmnet.version import __version__

Place = tuple[Path, int]
"""Where a record of a round stands."""


@dataclass(slots=True)
class Past:
    """One agent as the journals have it."""

    last: int = BEFORE
    """Last round that was written down."""
    answered: int = BEFORE
    """Last round with an answer."""
    ledger: Journaled = field(default_factory=Journaled)
    void: set[int] = field(default_factory=set)
    """Rounds that were written down, but neither charged nor sent."""


class Journal:
    """Journal of this process, the ``rank``-th of those that write to a run folder; RequestError if it is damaged."""

    _file: BinaryIO | None = None

    def __init__(self, folder: Path, rank: int = 0, *, durable: bool = True) -> None:
        self.folder, self.durable = folder, durable
        self.path = folder / (f"journal-{rank}.bin" if rank else JOURNAL)
        self.run: Run | None = None
        self.past: dict[int, Past] = {}
        self.void: set[int] = set()  # rounds of masked sums of which some have their part, and some have not
        self.resumed = False
        self.heard: Heard | None = None  # what is written with the next round
        self.broken = False  # whether something may be missing in it: then nothing is charged
        self.settings: dict[str, str] = {}  # by digest and name
        self._size = 0
        self._places: dict[int, list[Place]] = {}
        found: list[tuple[Record, Place]] = []
        for path in journals(folder):
            for record, start, end in read_records(path):
                self._size = end if path == self.path else self._size
                if isinstance(record, Round):  # of answers it is kept in memory alone that there are some
                    for said in record.agents.values():
                        said.answers = said.answers[:1] and [Answered(b"", "no")]
                    record.heard = record.heard and Heard(record.heard.round)
                found.append((record, (path, start)))
        if len({path for _, (path, _) in found}) > 1:  # of processes that all begin their rounds again
            found.sort(key=lambda one: getattr(one[0], "start", 0))
        for record, place in found:
            self._fold(record, place)
        self._start = 1 + max((getattr(record, "start", 0) for record, _ in found), default=0)

    def _fold(self, record: Record, place: Place) -> None:
        """Take in a record."""
        if isinstance(record, Run):
            self.run = record
        elif isinstance(record, Round):
            self._places.setdefault(record.round, []).append(place)
            for agent, said in record.agents.items():
                past = self.past.setdefault(agent, Past())
                past.last = record.round
                past.answered = record.round if said.answers else past.answered
                past.ledger = past.ledger.then(said.lines)
        elif isinstance(record, Void):
            self.void.update(record.rounds)
        elif isinstance(record, Cut):
            past = self.past[record.agent]
            past.ledger = past.ledger._replace(last=past.ledger.last[: record.lines])
            past.void.add(record.round)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of a run that went on must know."""
        return (f"{WENT_ON}: rounds were played again unchanged, and are charged once",) if self.resumed else ()

    def since(self, agent: int) -> Journaled | None:
        """Lines of an agent's ledger that a run goes on with; None of a run that begins."""
        return self.past.get(agent, Past()).ledger if self.resumed else None

    def hold_void(self, transport: Transport, first: int, faults: FaultModel | None) -> None:
        """Find the rounds of masked sums that no start can repeat: bytes of two starts do not cancel.

        ``first`` is the run's first round, or stage. In void rounds, and where it is away, an agent owes no answer.
        """
        own = [max(self.past[i].answered if i in self.past else BEFORE, first - 1) for i in transport.agents]
        top = max(own)

        def owes(agent: int, round: int) -> bool:
            away = faults is not None and round <= top and not faults.members(max(round, 0))[agent]
            return round not in self.void and not away

        own = [
            next(round for round in count(last) if owes(i, round + 1))
            for i, last in zip(transport.agents, own, strict=True)
        ]
        told = share(transport.world, [min(own), max(own)], "answered")
        low, high = (sorted(said[k] for said in told if said is not None) for k in (0, 1))
        # a sum needs all: agents are a round apart at most, whatever one of them says
        usual = high[(len(high) - 1) // 2]
        void = range(max(low[0] + 1, usual), min(high[-1], usual + 1) + 1)
        if not self.void.issuperset(void):
            self.write(Void(list(void)))

    def open(self, agents: Iterable[Node]) -> None:
        """Have doors note their answers from now on, and repeat those of rounds that are over."""
        for agent in agents:
            past = self.past.get(agent.id, Past())
            agent.door.outbox = Outbox(last=past.last)
            if agent.ledger.void is not None:
                self.write(Cut(agent.id, *agent.ledger.void))

    def recall(self, round: int, agents: Sequence[Node]) -> None:
        """Give doors the answers that they repeat in a round."""
        places = self._places.get(round)
        if places is None:
            return
        answers: dict[int, list[Answered]] = {}
        for place in places:
            for agent, said in read_record(*place).agents.items():
                answers.setdefault(agent, []).extend(said.answers)
        for node in agents:
            if node.door.outbox is not None:
                void = node.id in self.past and round in self.past[node.id].void
                node.door.outbox.earlier = {} if void else {round: answers.get(node.id, [])}

    def note(self, round: int, agents: Sequence[Node]) -> None:
        """Write down the answers of a round, before it is charged or sent; RunError if the disk refuses."""
        self.broken = True  # what is taken now is nowhere until it is written
        said = {agent.id: _said(agent) for agent in agents if agent.door.outbox is not None}
        new = {i: own for i, own in said.items() if round > self.past.setdefault(i, Past()).last or own.lines}
        if new:
            self.write(Round(round, new, self.heard))
            self.heard = None
        self.broken = False

    def note_rest(self, agents: Sequence[Node]) -> None:
        """Write down charges of a round that an error has ended, with the answers that there are."""
        for agent in agents:
            self.broken = True
            said = _said(agent) if agent.door.outbox is not None else Said([])
            if said.lines:
                self.write(Round(agent.ledger.charged, {agent.id: said}))
            self.broken = False

    def write(self, record: Record) -> None:
        """Have a record on the disk; RunError if the disk refuses."""
        if self.run is None and not isinstance(record, Run):
            self.write(Run("", self.settings, b""))
        if isinstance(record, Round | Cut):
            record.start = self._start
        data, before, self.broken = record_bytes(record), self.broken, True
        try:
            if self._file is None:
                new = not self.path.exists()
                self._file = open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)  # noqa: SIM115
                self._file.truncate(self._size)
                if new and self.durable:
                    sync(self.folder)
            self._file.seek(self._size)
            if self._file.write(data) < len(data):
                raise OSError(28, os.strerror(28))
            if self.durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {remedy(error)}") from None
        self.broken, place = before, (self.path, self._size)
        self._size += len(data)
        self._fold(record, place)

    def close(self) -> None:
        """Close the file; once is enough."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def delete(self) -> None:
        """Delete the journals of a run that has ended."""
        self.close()
        for path in journals(self.folder):
            path.unlink(missing_ok=True)


def journal_of(world: World, folder: Path, digest: str, *, resumed: bool, durable: bool) -> Journal:
    """Journal of this process; ``digest`` is that of the settings.

    RequestError if it is of other settings, or of a run whose folder is gone.
    """
    journal: Journal = world.journal or Journal(folder, world.rank, durable=durable)
    journal.resumed = resumed
    if journal.past and not resumed:
        raise RequestError(
            f"{journal.path} is of a run whose folder is gone: put the newest of the whole folder back, or remove the "
            "journal and run anew, with --account, so that spent budget counts"
        )
    if world.journal is None:
        now = journal.settings = {"settings": digest, "admmnet": __version__}
        then = now if journal.run is None else journal.run.settings
        if names := sorted(key for key in then | now if then.get(key) != now.get(key)):
            raise RequestError(
                f"{journal.path} belongs to other settings ({', '.join(names)}): config.toml, the topology, the "
                "data set or admmnet was changed since; put it back, or run anew"
            )
    return journal


def _said(agent: Node) -> Said:
    assert agent.door.outbox is not None
    return Said(agent.door.outbox.take(), agent.ledger.chain.take())
