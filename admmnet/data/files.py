"""Files as text: plain, gzip, bzip2 or zip, in a folder, or downloaded once and verified."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO

from admmnet.errors import DataError, MissingDataError, RequestError

ENVIRONMENT = "ADMMNET_DATA"
"""Variable that names the data folder when `--data-dir` does not."""
TIMEOUT = 10.0
"""Seconds a download may be silent."""
BLOCK = 1 << 21
"""Bytes that `read_blocks` holds at a time."""
_LARGEST = 1 << 28  # bytes; no file that is downloaded comes near
UNPACKED = 1 << 30
"""Bytes to which any packed file may grow."""
LINE = 1 << 28
"""Bytes of the longest line."""
_PACKED: dict[str, type[gzip.GzipFile | bz2.BZ2File]] = {"gz": gzip.GzipFile, "bz2": bz2.BZ2File}
_ENDS = ("", ".gz", ".bz2", ".zip")
GROWTH = 100
"""Times its own size to which a larger one may; tables of numbers grow 2 to 20 times."""


@contextmanager
def about(*files: str | Path | None) -> Iterator[None]:
    """Name the file, of several that of the first fault, in every `DataError` of this block that names none."""
    try:
        yield
    except DataError as error:
        named = [str(file) for file in files if file is not None]
        own = (file for file in named if len(named) == 1 or error.faults[0].startswith(f"{file},"))
        error.file = error.file or next(own, None)
        raise


@contextmanager
def opened(path: Path) -> Iterator[_Bounded | IO[bytes]]:
    """Open a file for reading, unpacked when its name ends with `.gz`, `.bz2` or `.zip` (of one member).

    A file that cannot be read, is not packed as its name says, is cut off, or grows beyond every bound is refused,
    while it is read, too.
    """
    kind = path.suffix.removeprefix(".")
    try:
        if kind in _PACKED:
            with _PACKED[kind](path) as file:
                yield _Bounded(file, path)
        elif kind == "zip":
            with zipfile.ZipFile(path) as archive:
                members = archive.namelist()
                if len(members) != 1:
                    raise RequestError(f"{path} holds {len(members)} files: unpack the one that is meant")
                try:
                    member = archive.open(members[0])
                except RuntimeError as error:  # encrypted, or packed in a way that is not known
                    raise RequestError(f"{path} cannot be unpacked ({error}): give it unpacked") from None
                with member:
                    yield _Bounded(member, path)
        else:
            with path.open("rb") as file:
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise _unsound(path, error) from None
    except OSError as error:
        if error.errno is None:  # bz2 has no error of its own
            raise _unsound(path, error) from None
        raise RequestError(f"cannot read {path}: {error.strerror}") from None


def _unsound(path: Path, error: Exception) -> DataError:
    name = {"gz": "gzip", "bz2": "bzip2"}.get(path.suffix.removeprefix("."), "zip")
    return DataError(f"{path} is not a sound {name} file ({error}): store it anew")


class _Bounded(io.RawIOBase):
    """What is unpacked of a file, up to a bound: some kilobytes can unpack to more than any memory holds."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile | bz2.BZ2File, path: Path) -> None:
        super().__init__()
        self._file, self._path = file, path
        self._left = most_unpacked(path)

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or all."""
        data = self._file.read(self._left + 1 if size < 0 else size)
        self._left -= len(data)
        if self._left < 0:
            raise grows(self._path)
        return data


def most_unpacked(path: Path) -> int:
    """Bytes to which a packed file may grow."""
    return max(UNPACKED, GROWTH * path.stat().st_size)


def grows(path: Path) -> RequestError:
    """What to say of a packed file that holds more."""
    return RequestError(
        f"{path} unpacks to more than {most_unpacked(path):,} bytes ({UNPACKED >> 30} GiB, or {GROWTH} times its own "
        "size): if that is right, give it unpacked"
    )


def read_bytes(path: Path) -> bytes:
    """Read a file, unpacked as by `opened`; an empty one is refused."""
    with opened(path) as file:
        data = file.read()
    if not data.strip():
        raise _empty(path)
    return data


def _empty(path: Path) -> RequestError:
    return RequestError(f"{path} is empty: give a file with at least one record")


def read_blocks(path: Path, size: int = BLOCK) -> Iterator[list[str]]:
    """Lines of a UTF-8 file, some thousand at a time, without the empty ones at its end.

    Large files are never held whole: what is kept of a block is up to the caller.
    """
    number = 0
    held: list[str] = []  # empty lines, dropped only if nothing follows
    for data in _whole_lines(path, size):
        try:
            text = data.decode("utf-8-sig" if number == 0 else "utf-8")
        except UnicodeDecodeError as error:
            line = number + data.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{path}, line {line}: not UTF-8 text; convert the file to UTF-8, such as by iconv -f cp1252 -t utf-8"
            ) from None
        text = text.replace("\r\n", "\n") if "\r" in text else text
        lines = held + text.removesuffix("\n").split("\n")
        number += len(lines) - len(held)
        full = next((k for k in range(len(lines), 0, -1) if lines[k - 1].strip()), 0)
        held = lines[full:]
        if full:
            yield lines[:full]
    if len(held) == number:
        raise _empty(path)


def _whole_lines(path: Path, size: int) -> Iterator[bytes]:
    """Pieces of a file that end with a line."""
    rest: list[bytes] = []
    with opened(path) as file:
        while piece := file.read(size):
            end = piece.rfind(b"\n") + 1
            if end:
                yield b"".join((*rest, piece[:end]))
                rest = []
            rest.append(piece[end:])
            if sum(map(len, rest)) > LINE:
                raise RequestError(f"{path} has a line of more than {LINE:,} bytes: give a text file, a record a line")
    if any(rest):
        yield b"".join(rest)


def data_folder(given: str | None) -> Path | None:
    """Folder of the data sets: `--data-dir`, else `ADMMNET_DATA`, else None (the cache is meant)."""
    folder = given or os.environ.get(ENVIRONMENT)
    return Path(folder).expanduser() if folder else None


def content_digest(path: Path) -> str:
    """sha256 of a file's content, unpacked."""
    found = hashlib.sha256()
    with opened(path) as file:
        while piece := file.read(BLOCK):
            found.update(piece)
    return found.hexdigest()


