"""manifest.json: size and sha256 of every file of a finished run folder (docs/ledger.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from admmnet.errors import CheckFailed
from admmnet.forms import encode, read_form
from admmnet.record.file_forms import FileEntry, Manifest

MANIFEST = "manifest.json"
SCHEMA: Literal[3] = 3
FILES = (
    *(
        "config.toml",
        "encoding.json",
        "metrics.csv",
        "model.npz",
        "noise.npy",
        "part.json",
        "summary.json",
        "whitening.npy",
    ),
    *("ledger", "receipts", "checkpoint"),  # of older runs, too
)
"""What a manifest covers, folders with all that is in them; anything else in a run folder was put there by somebody."""


def make_manifest(folder: Path, new: Mapping[Path, bytes]) -> bytes:
    """Canonical bytes of the manifest of a folder, to which files ``new`` are about to be added."""
    files = {path: _entry(path) for path in _covered(folder) if path not in new}
    for path, content in new.items():
        files[path] = FileEntry(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    names = {path.relative_to(folder).as_posix(): entry for path, entry in files.items()}
    return encode(Manifest(schema=SCHEMA, files=dict(sorted(names.items()))), indent=1)


def _entry(path: Path) -> FileEntry:
    """Of a file, which is read a piece at a time."""
    with path.open("rb") as file:
        return FileEntry(sha256=hashlib.file_digest(file, "sha256").hexdigest(), size=file.tell())


def manifest_digest(folder: Path) -> str:
    """sha256 of the manifest in hexadecimal: of every file of a folder that verifies."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def check_manifest(folder: Path) -> None:
    """Hold every file against the manifest; CheckFailed names the first file that is missing, changed, or not in it."""
    path = folder / MANIFEST
    files = read_form(Manifest, path, indent=1).files
    there = {file.relative_to(folder).as_posix(): file for file in _covered(folder)}
    for name, entry in files.items():
        file = there.get(name)
        if file is None:
            raise CheckFailed(f"{folder / name}: is missing, {MANIFEST} lists it")
        if file.is_symlink() or not file.is_file():
            raise CheckFailed(f"{file}: is no plain file")
        found = _entry(file)
        if found.size != entry.size:
            raise CheckFailed(f"{file}: has {found.size} bytes, {entry.size} in {MANIFEST}")
        if found.sha256 != entry.sha256:
            raise CheckFailed(f"{file}: its sha256 is not the one in {MANIFEST}: it was changed")
    for name in sorted(set(there) - set(files)):
        raise CheckFailed(f"{folder / name}: is not in {MANIFEST}: it was put there later")


def _covered(folder: Path) -> Iterator[Path]:
    """Every file, link or whatever else there is in the folder that a manifest covers."""
    for name in FILES:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            yield from (file for file in path.rglob("*") if file.is_symlink() or not file.is_dir())
        elif path.is_symlink() or path.exists():
            yield path
