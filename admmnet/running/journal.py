"""Journal of an agent on a host of its own: a record is on the disk before a word is said that follows from it."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.structs import replace

from admmnet.config.toml import load_saved
from admmnet.errors import RequestError, RunError
from admmnet.files import refusing, remedy, sync
from admmnet.record.folder import CHECKPOINT, hold, is_begun, ledger_path
from admmnet.record.forms import StartEntry
from admmnet.record.journal import JOURNAL, Began, Ended, Made, Record, Run, read_records, record_bytes
from admmnet.running.checkpoint.packing import read_archive
from admmnet.transport.begun import NEVER, Begun
from admmnet.transport.zmq.meeting import Standing, Start, shape_of


class Journal:
    """Of one agent of so many; RequestError if the file in its run folder is damaged.

    A folder that is there already is ``held`` from now on, before anything is read in it. It is the agent's ``alone``,
    or one command has started all, and nothing is kept.
    """

    def __init__(
        self, folder: Path, agent: int, agents: int, *, seeded: bool, held: bool = False, alone: bool = True
    ) -> None:
        self._folder, self._agent, self._agents, self._seeded, self._alone = folder, agent, agents, seeded, alone
        self._held: BinaryIO | None = None
        self._file: BinaryIO | None = None
        self.run: Run | None = None
        self.starts: list[Began] = []
        self.models: list[str] = []
        self.signed, self._away = "", dict[int, int]()
        if held:
            self.hold(folder)
        records, self._size = read_records(folder / JOURNAL) if alone else ([], 0)
        for one in records:
            self._fold(one)

    def _fold(self, record: Any) -> None:
        if isinstance(record, Run):
            self.run = record
        elif isinstance(record, Began):
            self.starts.append(record)
            there, since = record.entry.members, max(0, record.entry.round)
            self._away = {i: self._away.get(i, since) for i in range(self._agents) if i not in there}
        elif isinstance(record, Made):
            self.models.append(record.digest)
        else:
            self.signed = record.digest

    def _write(self, record: Record) -> None:
        """Have a record on the disk; RunError if the disk refuses."""
        if not self._alone:
            self._fold(record)
            return
        data = record_bytes(record)
        path = self._folder / JOURNAL
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)  # noqa: SIM115
                sync(self._folder)
            self._file.truncate(self._size)
            self._file.seek(self._size)
            if self._file.write(data) < len(data):
                raise OSError(28, os.strerror(28))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {path}: {remedy(error)}") from None
        self._size += len(data)
        self._fold(record)

    def hold(self, folder: Path) -> None:
        """Keep every other run out of the run folder, in all starts and between them, until ``let_go``."""
        with refusing(f"take the run folder {folder}"):
            about = (folder / "config.toml").stat()
            if self._held is None or not os.path.samestat(os.fstat(self._held.fileno()), about):  # else begun anew
                self.let_go()
                self._held = hold(folder, first=True)

    def let_go(self) -> None:
        """Let other runs have the run folder."""
        for file in (self._held, self._file):
            if file is not None:
                file.close()
        self._held = self._file = None

    def begun(
        self, start: Start, settings: dict[str, str], edges: int, facts: dict[str, dict[str, Any]], cause: str
    ) -> Begun:
        """Write down a start in a network with so many edges, before anything is said in it."""
        if self.run is None or self.run.name != start.run:
            self._write(Run(start.run, settings, secrets.token_bytes(32)))
        round, changed = start.round, self.starts[-1].changed if self.starts else None
        if start.rule == "go on":
            everybody = len(start.members) == self._agents and len(start.edges) == edges
            whole = everybody and round <= 0
            round = max(round, -3 if whole else 0)
            changed = None if whole else round
        entry = StartEntry(
            number=len(self.starts),
            members=start.members,
            round=round,
            rule="replay" if start.rule == "replay" else "go on",
            cause=cause,
        )
        shape = shape_of(start.members, start.edges)
        self._write(Began(entry, start.name, start.plan, shape, changed))
        return Begun(
            start.name,
            entry.number,
            tuple(start.members),
            tuple(start.edges),
            "replay" if start.rule == "replay" else "go on",
            round,
            changed=changed,
            plan=start.plan,
            away=dict(self._away),
            facts=facts,
            history=[one.entry for one in self.starts],
            new=all(not one.rounds for one in start.here.values()),
            hold=self.hold,
            note_model=self._note_model,
        )

    def sign(self, digest: str) -> bool:
        """Have on the disk that this agent signs an end; whether it has signed no other one."""
        if not self.signed:
            self._write(Ended(digest))
        return self.signed == digest

    def _note_model(self, name: str) -> None:
        if name not in self.models:
            self._write(Made(name))

    def standing(self) -> tuple[Standing, dict[str, dict[str, Any]]]:
        """The agent's part in the next start, and the others' words before the first round."""
        plan = self.starts[-1].plan if self.starts else ""
        states, facts, newest = list[int](), dict[str, dict[str, Any]](), NEVER
        for path in sorted((self._folder / CHECKPOINT).glob(f"*/part-{self._agent:06d}.state")):
            with suppress(RequestError):
                meta, _ = read_archive(path, whole=False)
                if meta.get("plan", "") == plan:
                    states.append(meta["round"])
                if meta["round"] > newest:
                    newest, facts = meta["round"], meta.get("facts", {})
        low = at = max(states, default=NEVER)
        while low > 0 and low - 1 in states:
            low -= 1
        rounds = load_saved(self._folder).rounds if is_begun(self._folder) else 0
        found = Standing(
            self.run.name if self.run else "",
            plan,
            self.starts[-1].shape if self.starts else "",
            low,
            at,
            *charged_in(ledger_path(self._folder, self._agent, self._agents), seeded=self._seeded),
        )
        return replace(found, rounds=rounds if isinstance(rounds, int) else 0), facts


def charged_in(ledger: Path, *, seeded: bool) -> tuple[int, int, int, str]:
    """Last round that a ledger charges, 0, its whole lines and the digest of the last one, as ``Standing`` has them.

    Whether they hold is seen where it is opened. Ledgers of seeded runs are begun again, and say no more than a round.
    """
    charged, lines, last = NEVER, 0, b""
    if ledger.exists():
        with ledger.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    lines, last = lines + 1, line[:-1]
                    if found := _CHARGE.match(line):
                        charged = max(charged, int(found[1]))
    if seeded or not lines:
        return charged, 0, 0, ""
    return charged, 0, lines, hashlib.sha256(last).hexdigest()


_CHARGE = re.compile(rb'{"kind":"event","round":(-?\d{1,9}),.*\n')
