"""The ledger of one agent: JSON Lines, append only, every line chained to the one before (docs/ledger.md).

There is one path to the network and it goes through here: charge, then draw, then commit, then send.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from admmnet.errors import RequestError
from admmnet.forms import encode
from admmnet.privacy.budget import Totals, grown
from admmnet.privacy.contract import MemoryLedger, Step
from admmnet.privacy.events import Event
from admmnet.privacy.filters import Count
from admmnet.privacy.ledger import audit, form
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.ledger.lines import Chain, ChainFile, create, digest, mend
from admmnet.types import BEFORE


class Place(NamedTuple):
    """Where a ledger stood: rounds done, its events and lines, the last line's digest, the round of a refusal."""

    round: int
    events: int
    lines: int
    digest: str
    refused_at: int | None = None


BEGINNING = Place(0, 0, 0, "")
"""Of a run that died before any charge: its ledgers may be there or not."""


class LedgerFile(NamedTuple):
    """The file of one ledger, as a run writes it; ``kept`` open from commit to commit or not.

    In a ``durable`` one commits wait for the disk (private runs). ``alone`` says that its process has no other ledger.
    """

    path: Path
    durable: bool
    kept: bool = True
    alone: bool = False


class Ledger(MemoryLedger):
    """Append-only ledger of one agent and the guard of its contract.

    Parameters
    ----------
    file : LedgerFile
        One that is made, and must not exist, or that ledgers share.
    header : Header
        First line; its contract guards.
    account : AccountFile, optional
        Account whose totals the budget spans; every charge goes there first.
    since : Place, optional
        Checkpoint from which an interrupted run goes on with the file that is there. Charges behind it stand.
        Of a seeded run they are made again, and must come out as they stand; a private run's next charges are
        new ones behind them, after a line of kind ``resume``.

    Attributes
    ----------
    charged : int
        Last round that was charged before ``since``, or behind it and stays so; ``BEFORE`` for none.

    Raises
    ------
    RequestError
        If the file cannot be created, or is not the one of the checkpoint.
    CheckFailed
        If the file to go on with does not verify.
    """

    __slots__ = ("_account", "_changed", "_closed", "_lines", "_place", "_spanned", "chain", "charged", "path")

    def __init__(
        self, file: LedgerFile, header: form.Header, *, account: AccountFile | None = None, since: Place | None = None
    ) -> None:
        super().__init__(header.contract)
        self._place, self.path, self._account, self._closed = file, file.path, account, False
        self.charged = BEFORE
        self._spanned = self.totals if account is None else account.past
        self._changed: dict[int, tuple[Totals, Count]] = {}  # starts of the run so far that were planned anew
        header = header if account is None else replace(header, account=account.place)
        if since is None or (since == BEGINNING and not self.path.exists()):
            create(self.path, "ledger", first := encode(header.line()), durable=file.durable)
            self.chain, self._lines = self._chain(digest(first)), 1
            if account is not None:
                account.begin(header)
                account.commit()
        else:
            self.chain = self._resume(header, since)

    def _resume(self, header: form.Header, since: Place) -> Chain:
        try:
            mend(self.path)
        except OSError as error:
            raise RequestError(f"cannot read the ledger {self.path}: {error.strerror}") from None
        with self.path.open("rb") as file:
            right = file.readline().removesuffix(b"\n") == encode(header.line())
        seeded, known, previous, standing = header.noise == "seeded", not since.lines, "", list[bytes]()
        self._lines = 0

        def take(line: bytes, digest: str, found: tuple[int, Event] | audit.Start | audit.Changed | None) -> None:
            nonlocal known, previous
            if seeded and self._lines == max(1, since.lines):  # it is charged again
                standing.append(line)
                return
            self._lines, previous = self._lines + 1, digest
            known = known or (self._lines, digest) == (since.lines, since.digest)
            if isinstance(found, audit.Changed):
                self._changed[found.round] = self._spanned, found.slots
                self.renew(found.slots)
            elif isinstance(found, tuple):
                self._count(found[1])

        book = audit.read(self.path, keep=False, alone=self._place.alone, seen=take if right else audit.UNSEEN)
        if not right:
            raise RequestError(
                f"the ledger {self.path} begins with another header than this run's: "
                "resume with the run's own records, settings and version of admmnet, or run anew"
            )
        if not known:
            raise RequestError(
                f"the ledger {self.path} lacks charges that its checkpoint knows of: it was cut or exchanged; "
                "put the right one back, or run anew"
            )
        self.refused_at = since.refused_at
        if seeded:
            if self._account is not None:
                self._account.rewind(header, self.events)
            return self._chain(previous, standing)
        if since == BEGINNING and book.count:
            raise RequestError(
                f"the ledger {self.path} has {book.count} charges, but no checkpoint knows of them: put "
                "it back, or run anew with --account, so that spent budget counts"
            )
        self.charged = book.last
        if self._account is not None:
            self._account.resume(header, since.round, book.count)
            if self._account.filter is not None:  # which another run has lowered since, or is the header's
                self._over += (self._account.filter,)
        chain = self._chain(previous)
        chain.append(encode(form.ResumeLine(since.round, chain.previous)))
        self._lines += 1
        return chain

    def _chain(self, previous: str, standing: Iterable[bytes] = ()) -> Chain:
        file = ChainFile(self.path, "ledger", durable=self._place.durable, kept=self._place.kept)
        return Chain(file, previous, standing)

    def _count(self, event: Event) -> None:
        self._spanned = grown(self._spanned, event)
        super()._count(event)

    def _line(self, round: int, event: Event, totals: Totals) -> bytes:
        return form.event_start(round, event, totals, self.contract)

    def _follow(self, round: int, step: Step) -> None:
        if self._account is None:
            self._spanned = step.totals
        else:
            self._account.charge(round, step.event)
            self._spanned = grown(self._spanned, step.event)
        super()._follow(round, step)
        self._append(form.with_digest(step.line, self.chain.previous))

    def before(self, round: int) -> Totals:
        """What had been spent, of its account, too, when the start that begins with a round was planned, or by now."""
        return self._changed[round][0] if round in self._changed else self._spanned

    @property
    def planned(self) -> int:
        """First round here of the changed start that was planned last, ``BEFORE`` for none."""
        return max(self._changed, default=BEFORE)

    def begin(
        self, round: int, slots: Count, neighbours: tuple[int, ...], weight: float | None, *, repeated: bool = True
    ) -> None:
        """Go on under the slots of a changed start, which are written down; once, if it may be ``repeated``.

        Raises
        ------
        RequestError
            If the run had other slots in it before it was interrupted.
        """
        if round not in self._changed or not repeated:
            self._changed[round] = self._spanned, slots
            self.renew(slots)
            line = form.StartLine(
                round=round,
                neighbours=neighbours,
                weight=weight,
                filter=cast("form.Planned", form.filter_line(slots)),
                previous=self.chain.previous,
            )
            self._append(encode(line))
        elif self._changed[round][1].planned != slots.planned:
            raise RequestError(
                f"the ledger {self.path} has another plan from round {round} on than this run: resume with the "
                "run's own records, settings and version of admmnet, or run anew"
            )

    def place(self, round: int) -> Place:
        """Where the ledger stands after ``round`` rounds."""
        return Place(round, self.events, self._lines, self.chain.previous, self.refused_at)

    def sync(self) -> None:
        """Have everything on the disk, also of a simulation: no checkpoint knows more. RunError if the disk refuses."""
        if self._account is not None:
            self._account.commit()
        self.chain.file.commit(durable=True)

    @property
    def head(self) -> tuple[str, int, float]:
        """What it holds, for receipts: digest of its last line, number of its lines, total proven cost."""
        return self.chain.previous, self._lines, self.totals.rho

    @property
    def spent(self) -> Totals:
        """What the budget spans: the run, or all runs of the account."""
        return self.totals if self._account is None else self._account.totals

    @property
    def account(self) -> Totals | None:
        """Totals over all runs of the account, None without one."""
        return None if self._account is None else self._account.totals

    def commit(self) -> None:
        """Push all charges out of the process, and to the disk in durable ledgers, before anything is sent.

        Raises
        ------
        RunError
            If the disk refuses; nothing has been sent then.
        """
        if self._account is not None:
            self._account.commit()
        self.chain.file.commit()

    def end(self) -> None:
        """Write the end line."""
        total = form.Total(**form.shared_total(self.totals, self.contract))
        account = None if self._account is None else self._account.head
        end = form.EndLine(events=self.events, total=total, account=account, previous=self.chain.previous)
        self._append(encode(end))

    def close(self) -> None:
        """Commit and close, without an end line if the run has not finished; once is enough."""
        if self._closed:
            return
        self._closed = True
        try:
            self.commit()
        finally:
            self.chain.file.close()
            if self._account is not None:
                self._account.close()

    def _append(self, line: bytes) -> None:
        self.chain.append(line)
        self._lines += 1
