"""Many small states in one archive of few arrays, without pickle: equal shapes are stacked."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.errors import RequestError
from admmnet.files import drafted, load_json
from admmnet.running.checkpoint.state import Array, State


def pack(states: Mapping[str, State]) -> tuple[list[list[Any]], dict[str, Array]]:
    """Stack arrays of one name, type, shape and order; return their index and the stacks.

    Raises
    ------
    TypeError
        If an array holds objects, which numpy would pickle.
    """
    piles: dict[tuple[str, str, tuple[int, ...], bool], list[str]] = {}
    for owner, state in states.items():
        for name, value in state.items():
            if value.dtype.hasobject:
                raise TypeError(f"{owner}: {name} holds objects")
            fortran = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
            piles.setdefault((name, value.dtype.str, value.shape, fortran), []).append(owner)
    index: list[list[Any]] = []
    stacks: dict[str, Array] = {}
    for number, ((name, _, _, fortran), owners) in enumerate(piles.items()):
        # an array's order in memory decides the last bits of products with it
        parts = [states[owner][name].T if fortran else states[owner][name] for owner in owners]
        stacks[str(number)] = np.stack(parts)
        index.append([name, fortran, owners])
    return index, stacks


def unpack(index: list[list[Any]], stacks: Mapping[str, Array]) -> dict[str, State]:
    """Undo ``pack``; owners without arrays are not there."""
    states: dict[str, State] = {}
    for number, (name, fortran, owners) in enumerate(index):
        for owner, value in zip(owners, stacks[str(number)], strict=True):
            own = np.array(value)
            states.setdefault(owner, {})[name] = own.T if fortran else own
    return states


def write_archive(path: Path, meta: Mapping[str, Any], stacks: Mapping[str, Array]) -> None:
    """Write an archive so that it is there whole, and lasts, or not at all."""
    text = np.frombuffer(json.dumps(meta, allow_nan=False).encode(), dtype=np.uint8)
    with drafted(path) as draft, draft.open("wb") as file:
        np.savez(file, meta=text, **dict(stacks))  # type: ignore[arg-type]  # names are digits
        file.flush()
        os.fsync(file.fileno())


def read_archive(path: Path, *, whole: bool = True) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read an archive, or its meta data alone; RequestError if it is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            meta = load_json(archive["meta"].tobytes())
            if not isinstance(meta, dict):
                raise ValueError("no table")
            names = [name for name in archive.files if name != "meta"] if whole else []
            return meta, {name: archive[name] for name in names}
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        TypeError,
        NotImplementedError,  # of zipfile: a version or a compression that it does not know
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> RequestError:
    """What to say of a checkpoint that is not as it was written."""
    return RequestError(
        f"the checkpoint {path} is damaged ({error!s:.200}): remove its folder {path.parent} to resume from the "
        "one before it, or run anew"
    )


def digest(index: Any, stacks: Mapping[str, Array]) -> str:
    """sha256 of packed states."""
    said = hashlib.sha256(json.dumps(index).encode())
    for name, stack in sorted(stacks.items()):
        said.update(f"{name} {stack.dtype.str} {stack.shape} ".encode() + stack.tobytes())
    return said.hexdigest()
