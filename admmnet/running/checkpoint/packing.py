"""Many small states in one file, without pickle: a hash, a line of JSON, and the bytes of all arrays behind it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from admmnet.errors import RequestError
from admmnet.files import drafted, load_json
from admmnet.running.checkpoint.state import State

Index: TypeAlias = list[list[Any]]
"""Of arrays that are alike: name, whether in Fortran order, type, shape, and their owners in order."""


def pack(states: Mapping[str, State]) -> tuple[Index, bytes]:
    """Index of all arrays of some states, and their bytes; TypeError if an array holds objects."""
    piles: dict[tuple[str, bool, str, tuple[int, ...]], tuple[list[str], list[bytes]]] = {}
    for owner, state in states.items():
        for name, value in state.items():
            if value.dtype.hasobject:
                raise TypeError(f"{owner}: {name} holds objects")
            # an array's order in memory decides the last bits of products with it
            fortran = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
            stored = value.T if fortran else value
            owners, parts = piles.setdefault((name, fortran, stored.dtype.str, stored.shape), ([], []))
            owners.append(owner)
            parts.append(stored.tobytes())
    index = [[*key, owners] for key, (owners, _) in piles.items()]
    return index, b"".join([part for _, parts in piles.values() for part in parts])


def unpack(index: Index, content: bytes) -> dict[str, State]:
    """Undo ``pack``; owners without arrays are not there."""
    states: dict[str, State] = {}
    place = 0
    for name, fortran, kind, shape, owners in index:
        dtype = np.dtype(kind)
        for owner in owners:
            own = np.ndarray(shape, dtype, content, place).copy()
            states.setdefault(owner, {})[name] = own.T if fortran else own
            place += math.prod(shape) * dtype.itemsize
    return states


def write_archive(path: Path, meta: Mapping[str, Any], content: bytes) -> None:
    """Write an archive so that it is there whole, and lasts, or not at all."""
    head = json.dumps(meta, allow_nan=False).encode()
    with drafted(path) as draft, draft.open("wb") as file:
        file.write(hashlib.sha256(head).hexdigest().encode() + b"\n" + head + b"\n" + content)
        file.flush()
        os.fsync(file.fileno())


def read_archive(path: Path, *, whole: bool = True) -> tuple[dict[str, Any], bytes]:
    """Read an archive, or its meta data alone; RequestError if it is damaged, or an older program's."""
    if path.suffix == ".npz":
        raise RequestError(f"the checkpoint {path} is another version's: resume with that one, or run anew")
    try:
        with path.open("rb") as file:
            said, head = file.readline().strip(), file.readline().removesuffix(b"\n")
            if said != hashlib.sha256(head).hexdigest().encode():
                raise ValueError("its first lines are not those that were written")
            meta: dict[str, Any] = load_json(head)
            if os.fstat(file.fileno()).st_size - file.tell() != meta["bytes"]:
                raise ValueError("it has another length than was written")
            content = file.read() if whole else b""
        if whole and meta["digest"] != digest(meta["index"], content):
            raise ValueError("its states are not those that were written")
        return meta, content
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from None


def digest(index: Index, content: bytes) -> str:
    """sha256 of packed states."""
    return hashlib.sha256(json.dumps(index).encode() + content).hexdigest()


def damaged(path: Path, error: Exception) -> RequestError:
    """What to say of a checkpoint that is not as it was written."""
    return RequestError(
        f"the checkpoint {path} is damaged ({error!s:.200}): remove its folder {path.parent} to resume from the "
        "one before it, or run anew"
    )
