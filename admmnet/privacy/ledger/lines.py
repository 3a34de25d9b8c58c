"""An append-only file of lines that are chained by their hashes: what ledgers and accounts are written to.

Lines are kept in memory until ``commit``. Before anything is written, and so before anything is sent, the file must be
the one that this process has written so far: of the same inode, length and last line.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections import deque
from contextlib import suppress
from pathlib import Path

from admmnet.errors import RequestError, RunError
from admmnet.files import remedy, sync


def digest(line: bytes) -> str:
    """sha256 of a line's bytes, newline excluded, in hexadecimal."""
    return hashlib.sha256(line).hexdigest()


_PLAIN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BEGINNING = b'{"kind":"'
NOTHING = digest(b"")
"""What the first line follows from."""


def open_plain(path: Path | str, flags: int) -> tuple[int, os.stat_result]:
    """Open a file for reading and writing that is no link, pipe or device, and look at it; an OSError says which."""
    handle = os.open(path, _PLAIN | flags, 0o666)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise OSError(0, "it is no plain file")
    return handle, found


class ChainFile:
    """A file, which errors call ``what``, of so many lines, each with the digest of the one before; last: ``previous``.

    Unless it is ``kept`` open, the file is opened at every commit, so that one process may keep any number of ledgers.
    """

    __slots__ = (
        *("_durable", "_handle", "_last", "_lasts", "_name", "_node", "_pending", "_size", "_taken"),
        *("lines", "path", "previous", "what"),
    )

    def __init__(self, path: Path, what: str, previous: str, lines: int, *, durable: bool, kept: bool = True) -> None:
        self.path, self._name, self.what, self.previous, self.lines = path, str(path), what, previous, lines
        handle, found = self._open()
        self._durable, self._handle = durable, handle if kept else None
        self._pending, self._taken = bytearray(), 0
        self._lasts = True  # whether everything that was written is on the disk
        try:
            self._node, self._size = (found.st_dev, found.st_ino), found.st_size
            self._last = os.pread(handle, _TAIL, max(0, self._size - _TAIL))
        finally:
            if self._handle is None:
                os.close(handle)

    def _open(self) -> tuple[int, os.stat_result]:
        try:
            return open_plain(self._name, os.O_APPEND)
        except FileNotFoundError:
            raise self._another("is gone") from None
        except OSError as error:
            raise RunError(f"cannot write the {self.what} {self.path}: {remedy(error)}") from None

    def _another(self, how: str) -> RunError:
        return RunError(
            f"the {self.what} {self.path} {how} while this run used it: nothing was sent that does not stand there; "
            "put the right file back: later runs must know its spending"
        )

    def append(self, line: bytes) -> None:
        """Add a line, which ``commit`` writes."""
        self._pending += line + b"\n"
        self.previous, self.lines = digest(line), self.lines + 1

    def take(self) -> bytes:
        """Return lines since the last ``commit`` that were not taken before: they stand in the journal first."""
        found, self._taken = bytes(self._pending[self._taken :]), len(self._pending)
        return found

    def commit(self) -> None:
        """Push all lines out of the process, and to the disk where the file is durable.

        What was opened by its name just now is looked at; of a handle that was kept the name is looked up.

        Raises
        ------
        RunError
            If the disk refuses, or the file is not what was written. What the disk has not taken goes to it at the next
            commit.
        """
        durable = self._durable
        handle, there = self._open() if self._handle is None else (self._handle, None)
        try:
            try:
                there = there or os.stat(self._name, follow_symlinks=False)
            except FileNotFoundError:
                raise self._another("was deleted") from None
            if (there.st_dev, there.st_ino) != self._node:
                raise self._another("was replaced by another file")
            if there.st_size != self._size:
                raise self._another(f"was changed, from {self._size} to {there.st_size} bytes,")
            if os.pread(handle, len(self._last), self._size - len(self._last)) != self._last:
                raise self._another("was changed in its last line")
            if self._pending or (durable and not self._lasts):
                self._lasts = False
                while self._pending:
                    written = os.write(handle, self._pending)
                    self._size += written
                    self._last = (self._last + self._pending[:written])[-_TAIL:]
                    del self._pending[:written]
                    self._taken = max(0, self._taken - written)
                if durable:
                    os.fsync(handle)
                self._lasts = durable
        except OSError as error:
            raise RunError(f"cannot write the {self.what} {self.path}: {remedy(error)}") from None
        finally:
            if self._handle is None:
                os.close(handle)

    def close(self) -> None:
        """Let the file go, without a commit; once is enough."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):  # said by commit
                os.close(handle)


_TAIL = 256
"""Bytes at the end of a file that are compared: a last line ends with the digest of what is before it."""


def create(path: Path, what: str, line: bytes, *, durable: bool) -> None:
    """Make a file of one line; it is there whole or not at all.

    Raises
    ------
    RequestError
        If the file exists, or its folder does not.
    RunError
        If the disk refuses.
    """
    draft = _draft_of(path)
    try:
        with draft.open("wb", buffering=0) as file:
            try:
                if file.write(line + b"\n") <= len(line):
                    raise OSError(28, os.strerror(28))
                if durable:
                    os.fsync(file.fileno())
            except OSError as error:
                raise RunError(f"cannot write the {what} {path}: {remedy(error)}") from None
        os.link(draft, path)  # never over a file that is there
    except OSError as error:
        kind = RunError if error.errno == errno.ENOSPC else RequestError
        raise kind(f"cannot create the {what} {path}: {remedy(error)}") from None
    finally:
        with suppress(OSError):
            draft.unlink()
    if durable:
        sync(path.parent)


def _draft_of(path: Path) -> Path:
    """Under which name a file is made."""
    return path.with_name(f".{path.name}.new")


def mend(path: Path) -> None:
    """Cut an incomplete last line, and remove what the making left: a charge is whole on the disk before its release.

    A line that lacks its newline alone is a line like any other, and stays; so does what no crash leaves, to be told.
    """
    _, before, last = ending(path)
    _draft_of(path).unlink(missing_ok=True)
    if last.endswith(b"\n"):
        return
    if is_whole(last):
        with path.open("ab") as file:
            file.write(b"\n")
    elif is_torn(last):
        os.truncate(path, before)


def ending(path: Path) -> tuple[int, int, bytes]:
    """Number of a file's lines, bytes before the last one, and that one, with the newline if it has one."""
    with path.open("rb") as file:
        number, last = next(iter(deque(enumerate(file, start=1), maxlen=1)), (0, b""))
        return number, file.tell() - len(last), last


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