def located(names: Sequence[str], data_dir: str | None, origin: str, sha256: str | None = None) -> list[Path]:
    """Find the first there is of some paths below the data folder, or all files of the first pattern, which has a "[".

    A file may be packed. One with a `sha256` is downloaded once from the folder `origin` to the cache
    (`$XDG_CACHE_HOME/admmnet`, else `~/.cache/admmnet`), if no data folder is named (by `--data-dir` or
    `ADMMNET_DATA`). A MissingDataError says where the file was expected and what to do.
    """
    named = data_folder(data_dir)
    folder = named or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "admmnet"
    for name in names:
        found: dict[str, Path] = {}
        for packed in _ENDS:
            for path in folder.glob(name + packed) if "[" in name else [folder / f"{name}{packed}"]:
                if path.is_file():
                    found.setdefault(str(path).removesuffix(packed), path)
        if found:
            return [found[path] for path in sorted(found)]
    remedy = f"pass --data-dir DIR (or set {ENVIRONMENT}) with DIR/{names[0]} in it, plain or as .gz, .bz2 or .zip"
    if sha256 is not None and named is None:
        return [_download(origin + PurePath(names[0]).name, sha256, folder / names[0], remedy)]
    wanted = " nor ".join(str(folder / name) for name in names)
    raise MissingDataError(
        f"there is {'no' if len(names) == 1 else 'neither'} {wanted}: get it from {origin}, and {remedy}"
    )


def _download(url: str, sha256: str, target: Path, remedy: str) -> Path:
    import urllib.request  # with it comes ssl: only a download waits for these

    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read(_LARGEST)
    except (OSError, ValueError) as error:  # URLError, HTTPError and time-outs are OSErrors
        raise MissingDataError(f"{target.name} could not be downloaded from {url} ({error}): {remedy}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise MissingDataError(f"{url} has sha256 {digest[:16]}..., expected {sha256[:16]}...: not kept; {remedy}")
    own = target.with_name(f"{target.name}.{os.getpid()}")  # several ranks may do this at once
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        own.write_bytes(content)
        own.replace(target)
    except OSError as error:
        raise RequestError(f"cannot write the cache file {target} ({error.strerror}): {remedy}") from None
    return target
