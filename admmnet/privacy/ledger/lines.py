"""An append-only file of lines that are chained by their hashes: what ledgers and accounts are written to.

Lines are kept in memory until ``commit``. The file is open only while it is written, so that one process may
keep any number of ledgers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from admmnet.errors import RequestError, RunError


def digest(line: bytes) -> str:
    """sha256 of a line's bytes, newline excluded, in hexadecimal."""
    return hashlib.sha256(line).hexdigest()


_BEGINNING = b'{"kind":"'
NOTHING = digest(b"")
"""What the first line follows from."""


class ChainFile:
    """Lines that go to a file, which errors call ``what``, or are found to stand there already.

    ``previous`` is the digest of the line before the next one. Lines ``standing`` behind it are in the file: the next
    ones must equal them, and are not written again. Without an open ``handle`` the path is opened at every commit.
    """

    def __init__(
        self,
        path: Path,
        what: str,
        *,
        durable: bool,
        previous: str,
        standing: Iterable[bytes] = (),
        handle: int | None = None,
    ) -> None:
        self.path, self.what, self.previous = path, what, previous
        self._durable, self._handle = durable, handle
        self._standing = deque(standing)
        self._pending = bytearray()
        self._lasts = True  # whether everything that was written is on the disk

    def append(self, line: bytes) -> None:
        """Add a line; ``commit`` writes it.

        Raises
        ------
        RunError
            If another line stands there already.
        """
        if self._standing:
            if self._standing.popleft() != line:
                raise RunError(
                    f"the {self.what} {self.path} holds other charges than this run makes again: records, seed, "
                    "admmnet and its libraries must be those of the interrupted run; run anew"
                )
        else:
            self._pending += line + b"\n"
        self.previous = digest(line)

    def commit(self) -> None:
        """Push all lines out of the process, and to the disk if durable.

        Raises
        ------
        RunError
            If the disk refuses. What it has not taken goes to it at the next commit.
        """
        if not self._pending and (self._lasts or not self._durable):
            return
        self._lasts = False
        try:
            if self._handle is not None:
                self._push(self._handle)
            else:
                handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
                try:
                    self._push(handle)
                finally:
                    os.close(handle)
        except OSError as error:
            raise RunError(
                f"cannot write the {self.what} {self.path}: {error.strerror}; free some space and run again"
            ) from None
        self._lasts = self._durable

    def sync(self) -> None:
        """Write everything, and wait for the disk even if not durable."""
        durable, self._durable = self._durable, True
        try:
            self.commit()
        finally:
            self._durable = durable

    def _push(self, handle: int) -> None:
        while self._pending:
            del self._pending[: os.write(handle, self._pending)]
        if self._durable:
            os.fsync(handle)


def create(path: Path, what: str, line: bytes, *, durable: bool) -> None:
    """Make a file of one line; it is there whole or not at all.

    Raises
    ------
    RequestError
        If the file exists, or its folder does not.
    RunError
        If the disk refuses.
    """
    draft = path.with_name(f".{path.name}.new")
    try:
        with draft.open("xb", buffering=0) as file:
            try:
                if file.write(line + b"\n") <= len(line):
                    raise OSError(28, os.strerror(28))
                if durable:
                    os.fsync(file.fileno())
            except OSError as error:
                raise RunError(
                    f"cannot write the {what} {path}: {error.strerror}; free some space and run again"
                ) from None
        os.link(draft, path)  # never over a file that is there
    except OSError as error:
        raise RequestError(f"cannot create the {what} {path}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            draft.unlink()
    if durable:
        sync_folder(path.parent)


def mend(path: Path) -> None:
    """Cut an incomplete last line: a charge is on the disk whole before its release is sent.

    A line that lacks its newline alone is a line like any other, and stays.
    """
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole == len(data):
        return
    if is_whole(data[whole:]):
        with path.open("ab") as file:
            file.write(b"\n")
    else:
        os.truncate(path, whole)


def is_whole(tail: bytes) -> bool:
    """Whether a last line lacks nothing but its newline: no beginning of an object is an object."""
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return False


def is_torn(tail: bytes) -> bool:
    """Whether a last line without newline may be what a crash left: the beginning of a line, and no more."""
    if not (tail.startswith(_BEGINNING) or _BEGINNING.startswith(tail)):
        return False
    try:
        json.JSONDecoder().raw_decode(tail.decode(errors="replace"))
    except (ValueError, RecursionError):
        return True
    return False


def sync_folder(folder: Path) -> None:
    """Make a new file's name last."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise RunError(f"cannot write in {folder}: {error.strerror}; free some space and run again") from None
