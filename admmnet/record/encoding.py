"""encoding.json and whitening.npy: what sums before the first round have told of the records (docs/ledger.md)."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from msgspec import Struct

from admmnet.data.loading import ENCODING
from admmnet.data.settings import MEASURED
from admmnet.errors import CheckFailed
from admmnet.files import load_json, write_whole
from admmnet.forms import decode, encode
from admmnet.holder.encoding import Column, Encoding, RawRows, encode_rows, to_sphere
from admmnet.privacy.ledger.form import Digest
from admmnet.record.folder import npy_bytes
from admmnet.record.forms import FileForm
from admmnet.types import Matrix, Real

WHITENING = "whitening.npy"
"""File with A, shape (d, d)."""
Stage = Literal["bounds", "shape", "whiten"]


class Measured(FileForm, frozen=True, kw_only=True):
    """The key `measured` of encoding.json: what sums before the first round have told, and rows are made by."""

    stages: list[Stage]
    """sums that are over, void ones included"""
    columns: list[Column] | None = None
    """encoding of raw columns, in the order of the features"""
    omega: Real = 1.0
    """weight of columns of numbers against categories"""
    intercept: bool = True
    """whether a constant follows"""
    whitening: Digest | None = None
    """sha256 of whitening.npy"""
    source: Digest | None = None
    """sha256 of the sum behind whitening.npy, whose last bits differ between processors"""
    encoding_from: Digest | None = None
    """sha256 of the measuring run's manifest.json"""


class Found(Struct, frozen=True):
    """What is known of the records: nothing but totals went into it."""

    encoding: Encoding | None = None
    """Of raw records; None where they came encoded."""
    whitening: Matrix | None = None
    """A, shape (d, d)."""
    source: str = ""
    """sha256 of the total that A was made from: on other processors its last bits may differ."""
    stages: tuple[str, ...] = ()
    """Those that are over, void ones included."""
    encoding_from: str = ""
    """sha256 of the manifest of the run from which it was taken over; "" where it was measured."""

    def __bool__(self) -> bool:
        """Whether there is anything to say."""
        return self.encoding is not None or self.whitening is not None or bool(self.stages)

    @property
    def digest(self) -> str:
        """sha256 of the encoding, which all agents must share."""
        encoding = "" if self.encoding is None else self.encoding.digest
        return hashlib.sha256(f"{encoding} {self.source} {self.stages}".encode()).hexdigest()

    @property
    def text(self) -> str:
        """The part ``measured`` of encoding.json, which names A by its digest; "" where there is nothing to say."""
        return encode(_form(self)).decode() if self else ""

    def rows(self, X: Any) -> Any:
        """Rows of norm 1 of records that no holder has."""
        if isinstance(X, RawRows) and self.encoding is not None:
            X = encode_rows(X, self.encoding)
        return X if self.whitening is None else to_sphere(X @ self.whitening.T)


NOTHING = Found()


def write_found(folder: Path, schema: dict[str, Any] | None, found: Found) -> None:
    """Write both files so that they are there whole, and last; RunError if the disk refuses.

    ``schema`` is the table by which the file of records was read, where something was read from it.
    """
    files = {} if found.whitening is None else {folder / WHITENING: npy_bytes(found.whitening)}
    write_whole(files | {folder / ENCODING: encode((schema or {}) | {MEASURED: _form(found)}, indent=2)})


def read_found(folder: Path) -> tuple[dict[str, Any] | None, Found]:
    """Return the schema that encoding.json holds, None for none, and what was measured.

    CheckFailed if a file is missing, damaged, or not the one that the other names.
    """
    path = folder / ENCODING
    try:
        table = load_json(path.read_bytes())
    except FileNotFoundError:
        return None, NOTHING
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{path} cannot be read as JSON ({error})") from None
    if not isinstance(table, dict):
        raise CheckFailed(f"{path} must hold a table, got {table!r:.40}")
    if MEASURED not in table:
        return table, NOTHING
    found = found_in(encode(table.pop(MEASURED)).decode(), folder)
    return table or None, found


def found_in(text: str, folder: Path) -> Found:
    """Return what ``Found.text`` says, with A from the file of the folder; CheckFailed as ``read_found``."""
    form = decode(Measured, text.encode(), str(folder / ENCODING))
    encoding = None
    if form.columns is not None:
        encoding = Encoding(tuple(form.columns), form.omega, form.intercept)
    whitening = None if form.whitening is None else _matrix(folder / WHITENING, form.whitening)
    if whitening is not None and encoding is not None and len(whitening) != encoding.width:
        raise CheckFailed(f"{folder / WHITENING}: has {len(whitening)} rows, and the columns have {encoding.width}")
    return Found(encoding, whitening, form.source or "", tuple(form.stages), form.encoding_from or "")


def _form(found: Found) -> Measured:
    A, own = found.whitening, {} if found.encoding is None else vars(found.encoding)
    return Measured(
        **own and {**own, "omega": float(own["omega"])},
        stages=cast(list[Stage], found.stages),
        whitening=None if A is None else hashlib.sha256(npy_bytes(A)).hexdigest(),
        source=found.source or None,
        encoding_from=found.encoding_from or None,
    )


def _matrix(path: Path, digest: str) -> Matrix:
    """A, held against its digest."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise CheckFailed(f"{path}: its sha256 is not the one in {ENCODING}: it was changed")
        A: Matrix = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CheckFailed(f"{path}: cannot be read: {error}") from None
    if A.dtype != np.float64 or A.ndim != 2 or A.shape[0] != A.shape[1] or not np.isfinite(A).all():
        raise CheckFailed(f"{path} ({A.dtype} {A.shape}) must hold (d, d) finite numbers")
    return A
