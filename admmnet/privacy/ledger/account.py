"""The account of one agent over many runs on the same records (docs/ledger.md, "Accounts").

It is a chained file like a ledger's: a header, then a line for every run and every charge. A charge stands in
the account before it stands in the run's ledger, so that no crash makes the account understate. Its lock is a file of
its own, which also remembers how far the account had come.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from admmnet.errors import RequestError, RunError
from admmnet.files import remedy, sync
from admmnet.forms import encode
from admmnet.privacy.budget import empty, grown
from admmnet.privacy.contract import Contract, Filter, Promise
from admmnet.privacy.events import Event
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.form import Header, RestoredLine, RunLine, event_start, total_line, with_digest
from admmnet.privacy.ledger.lines import NOTHING, ChainFile, mend, open_plain
from admmnet.privacy.settings import ANOTHER_FOLDER

_MARK = re.compile(rb"(\d{12}) ([0-9a-f]{64})\n")


class Lock:
    """Keeps every other run out of an account until closed, also where the account's file is renamed.

    Attributes
    ----------
    mark : (int, str) or None
        Lines of the account when it was last written, and the digest of the last one; None of a new account.

    Raises
    ------
    BlockingIOError
        If another run has it.
    OSError
        If it cannot be opened.
    RequestError
        If it holds something else than a mark.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = open_plain(path, os.O_CREAT)[0]
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.check()  # the run before may have removed it since it was opened
            data = os.pread(self._handle, 100, 0)
            found = _MARK.fullmatch(data)
            if data and (found is None or not int(found[1])):
                raise RequestError(
                    f"{path} is damaged: it records how far the account had come; put both files back from "
                    f"one copy, or {ANOTHER_FOLDER}"
                )
            self.mark: tuple[int, str] | None = None if found is None else (int(found[1]), found[2].decode())
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Whether the file that other runs would lock is still this one.

        Raises
        ------
        RunError
            If it was removed or replaced: another run may have the account.
        """
        assert self._handle is not None
        here = os.fstat(self._handle)
        there = None
        with suppress(OSError):
            there = os.stat(self.path, follow_symlinks=False)
        if there is None or (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            raise RunError(
                f"{self.path} was removed while this run held it: another run may have its account; end both, and look "
                "into it with `admmnet account show`"
            )

    def remember(self, lines: int, head: str) -> None:
        """Keep how far the account has come, which is on the disk by now."""
        assert self._handle is not None
        self.mark = (lines, head)
        os.pwrite(self._handle, b"%012d %b\n" % (lines, head.encode()), 0)

    def close(self) -> None:
        """Release it; once is enough."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class FolderBehind(RequestError):
    """A run's folder was put back: its account has charges that it does not know of."""


