"""The lock of an account: a file of its own, which also remembers how far the account had come."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from admmnet.errors import RequestError, RunError
from admmnet.privacy.ledger.lines import open_plain
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
        self.path, self.mark = path, None
        self._handle: int | None = open_plain(path, os.O_CREAT)[0]
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.check()  # the run before may have removed it since it was opened
            self.mark = self._read(self._handle)
        except BaseException:
            self.close()
            raise

    def _read(self, handle: int) -> tuple[int, str] | None:
        data = os.pread(handle, 100, 0)
        found = _MARK.fullmatch(data)
        if data and (found is None or not int(found[1])):
            raise RequestError(
                f"{self.path} is damaged: it records how far the account had come; put both files back from "
                f"one copy, or {ANOTHER_FOLDER}"
            )
        return None if found is None else (int(found[1]), found[2].decode())

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
