"""Journal of an agent on a host of its own: from it follow its state and its part in the next start.

What its neighbours have said is in it, too: they may be gone. A fold over its records gives the state before the first
round that is played with others (docs/protocol.md).
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

from admmnet.config.toml import load_saved
from admmnet.files import refusing
from admmnet.record.finish import staged
from admmnet.record.folder import hold, is_begun, ledger_name
from admmnet.record.forms import StartEntry
from admmnet.record.journal import (
    Began,
    Centred,
    Ended,
    Heard,
    Made,
    Measured,
    Opening,
    Record,
    Round,
    Run,
    read_record,
)
from admmnet.running.journal import Journal, Past, Place
from admmnet.running.party import Node
from admmnet.transport.zmq.meeting import Standing, Start, shape_of
from admmnet.transport.zmq.wire import End
from admmnet.types import NEVER, Total, Vector

if TYPE_CHECKING:
    from admmnet.privacy.ledger.file import Ledger


class Segment(NamedTuple):
    """Rounds of a changed start: from its first one on they follow one plan."""

    centred: Centred
    members: Sequence[int]
    edges: Sequence[tuple[int, int]] | None = None
    """Between members; None: those of the run's graph."""
    plan: str | None = None
    """As the journal has it; None of a start that comes now."""
    silent_until: int = 0
    """Last round of earlier plans, in which this agent may have spoken."""


