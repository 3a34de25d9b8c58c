"""The ledger of one agent: JSON Lines, append only, every line chained to the one before (docs/ledger.md).

There is one path to the network and it goes through here: charge, then draw, then commit, then send.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admmnet.errors import RequestError, RunError
from admmnet.privacy import proven
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.events import Event, parameters

if TYPE_CHECKING:
    from admmnet.privacy.account import AccountFile

SCHEMA = 1


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

    def line(self) -> dict[str, Any]:
        """Return the header as the ledger keeps it."""
        return {
            "kind": "header",
            "schema": SCHEMA,
            "agent": self.agent,
            "neighbours": list(self.neighbours),
            "records": self.records,
            "adjacency": self.adjacency,
            "unit": "record",
            "budget": {"epsilon": self.epsilon, "delta": self.delta},
            "accountant": self.accountant,
            "order": self.order,
            "method": self.method,
            "algorithm": self.algorithm,
            "noise": self.noise,
            "preprocessing": self.preprocessing,
            "shards": "fixed",
            "admmnet": self.version,
        }


def encode(line: dict[str, Any]) -> bytes:
    """Return the canonical bytes of a line, newline excluded."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def digest(line: bytes) -> str:
    """sha256 of a line's bytes, newline excluded, in hexadecimal."""
    return hashlib.sha256(line).hexdigest()


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

    Raises
    ------
    RequestError
        If the file cannot be created.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        budget: Budget | None,
        *,
        durable: bool,
        account: AccountFile | None = None,
    ) -> None:
        self.totals = Totals(header.method)
        self.events = 0
        self.refused_at: int | None = None
        self.path = path
        self._delta = header.delta
        self._budget = budget
        self._durable = durable
        self._account = account
        try:
            self._file = path.open("xb")
        except OSError as error:
            raise RequestError(f"cannot create the ledger {path}: {error.strerror}") from None
        self._write(header.line())
        if account is not None:
            account.begin(header)
        if durable:
            sync_folder(path.parent)
        self.commit()

    def affords(self, events: Iterable[Event]) -> bool:
        """Whether these events still fit the budget; once something was refused, nothing does."""
        if self.refused_at is not None:
            return False
        spent = self.totals if self._account is None else self._account.totals
        return self._budget is None or self._budget.affords(spent, events)

    def refuse(self, round: int) -> None:
        """Refuse every further charge, for good (docs/privacy.md, Theorem 5)."""
        if self.refused_at is None:
            self.refused_at = round

    def pays(self, round: int, *events: Event) -> bool:
        """Charge these events if they fit the budget; else refuse for good and return False."""
        if not self.affords(events):
            self.refuse(round)
            return False
        self.charge(round, *events)
        return True

    def charge(self, round: int, *events: Event) -> None:
        """Write the cost of events that are about to be drawn.

        Raises
        ------
        RunError
            If the budget does not afford them (callers ask ``affords`` first), or the disk refuses.
        """
        if not self.affords(events):
            raise RunError(f"agent's ledger {self.path.name}: a charge in round {round} exceeds the budget")
        for event in events:
            if self._account is not None:
                self._account.charge(round, event)
            self.totals.add(event)
            self.events += 1
            self._write(event_line(round, event, self.totals, self._delta, self._previous))

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
        try:
            self._file.flush()
            if self._durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise self._disk(error) from None

    def finish(self) -> None:
        """Write the end line and close."""
        total = total_line(self.totals, self._delta)
        self._write({"kind": "end", "events": self.events, "total": total, "previous": self._previous})
        self.close()

    def close(self) -> None:
        """Commit and close, without an end line if the run has not finished; once is enough."""
        if self._file.closed:
            return
        try:
            self.commit()
        finally:
            with suppress(OSError):  # said by commit
                self._file.close()
            if self._account is not None:
                self._account.close()

    def _write(self, line: dict[str, Any]) -> None:
        data = encode(line)
        try:
            self._file.write(data + b"\n")
        except OSError as error:
            raise self._disk(error) from None
        self._previous = digest(data)

    def _disk(self, error: OSError) -> RunError:
        return RunError(
            f"cannot write the ledger {self.path}: {error.strerror}; free some space and run again"
        )


def sync_folder(folder: Path) -> None:
    """Make a new file's name last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        raise RunError(f"cannot write in {folder}: {error.strerror}; free some space and run again") from None
    finally:
        os.close(handle)
