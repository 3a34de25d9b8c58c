"""Memory of an agent on a host of its own: the starts of its run, and its part in the next one.

``starts/starts.json`` is on the disk before a word is said that follows from it (docs/protocol.md).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from admmnet.errors import CheckFailed, RequestError
from admmnet.files import refusing, write_whole
from admmnet.forms import encode, read_form
from admmnet.record.folder import CHECKPOINT, STARTS, hold, is_begun, ledger_path
from admmnet.record.forms import StartEntry
from admmnet.running.checkpoint.packing import read_archive
from admmnet.transport.begun import Begun
from admmnet.transport.zmq.meeting import Last, Start
from admmnet.transport.zmq.member import Standing
from admmnet.types import BEFORE

FILE = "starts.json"
LEAST = -4
"""Last charged round of an agent that has been charged nothing, as words of starts carry it."""


class Kept(Struct, forbid_unknown_fields=True):
    """Content of starts.json."""

    run: str = ""
    """Name of the run: of its first start."""
    last: Last | None = None
    """The last start in which this agent took part."""
    lineage: int = 0
    """Last start with planned rounds of its own that this agent has begun."""
    changed: tuple[int, int] | None = None
    """Its number and first round, if its members or edges are not those of the network file, or rounds were lost."""
    away: dict[int, int] = {}
    """Agents that take no part, and since which round."""
    starts: list[StartEntry] = []
    models: list[str] = []
    """Of each start that came to a model, a hash of that and of this agent's ledger."""
    signed: str = ""
    """Digest of the end that this agent has signed: it signs no other one."""


class Memory:
    """Of one agent of so many; RequestError if the file in its run folder is damaged.

    A folder that is there already is ``held`` from now on, before anything is read in it.
    """

    def __init__(self, folder: Path, agent: int, agents: int, *, held: bool = False) -> None:
        self._folder, self._agent, self._agents = folder, agent, agents
        self._path, self._there = folder / STARTS / FILE, False
        self.kept = Kept()
        self._held: BinaryIO | None = None
        if held:
            self.hold(folder)
        if self._path.exists():
            try:
                self.kept = read_form(Kept, self._path)
            except CheckFailed as error:
                raise RequestError(f"{error}: put the right one back, or run anew") from None
            self._there = True

    def open(self, folder: Path) -> None:
        """Have everything in the run folder from now on."""
        self._path, self._there = folder / STARTS / FILE, True
        self._path.parent.mkdir(exist_ok=True)
        self._write()

    def hold(self, folder: Path) -> None:
        """Keep every other run out of the run folder, in all starts and between them, until ``let_go``."""
        with refusing(f"take the run folder {folder}"):
            about = (folder / "config.toml").stat()
            if self._held is None or not os.path.samestat(os.fstat(self._held.fileno()), about):  # else begun anew
                self.let_go()
                self._held = hold(folder, first=True)

    def let_go(self) -> None:
        """Let other runs have the run folder."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _write(self) -> None:
        if self._there:
            write_whole({self._path: encode(self.kept, indent=2)})

    def begun(self, start: Start, edges: int, facts: dict[str, dict[str, Any]], cause: str) -> Begun:
        """Note a start that has been formed in a network with so many edges, before anything is charged in it."""
        kept, round = self.kept, start.round
        run = next((one.run for one in start.here.values() if one.run), start.name)
        if kept.run != run:
            self.kept = kept = Kept(run)
        everybody = len(start.members) == self._agents and len(start.edges) == edges
        if start.rule == "go on":
            whole = everybody and round <= 0
            round = round if whole else max(0, round)
            kept.lineage, kept.changed = start.lineage, None if whole else (start.number, round)
        kept.away = {
            i: min((one.away[i] for one in start.here.values() if i in one.away), default=max(0, round))
            for i in range(self._agents)
            if i not in start.members
        }
        kept.last = Last(start.number, start.members, start.edges, start.round, start.lineage)
        entry = StartEntry(number=start.number, members=start.members, round=round, rule=start.rule, cause=cause)
        kept.starts = [*kept.starts, entry]
        self._write()
        return Begun(
            start.name,
            start.number,
            tuple(start.members),
            tuple(start.edges),
            start.rule,
            round,
            changed=kept.changed,
            begun={i: one.begun for i, one in start.here.items()},
            lineage=kept.lineage,
            away=dict(kept.away),
            facts=facts,
            history=list(kept.starts),
            keep=self.open,
            hold=self.hold,
            note_model=self._note_model,
        )

    def sign(self, digest: str) -> bool:
        """Have on the disk that this agent signs an end; whether it has signed no other one."""
        if not self.kept.signed:
            self.kept.signed = digest
            self._write()
        return self.kept.signed == digest

    def _note_model(self, name: str) -> None:
        if name not in self.kept.models:
            self.kept.models.append(name)
            self._write()

    def standing(self) -> tuple[Standing, dict[str, dict[str, Any]]]:
        """The agent's part, and the others' words before the first round."""
        charged, states, facts = BEFORE, list[int](), dict[str, dict[str, Any]]()
        ledger = ledger_path(self._folder, self._agent, self._agents)
        if ledger.exists():
            charged = _last_charged(ledger)
        newest = BEFORE
        for path in sorted((self._folder / CHECKPOINT).glob(f"*/part-{self._agent:06d}.state")):
            with suppress(RequestError):
                meta, _ = read_archive(path, whole=False)
                if meta.get("lineage", 0) == self.kept.lineage:
                    states.append(meta["round"])
                if meta["round"] > newest:
                    newest, facts = meta["round"], meta.get("facts", {})
        place = self.kept.run, self.kept.last, self.kept.lineage, max(charged, LEAST), tuple(sorted(states))
        return Standing(*place, is_begun(self._folder), dict(self.kept.away)), facts


def _last_charged(ledger: Path) -> int:
    """Last round that a ledger charges, by its whole lines; whether they hold is seen where it is opened."""
    with ledger.open("rb") as file:
        return max((int(found[1]) for line in file if (found := _CHARGE.match(line))), default=BEFORE)


_CHARGE = re.compile(rb'{"kind":"event","round":(-?\d{1,9}),.*\n')