class HostJournal(Journal):
    """Journal of one agent of so many; RequestError if its file is damaged.

    A folder that is there already is ``held`` from now on, before anything is read in it.
    """

    def __init__(self, folder: Path, agent: int, agents: int, *, seeded: bool, held: bool = False) -> None:
        self._agent, self._agents, self._seeded = agent, agents, seeded
        self._held: BinaryIO | None = None
        self.starts: list[Began] = []
        self.segments: list[Segment] = []
        self.facts: dict[str, dict[str, Any]] = {}
        self.models: list[str] = []
        self.signed, self.c = "", NEVER
        self.away: dict[int, int] = {}  # agents that take no part, and since which round
        self._measured: list[Measured] = []
        self.heard_rounds: dict[int, Place] = {}  # of which it is known what was heard
        self.alone_until = 0  # rounds that this agent plays again by itself, from what it has heard
        self.told: dict[str, dict[str, Any]] = {}  # ``facts``, with those of this start
        self.asked = Counter[str]()  # how often each was asked for in it: a run that is planned twice asks twice
        self.ledger: Ledger | None = None  # once it is open in this start, in a run without a seed
        self._stood = NEVER, 0, ""
        if held:
            self.hold(folder)
        super().__init__(folder)

    def _fold(self, record: Record, place: Place) -> None:
        super()._fold(record, place)
        if isinstance(record, Began):
            self.starts.append(record)
            there, since = record.entry.members, max(0, record.entry.round)
            self.away = {i: self.away.get(i, since) for i in range(self._agents) if i not in there}
        elif isinstance(record, Opening):
            self.facts = record.facts
        elif isinstance(record, Measured):
            self._measured.append(record)
        elif isinstance(record, Round):
            self.c = max(self.c, record.round)
            if record.heard is not None:
                self.heard_rounds[record.heard.round] = place
        elif isinstance(record, Centred):
            begun, before = self.starts[-1], [one for one in self.segments if one.centred.round < record.round]
            self.segments = [*before, Segment(record, begun.entry.members, begun.edges, begun.plan, self.c)]
            for rounds in (self._places, self.heard_rounds):
                for round in [round for round in rounds if round >= record.round]:
                    del rounds[round]
            self.void = {round for round in self.void if round < record.round}
            past = self.past.setdefault(self._agent, Past())
            past.last, past.ledger = min(past.last, record.round - 1), past.ledger.then(record.lines)
        elif isinstance(record, Made):
            self.models.append(record.digest)
        elif isinstance(record, Ended):
            self.signed = record.digest

    def hold(self, folder: Path) -> None:
        """Keep every other run out of the run folder, in all starts and between them, until ``let_go``."""
        with refusing(f"take the run folder {folder}"):
            about = (folder / "config.toml").stat()
            if self._held is None or not os.path.samestat(os.fstat(self._held.fileno()), about):  # else begun anew
                self.let_go()
                self._held = hold(folder, first=True)

    def let_go(self) -> None:
        """Let other runs have the run folder."""
        self.close()
        if self._held is not None:
            self._held.close()
        self._held = None

    # starts

    def begun(self, start: Start, settings: dict[str, str], edges: int, cause: str) -> Began:
        """Write down a start in a network with so many edges, before anything is said in it."""
        if self.run is None or self.run.name != start.run:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write(Run(start.run, settings, secrets.token_bytes(32)))
        round, changed, reach = start.round, self.starts[-1].changed if self.starts else None, self._reach
        if start.rule == "go on":
            everybody = len(start.members) == self._agents and len(start.edges) == edges
            whole = everybody and round <= 0
            round = max(round, -3 if whole else 0)
            changed = None if whole else round
        rule: Literal["replay", "go on"] = "replay" if start.rule == "replay" else "go on"
        entry = StartEntry(number=len(self.starts), members=start.members, round=round, rule=rule, cause=cause)
        shape = shape_of(start.members, start.edges)
        self.write(Began(entry, start.name, start.plan, shape, list(start.edges), changed))
        self.alone_until, self.told, self.asked = min(reach, round), deepcopy(self.facts), Counter()
        return self.starts[-1]

    @property
    def _reach(self) -> int:
        """First round that cannot be played from what was heard."""
        round = max(0, self.segments[-1].centred.round if self.segments else 0)
        while round in self.heard_rounds:
            round += 1
        return round

    def standing(self) -> Standing:
        """The agent's part in the next start."""
        if self.heard is not None:
            self.write(Round(self.heard.round, {}, self.heard))
            self.heard = None
        begun = self.starts[-1] if self.starts else None
        first, at, c = NEVER, NEVER, self.c
        if begun is not None and not self._seeded:
            measured = self._measured[-1].stage if self._measured else NEVER
            if begun.changed is None:
                at = max(-3, measured + 1) if measured < -1 else self._reach
            elif self.segments and self.segments[-1].plan == begun.plan:
                first, at = self.segments[-1].centred.round, self._reach
        rounds = load_saved(self.folder).rounds if is_begun(self.folder) else 0
        ledger, lines, last = self.folder / ledger_name(self._agent, self._agents), 0, b""
        if not self._seeded and ledger.exists():  # its whole lines; whether they hold is seen where it is opened
            with ledger.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        lines, last = lines + 1, line[:-1]
        self.ledger, self._stood = None, (c, lines, hashlib.sha256(last).hexdigest() if lines else "")
        return Standing(
            self.run.name if self.run else "",
            "" if begun is None or self._seeded else begun.plan,
            "" if begun is None else begun.shape,
            first,
            at,
            c,
            rounds if isinstance(rounds, int) else 0,
            *self._stood[1:],
        )

    def charged(self) -> tuple[int, int, str]:
        """Highest begun round, lines of the ledger, and its head, which are on the disk."""
        if self.ledger is None:
            return self._stood
        self.ledger.chain.commit()
        head, lines = self.ledger.head
        return self.c, lines, head

    def ready(self) -> None:
        """Write down what agents have said before the first round, before anything that follows from it."""
        if self.told != self.facts:
            self.write(Opening(deepcopy(self.told)))

    # rounds

    def measured(self, stage: int, text: str, lost: list[str]) -> None:
        """Write down what is known of the records once a stage is over; it may be less than in an earlier start."""
        last = self._measured[-1] if self._measured else Measured(NEVER, "")
        if not self._seeded and (last.stage < stage or (last.stage == stage and last.text != text)):
            self.write(Measured(stage, text, lost))

    def known_before(self, stage: int) -> Measured:
        """What was known of the records before a stage, or a round."""
        return [Measured(NEVER, ""), *(one for one in self._measured if one.stage < stage)][-1]

    def centre(self, centred: Centred, agents: Sequence[Node]) -> Segment:
        """Write down that a changed start begins, with the lines of ledgers that say so; return its rounds."""
        self.broken = True  # what is taken now is nowhere until it is written
        centred.lines = b"".join(node.ledger.chain.take() for node in agents)
        self.write(centred)
        self.broken = False
        return self.segments[-1]

    def hear(self, round: int, vectors: Mapping[int, Vector]) -> None:
        """Keep what was heard in a round, for the next record."""
        self.heard = Heard(round, {j: vector.astype("<f8", copy=False).tobytes() for j, vector in vectors.items()})

    def summed(self, round: int, total: Total | None) -> None:
        """Keep the sum of a round, for the next record."""
        whole = Heard(round) if total is None else None
        if total is not None:
            whole = Heard(round, {}, total.value.astype("<i8", copy=False).tobytes(), list(map(int, total.agents)))
        self.heard = whole

    def heard_in(self, round: int) -> Heard:
        """What was heard in a round that is played again by this agent alone."""
        found: Heard = read_record(*self.heard_rounds[round]).heard
        return found

    # the end

    def staged(self) -> End | None:
        """The end that this agent has signed, if its files are there."""
        found = staged(self.folder) if self.signed else None
        return found if found is not None and found.digest == self.signed else None

    def sign(self, digest: str) -> bool:
        """Have on the disk that this agent signs an end; whether it has signed no other one."""
        if not self.signed:
            self.write(Ended(digest))
        return self.signed == digest

    def note_model(self, name: str) -> None:
        """Have a hash of this agent's model and ledger on the disk: it signs no other end."""
        if name not in self.models:
            self.write(Made(name))
