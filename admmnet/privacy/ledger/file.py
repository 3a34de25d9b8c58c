"""The ledger of one agent: JSON Lines, append only, every line chained to the one before (docs/ledger.md).

There is one path to the network and it goes through here: charge, then draw, then commit, then send.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from admmnet.errors import RequestError, RunError
from admmnet.privacy import proven
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.events import Event, parameters
from admmnet.privacy.ledger.lines import ChainFile, create, digest, mend

if TYPE_CHECKING:
    from admmnet.privacy.ledger.account import AccountFile

SCHEMA = 2
"""Version of the form; headers of the first one say no mode, and are read."""


@dataclass(frozen=True)
class Header:
    """First line of a ledger: who, under which promise and which relation."""

    agent: int
    neighbours: tuple[int, ...]
    records: int
    epsilon: float | None
    delta: float | None
    accountant: str
    method: str
    algorithm: str
    noise: str
    preprocessing: str
    version: str
    order: float | None = None
    adjacency: str = "replace-one"
    mode: str | None = None
    """``simulation`` or ``private``; None in a ledger of schema 1."""
    delta_clipping: float | None = None
    """Most that clipped noise adds to delta, docs/privacy.md (V10); None where no noise is clipped."""
    account: str | None = None
    """Digest of the account's last line before this run, ``chain.NOTHING`` of a new one; None without account."""

    def line(self) -> dict[str, Any]:
        """Return the header as the ledger keeps it."""
        line = {
            "kind": "header",
            "schema": SCHEMA if self.mode else 1,
            "agent": self.agent,
            "neighbours": list(self.neighbours),
            "records": self.records,
            "adjacency": self.adjacency,
            "unit": "record",
            "budget": {"epsilon": self.epsilon, "delta": self.delta},
            **({} if self.delta_clipping is None else {"delta_clipping": self.delta_clipping}),
            "accountant": self.accountant,
            "order": self.order,
            "method": self.method,
            "algorithm": self.algorithm,
            **({"mode": self.mode} if self.mode else {}),
            "noise": self.noise,
            "preprocessing": self.preprocessing,
            "shards": "fixed",
            "admmnet": self.version,
        }
        return line if self.account is None else {**line, "account": self.account}


def encode(line: dict[str, Any]) -> bytes:
    """Return the canonical bytes of a line, newline excluded."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def finite(value: float | None) -> float | None:
    """Return the value, or None where it is infinite or undefined: JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def total_line(totals: Totals, delta: float | None) -> dict[str, float | None]:
    """Totals as every ledger line states them."""
    return {
        "rho": finite(totals.rho),
        "xi": finite(totals.xi),
        "epsilon_spent": None if delta is None else finite(totals.epsilon_proven(delta)),
        "epsilon_published": None if delta is None else finite(totals.epsilon_published(delta)),
    }


def event_line(
    round: int, event: Event, totals: Totals, delta: float | None, previous: str
) -> dict[str, Any]:
    """Event line; ``totals`` already include the event."""
    cost = proven.cost(event)
    return {
        "kind": "event",
        "round": round,
        "mechanism": event.mechanism,
        "parameters": parameters(event),
        "rho": finite(cost.rho),
        "xi": finite(cost.xi),
        "rho_published": finite(totals.claim(event)),
        "total": total_line(totals, delta),
        "previous": previous,
    }


SHARED = 1024
"""States of totals, their lines and their affordances that agents with equal histories share."""


@lru_cache(maxsize=64)
def empty(method: str) -> Totals:
    """Totals of no event, shared: never to be added to."""
    return Totals(method)


@lru_cache(maxsize=SHARED)
def grown(totals: Totals, event: Event) -> Totals:
    """Totals with one more event, shared by all agents with this history: never to be added to."""
    more = copy(totals)
    more.add(event)
    return more


@lru_cache(maxsize=SHARED)
def event_start(round: int, event: Event, totals: Totals, delta: float | None) -> bytes:
    """Bytes of an event's line up to the digest in it."""
    return encode(event_line(round, event, totals, delta, ""))[:-2]


def event_bytes(round: int, event: Event, totals: Totals, delta: float | None, previous: str) -> bytes:
    """Bytes of ``event_line``; ``totals`` are shared ones."""
    return b'%b%b"}' % (event_start(round, event, totals, delta), previous.encode())


@lru_cache(maxsize=SHARED)
def _affords(budget: Budget, totals: Totals, events: tuple[Event, ...]) -> bool:
    return budget.affords(totals, events)


class Place(NamedTuple):
    """Where a ledger stood: rounds done, its events and lines, the last line's digest, the round of a refusal."""

    round: int
    events: int
    lines: int
    digest: str
    refused_at: int | None = None


