"""Files that are there whole or not at all, and bounds on what is read from files of others."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import resource
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError, RunError

DESCRIPTORS = 65_536
"""Open files that a process asks for at most; the system may allow fewer."""
STAYING = 4096
"""Ledgers of a process that stay open at most, and accounts besides."""


def write_whole(files: Mapping[Path, bytes]) -> None:
    """Write files so that each is there whole, and lasts, or is as it was before.

    They get their names in order, once all are on the disk. RunError if it refuses; drafts without a name are removed.
    """
    drafts = {path: path.with_name(f".{path.name}.new") for path in files}
    path = next(iter(drafts))
    try:
        for path, content in files.items():
            drafts[path].unlink(missing_ok=True)
            with drafts[path].open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, draft in drafts.items():
            draft.replace(path)
            sync(path.parent)
    except OSError as error:
        raise RunError(f"cannot write {path}: {remedy(error)}") from None
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """Place for a file that gets its name once it is whole; what is no file, such as /dev/stdout, is written itself."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    draft = path.with_name(f".{path.name}.new")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file, or a new file's name in a folder, last; RunError if the disk refuses."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise RunError(f"cannot write {path}: {remedy(error)}") from None


@contextmanager
def refusing(what: str, remedy: str = "") -> Iterator[None]:
    """Block of which a person is told what could not be done, with the system's word: a RequestError."""
    try:
        yield
    except OSError as error:
        raise RequestError(f"cannot {what}: {error.strerror}{remedy}") from None


def remedy(error: OSError) -> str:
    """What the system said of a file that cannot be written, and what helps."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}; raise ulimit -n, or start more processes"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}; free some space and run again"
    return f"{error.strerror}; mend that and run again"


def raise_descriptors() -> None:
    """Allow this process as many open files as the system lets it have, ``DESCRIPTORS`` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # some systems have a lower bound than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def stay_open(files: int) -> bool:
    """Whether so many files stay open: a quarter of those that the process may have, so that none keeps others out."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return files <= (STAYING if soft == resource.RLIM_INFINITY else min(STAYING, soft // 4))


def load_json(data: str | bytes) -> Any:
    """JSON from an outside file; a ValueError also where it is nested too deep."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deep") from None


def load_toml(data: bytes) -> dict[str, Any]:
    """TOML from an outside file; a ValueError, which shows nothing of the file, also where it is nested too deep."""
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("nested too deep") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None


def read_toml(path: Path, what: str = "config file", remedy: str = "") -> dict[str, Any]:
    """Content of a TOML file, which a RequestError calls ``what``; it names the ``remedy`` where none can be read."""
    with refusing(f"read the {what} {path}", remedy):
        data = path.read_bytes()
    try:
        return load_toml(data)
    except ValueError as error:
        raise RequestError(f"{path} is not a TOML file: {error}") from None


def free_memory() -> float:
    """Bytes of memory that the system could give; infinite where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return math.inf


def csv_text(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows under their names as CSV; numbers read back exactly, what is undefined is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)  # None is written as nothing
    return text.getvalue()