class AccountFile:
    """Open account of one agent, locked against other runs until closed.

    The folder is made if missing. ``agent``, ``records`` and ``delta`` must be those of the account, and ``mode`` where
    it says one: accounts do not mix simulations and private runs; ``epsilon`` may be raised between runs. ``since`` is
    of a run that is resumed: ``account`` of its ledger's header, after which it began here. ``alone`` says that its
    process has no other account.

    Attributes
    ----------
    totals : Totals
        Everything charged so far, over all runs.
    past : Totals
        What was charged before this run began: its noise is calibrated on top of that.
    place : str
        Digest of the last line before this run, ``lines.NOTHING`` in a new account.
    filter : Filter or None
        Filter of all its runs, at this run's epsilon: order, kappa and parts are those of the first run; a larger
        epsilon lowers kappa for good. None in a new account, whose first plan fixes them.
    began : Filter or None
        The same when this run began: its plan and its header say this one, whatever other runs have done since.
    adjacency : str or None
        Relation of all its costs; None in a new account.

    Raises
    ------
    RequestError
        If the account belongs to another agent or shard, has another delta, is in use, or lacks the run that
        is resumed.
    CheckFailed
        If the file does not verify.
    """

    filter: Filter | None
    began: Filter | None

    def __init__(
        self,
        folder: Path,
        agent: int,
        records: int,
        epsilon: float,
        delta: float,
        *,
        since: str | None = None,
        mode: str | None = None,
        kept: bool = True,
        alone: bool = False,
    ) -> None:
        self.path, self._closed, self._single = account_path(folder, agent), False, alone
        self._budget, self.filter, self.began = Promise(epsilon, delta), None, None
        self.adjacency: str | None = None
        self._reading: Contract | None = None  # by which its last lines are read
        self._events = 0  # of a run that is resumed, behind its lines here
        self._lines, self._marked = 0, False  # lines, and whether the file is the one that the lock remembers
        self._alone = True  # whether no other run has begun since
        self._begun = since is not None  # whether the run that is resumed had begun here before it died
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self.path.with_suffix(".lock"))
        except BlockingIOError:
            raise RequestError(f"the account {self.path} is in use by another run; wait for its end") from None
        except OSError as error:
            raise self._cannot_open(error) from None
        try:
            os.close(open_plain(self.path, os.O_CREAT)[0])
            sync(folder)  # a new account's name must last, too
            mend(self.path)
            if not self.path.stat().st_size and since in (None, NOTHING):
                self.totals, previous, self._begun = empty("proven"), NOTHING, False
            else:
                previous = self._continue(agent, records, delta, since, mode)
            if self._lock.mark is not None and not self._marked:
                raise RequestError(
                    f"the account {self.path} is not the one that was last used here: it had {self._lock.mark[0]} "
                    f"lines, and has {self._lines} now, or others; the missing part was spent: put the right file back"
                )
            self.chain = ChainFile(self.path, "account", previous, self._lines, durable=True, kept=kept)
        except OSError as error:
            self._lock.close()
            raise self._cannot_open(error) from None
        except BaseException:
            self._lock.close()
            raise
        if not self._begun:
            self.past, self.place = self.totals, previous

    def _cannot_open(self, error: OSError) -> RequestError:
        said = "it is a symbolic link" if error.errno == errno.ELOOP else remedy(error)
        return RequestError(f"cannot open the account {self.path}: {said}")

    def _seen(self, line: bytes, digest: str, found: object) -> None:
        """Count a line, which may be the last that the lock remembers."""
        self._lines += 1
        self._marked = self._marked or (self._lines, digest) == self._lock.mark

    @property
    def fresh(self) -> bool:
        """Whether no run has begun here; the order may still be chosen, from public facts."""
        return self.chain.previous == NOTHING

    def _continue(self, agent: int, records: int, delta: float, since: str | None, mode: str | None) -> str:
        """Take over what the file holds; return the digest of its last line."""
        if not self.path.stat().st_size:
            raise self._lacks()
        account = audit.read(self.path, account=True, keep=False, alone=self._single, seen=self._seen)
        header = account.header
        then = header["mode"]
        if mode not in (None, then):
            raise RequestError(
                f"the account {self.path} is of {then} runs, this one is {mode}: name another folder with --account"
            )
        given = {"agent": agent, "records": records, "delta": delta}
        for name, asked in given.items():
            if (own := {**header, "delta": account.delta}[name]) != asked:
                raise RequestError(
                    f"the account {self.path} is for {name} = {own}, this run has {asked}: "
                    f"it belongs to other records; {ANOTHER_FOLDER}"
                )
        self.totals, self._reading = account.totals, account.contract
        self.adjacency = header["adjacency"]
        found = account.contract.account
        assert found is not None  # `audit.read` refuses a header without one
        self.filter = self.began = found.raised(self._budget.epsilon, delta)
        start = next((start for start in account.starts if start.previous == since), None)
        self._begun = start is not None
        if start is None and since not in (None, account.digest):
            raise self._lacks()
        if start is not None:
            self.place, self.past, self.began = start.previous, start.totals, start.filter
            ends = [one.events for one in account.starts[1:]] + [account.count]
            own = [one.previous == since or one.account == since for one in account.starts]
            self._events = sum(
                end - one.events for one, end, mine in zip(account.starts, ends, own, strict=True) if mine
            )
            self._alone = own[-1]
        return account.digest

    def _lacks(self) -> RequestError:
        return RequestError(
            f"the account {self.path} lacks charges of the run that is to be resumed: it was cut or exchanged; "
            "put the right one back"
        )

    def begin(self, header: Header, place: str | None = None) -> None:
        """Write the header of a new account, or the line of another run, which may have begun behind ``place``."""
        filter = header.contract.account if place is None else self.filter
        self._reading = replace(header.contract, account=filter).over_account()
        line = structs.replace(header.line, account_filter=filter, account=place)
        own = line if self.fresh else RunLine(**structs.asdict(line), previous=self.chain.previous)
        self.chain.append(encode(own))

    def resume(self, header: Header, written: int, events: int) -> int:
        """Go on with a run whose journal has so many events, of which its ledger has ``written``.

        Return how many more the account has than the ledger; everything charged stays so. Behind another run it gets a
        line of its own, with the filter as that run left it.

        Raises
        ------
        RequestError
            If the account holds fewer than the ledger, or more than the journal: one of them was put back.
        """
        if self._events < written:
            raise self._lacks()
        if self._events > events:
            raise FolderBehind(
                f"the account {self.path} has {self._events} charges of this run, and its folder knows of {events}: "
                "the folder was put back from an older copy; put back the newest of both, or run anew"
            )
        if not self._begun:
            self.begin(header)
        elif not self._alone:
            self.begin(header, self.place)
        return self._events - written

    def restore(self) -> None:
        """Count as spent all that the filter has left, as an older copy of a run's folder was put back; once.

        Charges of that run may be missing here, too: none can be more. Without a run here nothing is known of a filter.
        """
        if self._reading is None or self._reading.promise is None:
            return
        epsilon = max(self._reading.promise.epsilon, self._budget.epsilon)
        contract, full = self._reading.restored(epsilon, self.totals)
        was, now = ((one.mu_squared, one.kappa, *one.curve) for one in (self.totals, full))
        if was != now or math.isfinite(self.totals.rho):
            self.totals, self._reading = full, contract
            self.chain.append(encode(RestoredLine(epsilon, total_line(full, contract), self.chain.previous)))
            self.commit()

    def charge(self, round: int, event: Event) -> None:
        """Add a charge; ``commit`` makes it last."""
        self.totals = grown(self.totals, event)
        assert self._reading is not None  # it has begun
        self.chain.append(with_digest(event_start(round, event, self.totals, self._reading), self.chain.previous))

    def commit(self) -> None:
        """Wait until every charge is on the disk.

        Raises
        ------
        RunError
            If the disk refuses, or the account is not the one that this run has written.
        """
        self._lock.check()
        self.chain.commit()
        if self.chain.lines > (self._lock.mark or (0, ""))[0]:
            self._lock.remember(self.chain.lines, self.chain.previous)

    def close(self, *, commit: bool = True) -> None:
        """Commit, unless nothing of it had left, and release the lock; once is enough."""
        if not self._closed:
            self._closed = True
            try:
                if commit:
                    self.commit()
            finally:
                self.chain.close()
                self._lock.close()


def account_path(folder: Path, agent: int) -> Path:
    """File of one agent's account."""
    return folder / f"agent-{agent:03d}.jsonl"