class Ledger:
    """Append-only ledger of one agent and the guard of its budget.

    Parameters
    ----------
    path : Path
        File to create; it must not exist.
    header : Header
        First line.
    budget : Budget or None
        What may be spent; None for methods without privacy.
    durable : bool
        Whether ``commit`` waits for the disk (private runs).
    account : AccountFile, optional
        Account whose totals the budget spans; every charge goes there first.
    since : Place, optional
        Checkpoint from which an interrupted run goes on with the file that is there. Charges behind it stand.
        Of a seeded run they are made again, and must come out as they stand; a private run's next charges are
        new ones behind them, after a line of kind ``resume``.

    Raises
    ------
    RequestError
        If the file cannot be created, or is not the one of the checkpoint.
    CheckFailed
        If the file to go on with does not verify.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        budget: Budget | None,
        *,
        durable: bool,
        account: AccountFile | None = None,
        since: Place | None = None,
    ) -> None:
        self.totals = empty(header.method)
        self.events = 0
        self.refused_at: int | None = None
        self.path = path
        self.adjacency = header.adjacency
        self._delta = header.delta
        self._budget = budget
        self._account = account
        self._closed = False
        header = header if account is None else replace(header, account=account.place)
        if since is None:
            line = encode(header.line())
            create(path, "ledger", line, durable=durable)
            self._file = ChainFile(path, "ledger", durable=durable, previous=digest(line))
            self._lines = 1
            if account is not None:
                account.begin(header)
                account.commit()
        else:
            self._file = self._resume(header, durable, since)

    def _resume(self, header: Header, durable: bool, since: Place) -> ChainFile:
        from admmnet.privacy.ledger import audit

        try:
            mend(self.path)
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            raise RequestError(f"cannot read the ledger {self.path}: {error.strerror}") from None
        book = audit.read(self.path)
        if lines[0] != encode(header.line()):
            raise RequestError(
                f"the ledger {self.path} begins with another header than this run's: "
                "resume with the records, settings and version of admmnet that the run had, or run anew"
            )
        if len(lines) < since.lines or digest(lines[since.lines - 1]) != since.digest:
            raise RequestError(
                f"the ledger {self.path} lacks charges that its checkpoint knows of: it was cut or exchanged; "
                "put the right one back, or run anew"
            )
        self.refused_at = since.refused_at
        if header.noise == "seeded":
            for _, event, _ in book.events[: since.events]:
                self.totals = grown(self.totals, event)
            self.events, self._lines = since.events, since.lines
            if self._account is not None:
                self._account.rewind(since.events)
            standing = lines[since.lines :]
            return ChainFile(self.path, "ledger", durable=durable, previous=since.digest, standing=standing)
        self.totals, self.events, self._lines = book.totals, len(book.events), len(lines)
        if self._account is not None:
            self._account.resume(header, since.round, len(book.events))
        file = ChainFile(self.path, "ledger", durable=durable, previous=digest(lines[-1]))
        file.append(encode({"kind": "resume", "round": since.round, "previous": file.previous}))
        self._lines += 1
        return file

    def place(self, round: int) -> Place:
        """Where the ledger stands after ``round`` rounds, for a checkpoint; everything in it is on the disk then.

        Raises
        ------
        RunError
            If the disk refuses.
        """
        if self._account is not None:
            self._account.commit()
        self._file.sync()
        return Place(round, self.events, self._lines, self._file.previous, self.refused_at)

    def affords(self, events: Iterable[Event]) -> bool:
        """Whether these events still fit the budget; once something was refused, nothing does."""
        if self.refused_at is not None:
            return False
        spent = self.totals if self._account is None else self._account.totals
        return self._budget is None or _affords(self._budget, spent, tuple(events))

    def refuse(self, round: int) -> None:
        """Refuse every further charge, for good (docs/privacy.md, Theorem 5)."""
        if self.refused_at is None:
            self.refused_at = round

    def pays(self, round: int, *events: Event) -> bool:
        """Charge these events if they fit the budget; else refuse for good and return False."""
        if not self.affords(events):
            self.refuse(round)
            return False
        self._charge(round, events)
        return True

    def charge(self, round: int, *events: Event) -> None:
        """Write the cost of events that are about to be drawn.

        Raises
        ------
        RunError
            If the budget does not afford them (callers ask ``affords`` first).
        """
        if not self.affords(events):
            raise RunError(f"agent's ledger {self.path.name}: a charge in round {round} exceeds the budget")
        self._charge(round, events)

    def _charge(self, round: int, events: tuple[Event, ...]) -> None:
        for event in events:
            if self._account is not None:
                self._account.charge(round, event)
            self.totals = grown(self.totals, event)
            self.events += 1
            self._append(event_bytes(round, event, self.totals, self._delta, self._file.previous))

    def account_epsilon(self) -> float | None:
        """Epsilon spent over all runs of the account, None without one."""
        if self._account is None or self._delta is None:
            return None
        return self._account.totals.epsilon_proven(self._delta)

    def commit(self) -> None:
        """Push all charges out of the process, and to the disk in durable ledgers, before anything is sent.

        Raises
        ------
        RunError
            If the disk refuses; nothing has been sent then.
        """
        if self._account is not None:
            self._account.commit()
        self._file.commit()

    def finish(self) -> None:
        """Write the end line and close."""
        total = total_line(self.totals, self._delta)
        end = {"kind": "end", "events": self.events, "total": total, "previous": self._file.previous}
        self._append(encode(end))
        self.close()

    def close(self) -> None:
        """Commit and close, without an end line if the run has not finished; once is enough."""
        if self._closed:
            return
        self._closed = True
        try:
            self.commit()
        finally:
            if self._account is not None:
                self._account.close()

    def _append(self, line: bytes) -> None:
        self._file.append(line)
        self._lines += 1
