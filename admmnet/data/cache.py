"""Tables of public sets, kept in the user's cache after their first reading: docs/data.md, "What is kept".

Kept is what a reader makes of the files: of columns the distinct texts and a code a row, of numbers the array. They
are encoded anew every time. The name of what is kept is a digest of the files, of all code that reads, and of numpy's
major version, so that neither another file nor another reader is ever served what is old.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from admmnet.data.files import cache_folder
from admmnet.data.table import PLAIN, RawColumn, RawTable, table_of_numbers

Reader = Callable[[Sequence[Path]], RawTable]
_DIGEST = 32
"""Bytes of the sha256 that a file begins with, of the rest."""
_CSR = "data", "indices", "indptr"


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What is kept of a table besides its arrays."""

    names: tuple[str, ...]
    rows: int
    label: str | None
    parts: tuple[int, ...]
    dependent: tuple[str, ...]
    columns: dict[str, tuple[bool | None, tuple[str, ...]]]
    """Whether a column is typed, and its distinct texts; where features are numbers already, of the label alone."""


def read_cached(name: str, paths: Sequence[Path], read: Reader) -> RawTable:
    """Table of the files of a public set, from the cache where it is there, else by ``read``, and then kept.

    What is not whole, or cannot be read or written, is passed over without a word.
    """
    path: Path | None = None
    with suppress(OSError, RuntimeError):  # of no home
        path = _folder() / f"{_key(name, paths)}.npz"
    if path is None:
        return read(paths)
    with suppress(OSError, ValueError, KeyError):  # of msgspec and numpy, too
        return _table(path.read_bytes(), paths, read)
    table = read(paths)
    with suppress(OSError, ValueError):
        _keep(path, _content(table, paths))
    return table


def _folder() -> Path:
    """Folder of the user's own, which nobody else can look into."""
    folder = cache_folder() / "tables"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(folder)
    return folder


def _key(name: str, paths: Sequence[Path]) -> str:
    found = hashlib.sha256(f"{name} {np.__version__.split('.')[0]}".encode() + _readers())
    for path in paths:
        with path.open("rb") as file:
            found.update(path.suffix.encode() + hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


@cache
def _readers() -> bytes:
    """Digest of all code of this package."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.digest()


def _content(table: RawTable, paths: Sequence[Path]) -> bytes:
    """What is kept of a table; ValueError if it has more than is kept."""
    plain = table.spelling == PLAIN and table.unit == 1.0 and table.bound is None
    if table.origin != str(paths[0]) or not plain or table.left_out:
        raise ValueError(table.origin)
    names, arrays = table.names, dict[str, Any]()
    if (X := table.numbers) is not None:
        if table.label is None:
            raise ValueError(table.origin)
        names = (table.label,)
        arrays = {part: getattr(X, part) for part in _CSR} if hasattr(X, "tocsr") else {"X": X}
    columns = {name: table.read(name) for name in names}
    for k, column in enumerate(columns.values()):
        arrays[f"codes{k}"] = column.codes.astype(np.min_scalar_type(len(column.levels)))
    said = {name: (column.typed, column.levels) for name, column in columns.items()}
    kept = _Kept(table.names, table.rows, table.label, table.parts, table.dependent, said)
    file = io.BytesIO()
    np.savez(file, kept=np.frombuffer(msgspec.json.encode(kept), dtype=np.uint8), **arrays)
    return file.getvalue()


def _keep(path: Path, content: bytes) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")  # several ranks may do this at once: they write the same
    try:
        draft.write_bytes(hashlib.sha256(content).digest() + content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _table(content: bytes, paths: Sequence[Path], read: Reader) -> RawTable:
    rest = memoryview(content)[_DIGEST:]
    if hashlib.sha256(rest).digest() != content[:_DIGEST]:
        raise ValueError(paths[0])
    with np.load(io.BytesIO(rest), allow_pickle=False) as file:
        arrays: Mapping[str, NDArray[Any]] = {name: file[name] for name in file.files}
    kept = msgspec.json.decode(arrays["kept"].tobytes(), type=_Kept)

    def column(name: str) -> RawColumn:
        codes, (typed, levels) = arrays[f"codes{list(kept.columns).index(name)}"], kept.columns[name]
        return RawColumn(levels, codes.astype(np.int32), typed)

    def where(row: int) -> str:
        return read(paths).where(row)

    origin = str(paths[0])
    if kept.label is None:
        return RawTable(kept.names, kept.rows, column, where, origin, dependent=kept.dependent, parts=kept.parts)
    X: Any = arrays.get("X")
    if X is None:
        from scipy.sparse import csr_array  # imported here: most sets do without it

        X = csr_array(tuple(arrays[part] for part in _CSR), shape=(kept.rows, len(kept.names) - 1))
    table = table_of_numbers(X, kept.names[1:], kept.label, partial(column, kept.label), where, origin)
    return replace(table, dependent=kept.dependent, parts=kept.parts)
