"""The ledger of one agent: JSON Lines, append only, every line chained to the one before (docs/ledger.md).

There is one path to the network and it goes through here: charge, then draw, then commit, then send.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import structs

from admmnet.errors import RequestError, RunError
from admmnet.forms import decode, encode
from admmnet.privacy.budget import Totals, grown
from admmnet.privacy.contract import MemoryLedger, Step
from admmnet.privacy.events import Event, from_parameters
from admmnet.privacy.ledger import audit, form
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.ledger.lines import ChainFile, create, digest, mend
from admmnet.types import BEFORE


class Journaled(NamedTuple):
    """Lines behind its header that a ledger must have by the journal of its run."""

    before: int = 0
    """How many were written down before the last record that has some."""
    head: str = ""
    """Digest of the last one of them."""
    last: tuple[bytes, ...] = ()
    """Lines of that record: a crash may have kept them from the ledger, and from the account."""

    def then(self, lines: bytes) -> Journaled:
        """Return the same with the lines of a further record."""
        if not lines:
            return self
        head = digest(self.last[-1]) if self.last else self.head
        return Journaled(self.before + len(self.last), head, tuple(lines.split(b"\n")[:-1]))


class Ledger(MemoryLedger):
    """Append-only ledger of one agent and the guard of its contract.

    Parameters
    ----------
    path : Path
        File of this ledger, which is made, and must not exist, but to go on with.
    header : Header
        First line; its contract guards.
    account : AccountFile, optional
        Account whose totals the budget spans; every charge goes there first.
    since : Journaled, optional
        Lines that an interrupted run goes on with. Those that the file, or the account, lacks are written now.
    durable, kept, alone : bool
        Whether commits wait for the disk (private runs), whether the file stays open from commit to commit, and whether
        its process has no other ledger.

    Attributes
    ----------
    charged : int
        Last round that was charged; ``BEFORE`` for none.
    void : (int, int) or None
        Round of the last record, if the account has no room for it any more, and how many of its lines stand: nothing
        of it had left.

    Raises
    ------
    RequestError
        If the file cannot be created, or it and the journal and the account are not of one moment of the run.
    CheckFailed
        If the file to go on with does not verify.
    """

    __slots__ = (
        *("_account", "_chain", "_changed", "_closed", "_ended", "_paid", "_spanned"),
        *("chain", "charged", "path", "void"),
    )
    _line = staticmethod(form.event_start)

    def __init__(
        self,
        path: Path,
        header: form.Header,
        *,
        account: AccountFile | None = None,
        since: Journaled | None = None,
        durable: bool,
        kept: bool = True,
        alone: bool = False,
    ) -> None:
        super().__init__(header.contract)
        self.path, self._account, self._closed = path, account, False
        self._chain = partial(ChainFile, path, "ledger", durable=durable, kept=kept)
        self.charged, self._paid, self._ended = BEFORE, 0, False
        self.void: tuple[int, int] | None = None
        self._spanned = self.totals if account is None else account.past
        self._changed: dict[int, Totals] = {}  # spent before the starts of the run so far that were planned anew
        if account is not None:
            header = header._replace(line=structs.replace(header.line, account=account.place))
        if since is None or not (since.last or self.path.exists()):
            create(self.path, "ledger", first := encode(header.line), durable=durable)
            self.chain = self._chain(digest(first), 1)
            if account is not None:
                account.begin(header)
                account.commit()
        else:
            self._resume(header, since, alone=alone)

    def _resume(self, header: form.Header, since: Journaled, *, alone: bool) -> None:
        """Go on with the file that is there: take in its lines, and write those that a crash has kept from it."""
        try:
            mend(self.path)
        except FileNotFoundError:
            raise self._put_back("is missing") from None
        except OSError as error:
            raise RequestError(f"cannot read the ledger {self.path}: {error.strerror}") from None
        with self.path.open("rb") as file:
            right = file.readline().removesuffix(b"\n") == encode(header.line)
        previous, there, lines, behind = "", "", 0, list[bytes]()

        def take(line: bytes, digest: str, found: tuple[int, Event] | audit.Start | form.StartLine | None) -> None:
            nonlocal previous, there, lines
            if lines > since.before:
                behind.append(line)
            lines, previous = lines + 1, digest
            there = digest if lines == since.before + 1 else there
            if isinstance(found, form.StartLine):
                self._changed[found.round] = self._spanned
            elif isinstance(found, tuple):
                self._spanned = grown(self._spanned, found[1])
                self.totals, self.events = grown(self.totals, found[1]), self.events + 1

        book = audit.read(self.path, keep=False, alone=alone, seen=take if right else audit.UNSEEN)
        if not right:
            raise RequestError(
                f"the ledger {self.path} begins with another header than this run's: "
                "resume with the run's own records, settings and version of admmnet, or run anew"
            )
        self.chain, self._ended, self.charged = self._chain(previous, lines), book.finished, book.last
        own = tuple(behind[: len(behind) - book.finished])
        if lines - book.finished <= since.before:
            raise self._put_back("lacks charges that the journal of the run has")
        if own != since.last[: len(own)] or (since.before and there != since.head):
            raise self._put_back("has charges that the journal of the run lacks, or others")
        if self._ended and len(own) < len(since.last):
            raise self._put_back("has ended before charges that the journal of the run has")
        self._make_up(header, [decode(cast("Any", form.Line), line) for line in since.last[len(own) :]], len(own))

    def _make_up(self, header: form.Header, missing: Sequence[Any], stand: int) -> None:
        """Write lines that a crash has kept from the ledger, and charges that it has kept from the account, too."""
        events = sum(isinstance(line, form.EventLine) for line in missing)
        if self._account is not None:
            self._paid = self._account.resume(header, self.events, self.events + events)
            if self._account.filter is not None:
                # another run may have lowered it since; of a run that was the first it is the header's
                self._over += (self._account.filter,)
        for place, line in enumerate(missing, start=stand):
            if isinstance(line, form.StartLine):
                self.begin(line.round, line.neighbours, line.weight)
                continue
            event = from_parameters(line.mechanism, dict(line.parameters))
            if not self._paid and not self.affords([event]):  # another run has used the account since
                self.void = line.at, place
                self.refuse(line.at)
                break
            for step in self.steps(line.at, [event]):
                self.book(line.at, step)
        if missing:
            self.commit()

    def _put_back(self, how: str) -> RequestError:
        return RequestError(
            f"the ledger {self.path} {how}: one of the two was put back from an older copy; put back the newest of the "
            "whole run folder, or run anew with --account, so that spent budget counts"
        )

    def book(self, round: int, step: Step) -> None:
        """Book a charge, in the account first."""
        if self._ended:
            raise RunError(f"the ledger {self.path} has ended: nothing is charged behind its end line")
        super().book(round, step)
        if self._account is None:
            self._spanned = step.totals
        else:
            if self._paid:
                self._paid -= 1
            else:
                self._account.charge(round, step.event)
            self._spanned = grown(self._spanned, step.event)
        self.charged = round
        self.chain.append(form.with_digest(step.line, self.chain.previous))

    def before(self, round: int) -> Totals:
        """What had been spent, of its account, too, when the start that begins with a round was planned, or by now."""
        return self._changed.get(round, self._spanned)

    def begin(self, round: int, neighbours: tuple[int, ...], weight: float | None) -> None:
        """Go on in a changed start, which is written down, once."""
        if self._ended or round in self._changed:
            return
        self._changed[round] = self._spanned
        line = form.StartLine(round=round, neighbours=neighbours, weight=weight, previous=self.chain.previous)
        self.chain.append(encode(line))

    @property
    def head(self) -> tuple[str, int]:
        """What it holds, for receipts: digest of its last line, number of its lines."""
        return self.chain.previous, self.chain.lines

    @property
    def account(self) -> Totals | None:  # type: ignore[override]
        """As of the memory's."""
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
        self.chain.commit()

    def end(self) -> None:
        """Write the end line, once in a run."""
        if self._ended:
            return
        total = form.total_line(self.totals, self.contract)
        account = None if self._account is None else self._account.chain.previous
        end = form.EndLine(events=self.events, total=total, account=account, previous=self.chain.previous)
        self.chain.append(encode(end))
        self._ended = True
        self.chain.take()  # no charge: it follows from those before it

    def close(self, *, commit: bool = True) -> None:
        """Commit and close, without an end line if the run has not finished; once is enough.

        Without a ``commit`` charges are dropped whose round is not in the journal: nothing of them had left.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if commit:
                self.commit()
        finally:
            self.chain.close()
            if self._account is not None:
                self._account.close(commit=commit)
