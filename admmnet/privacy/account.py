"""The account of one agent over many runs on the same records (docs/ledger.md, "Accounts").

It is a chained file like a ledger's: a header, then a line for every run and every charge. A charge stands in
the account before it stands in the run's ledger, so that no crash makes the account understate.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from admmnet.errors import RequestError, RunError
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate_proven import nominal_rho
from admmnet.privacy.conversion import ORDERS, best_order
from admmnet.privacy.events import Event
from admmnet.privacy.ledger import Header, digest, encode, event_line, sync_folder


class AccountFile:
    """Open account of one agent, locked against other runs until closed.

    Parameters
    ----------
    folder : Path
        Folder of the accounts; made if missing.
    agent, records : int
        Must be those of the account.
    epsilon, delta : float
        Budget of the account from now on: ``epsilon`` may be raised between runs, ``delta`` stays.

    Attributes
    ----------
    totals : Totals
        Everything charged so far, over all runs.
    order : int
        The one Renyi order of the filter, fixed when the account was opened first.

    Raises
    ------
    RequestError
        If the account belongs to another agent or shard, has another delta, or is in use.
    CheckFailed
        If the file does not verify.
    """

    def __init__(self, folder: Path, agent: int, records: int, epsilon: float, delta: float) -> None:
        self.path = folder / f"agent-{agent:03d}.jsonl"
        self._delta = delta
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = self.path.open("a+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sync_folder(folder)  # a new account's name must last, too
        except BlockingIOError:
            self._file.close()
            raise RequestError(
                f"the account {self.path} is in use by another run; wait for its end"
            ) from None
        except OSError as error:
            raise RequestError(f"cannot open the account {self.path}: {error.strerror}") from None
        try:
            self._drop_torn_line()
            if self.path.stat().st_size == 0:
                whole = nominal_rho(epsilon, delta) * ORDERS
                self.totals, self.order, self._previous = Totals("proven"), best_order(whole, delta), ""
            else:
                self._continue(agent, records, delta)
        except BaseException:
            self._file.close()  # and with it the lock
            raise

    @property
    def fresh(self) -> bool:
        """Whether no run has begun here; the order may still be chosen, from public facts."""
        return not self._previous

    def _drop_torn_line(self) -> None:
        """Cut an incomplete last line: a charge is on the disk whole before its release is sent.

        A line that lacks its newline alone is a charge like any other, and stays.
        """
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole == len(data):
            return
        try:
            json.loads(data[whole:])
        except ValueError:
            os.truncate(self.path, whole)
        else:
            self._file.write(b"\n")
            self._file.flush()

    def _continue(self, agent: int, records: int, delta: float) -> None:
        from admmnet.privacy import audit

        account = audit.read(self.path, account=True)
        header = account.header
        for name, own, asked in (
            ("agent", header["agent"], agent),
            ("records", header["records"], records),
            ("delta", header["budget"]["delta"], delta),
        ):
            if own != asked:
                raise RequestError(
                    f"the account {self.path} is for {name} = {own}, this run has {asked}: "
                    "it belongs to other records; name another folder with --account"
                )
        self.totals = account.totals
        self.order = int(abs(ORDERS - header["order"]).argmin())
        self._previous = digest(self.path.read_bytes().split(b"\n")[-2])

    def begin(self, header: Header) -> None:
        """Write the header of a new account, or the line of another run."""
        line = header.line()
        if self._previous:
            line = {**line, "kind": "run", "previous": self._previous}
        self._write(encode(line))

    def charge(self, round: int, event: Event) -> None:
        """Add a charge; ``commit`` makes it last."""
        self.totals.add(event)
        self._write(encode(event_line(round, event, self.totals, self._delta, self._previous)))

    def commit(self) -> None:
        """Wait until every charge is on the disk.

        Raises
        ------
        RunError
            If the disk refuses.
        """
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._disk(error) from None

    def close(self) -> None:
        """Commit and release the lock; once is enough."""
        if not self._file.closed:
            try:
                self.commit()
            finally:
                with suppress(OSError):  # said by commit
                    self._file.close()

    def _write(self, line: bytes) -> None:
        try:
            self._file.write(line + b"\n")
        except OSError as error:
            raise self._disk(error) from None
        self._previous = digest(line)

    def _disk(self, error: OSError) -> RunError:
        return RunError(
            f"cannot write the account {self.path}: {error.strerror}; free some space and run again"
        )
