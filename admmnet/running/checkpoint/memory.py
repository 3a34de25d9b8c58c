"""Memory of an agent on a host of its own: the starts of its run, and its part in the next one.

``starts/starts.json`` is on the disk before a word is said that follows from it (docs/protocol.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from admmnet.errors import CheckFailed, RequestError
from admmnet.files import refusing, write_whole
from admmnet.forms import encode, read_form
from admmnet.record.folder import CHECKPOINT, STARTS, hold, is_begun, ledger_path
from admmnet.record.forms import StartEntry
from admmnet.running.checkpoint.packing import read_archive
from admmnet.transport.begun import Begun
from admmnet.transport.starts import Edge, Ended, Promise, Standing, Start
from admmnet.types import BEFORE

FILE = "starts.json"
LEAST = -4
"""Last charged round of an agent that has been charged nothing, as words of starts carry it."""


class Kept(Struct, forbid_unknown_fields=True):
    """Content of starts.json."""

    run: str = ""
    """Name of the run: of its first start."""
    promise: Promise = Promise()
    lineage: int = 0
    """Last start with planned rounds of its own that this agent has begun."""
    changed: tuple[int, int] | None = None
    """Its number and first round, if its members or edges are not those of the network file, or rounds were lost."""
    away: dict[int, int] = {}
    """Agents that take no part, and since which round."""
    starts: list[StartEntry] = []
    models: list[str] = []
    """Of each start that came to a model, a hash of that and of this agent's ledger."""


class Memory:
    """Of one agent of so many; RequestError if the file in its run folder is damaged.

    A folder that is there already is ``held`` from now on, before anything is read in it.
    """

    def __init__(self, folder: Path, agent: int, agents: int, *, held: bool = False) -> None:
        self._folder, self._agent, self._agents = folder, agent, agents
        self._path, self._there = folder / STARTS / FILE, False
        self.kept, self.anew = Kept(), False
        self._held: BinaryIO | None = None
        if held:
            self.hold(folder)
        if self._path.exists():
            try:
                self.kept = read_form(Kept, self._path)
            except CheckFailed as error:
                raise RequestError(f"{error}: put the right one back, or run anew") from None
            self._there = self.anew = True

    def keep(self, run: str, promise: Promise) -> None:
        """Have a promise on the disk, once there is a run folder."""
        if run != self.kept.run:
            self.kept, self._there = Kept(run), False
        self.kept.promise = promise
        self._write()

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

    def begun(self, start: Start, edges: Collection[Edge], facts: dict[str, dict[str, Any]], cause: str) -> Begun:
        """Note a start that has been formed in a network with these edges, before anything is charged in it."""
        said, kept = start.propose, self.kept
        everybody = len(said.members) == self._agents and len(said.edges) == len(edges)
        round = said.round
        if said.rule == "go on":
            whole = everybody and round <= 0
            round = said.round if whole else max(0, round)
            kept.lineage, kept.changed = said.lineage, None if whole else (said.number, round)
        since = [_away(start.about.get(i, {})) for i in sorted(start.about)]
        kept.away = {
            i: min((known[i] for known in since if i in known), default=max(0, round))
            for i in range(self._agents)
            if i not in said.members
        }
        entry = StartEntry(number=said.number, members=list(said.members), round=round, rule=said.rule, cause=cause)
        kept.starts = [*kept.starts, entry]
        self._write()
        return Begun(
            start.name,
            said.number,
            tuple(said.members),
            tuple(said.edges),
            said.rule,
            said.digest,
            round,
            changed=kept.changed,
            run=kept.run,
            begun={i: said.get("begun") is not False for i, said in start.about.items()},
            lineage=kept.lineage,
            away=dict(kept.away),
            facts=facts,
            history=list(kept.starts),
            keep=self.open,
            hold=self.hold,
            models=kept.models,
            note_model=self._note_model,
        )

    def _note_model(self, name: str) -> None:
        if name not in self.kept.models:
            self.kept.models.append(name)
            self._write()

    def standing(self) -> tuple[Standing, dict[str, dict[str, Any]], bool]:
        """The agent's part, the others' words before the first round, and whether nothing was charged."""
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
        ended, anew = None, self.anew and self.kept.run
        if anew:
            ended = Ended(self._number(), "anew")
        self.anew = False
        about = {"away": {str(i): round for i, round in self.kept.away.items()}, "begun": is_begun(self._folder)}
        standing = Standing(ended, self.kept.lineage, max(charged, LEAST), tuple(sorted(states)), about)
        return standing, facts, charged == BEFORE and newest == BEFORE

    def _number(self) -> int:
        """Number of the last start that this agent knows."""
        last = self.kept.promise.last
        return 0 if last is None else int(msgspec.json.decode(last.propose[64:])["number"])


def _last_charged(ledger: Path) -> int:
    """Last round that a ledger charges, by its whole lines; whether they hold is seen where it is opened."""
    with ledger.open("rb") as file:
        return max((int(found[1]) for line in file if (found := _CHARGE.match(line))), default=BEFORE)


_CHARGE = re.compile(rb'{"kind":"event","round":(-?\d{1,9}),.*\n')


def _away(about: Any) -> dict[int, int]:
    """Agents that another one says are away, and since when; what cannot be is left out."""
    try:
        found: dict[int, int] = msgspec.convert(about.get("away", {}), dict[int, int], strict=False)
    except (AttributeError, msgspec.ValidationError):
        return {}
    return {i: round for i, round in found.items() if i >= 0 and 0 <= round < 2**31}
