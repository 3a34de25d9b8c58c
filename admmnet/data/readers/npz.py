"""Arrays X (n, d) and y (n,) of an npz file."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from admmnet.data.files import grows, most_unpacked
from admmnet.data.table import RawTable, Refuse, check_finite, column_of, numbered, refuse, table_of_numbers
from admmnet.errors import DataError, RequestError


def read_npz(path: Path, width: int | None, labelled: bool, refuse: Refuse = refuse) -> RawTable:
    """Read an npz file; the label column is called y, features x1, ..., xd.

    Other keys, types or shapes are refused, and values that are not finite, with row (from 1) and column. Where the
    file is not ``labelled``, y is all zeros.
    """
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise zipfile.BadZipFile("no zip archive")
            if sum(member.file_size for member in zipfile.ZipFile(file).infolist()) > most_unpacked(path):
                raise grows(path)
        with np.load(path, allow_pickle=False) as archive:
            if not ({"X", "y"} if labelled else {"X"}) <= set(archive.files):
                keys, wanted = ", ".join(archive.files) or "none", "arrays X and y" if labelled else "array X"
                raise DataError(f"{path} must hold the {wanted}, its keys are: {keys}")
            X = archive["X"]
            y = archive["y"] if labelled else np.zeros(len(X) if X.ndim else 0)
    except RequestError:  # is a ValueError, too
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # the last: encrypted
        raise DataError(f"{path} is not a sound npz file ({error}): store it anew with numpy.savez") from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or 'it is cut off'}") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}; X must be numeric, y numbers or text, without objects") from None
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"{path}: X must be a numeric (n, d) array, got {X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiubU":
        raise DataError(f"{path}: y must be {X.shape[0]} numbers or texts, got {y.dtype} of shape {y.shape}")
    if 0 in X.shape:
        raise RequestError(f"{path}: X of shape {X.shape} is empty: give at least one record and one feature")
    d = X.shape[1]
    if width not in (None, d):
        raise DataError(f"{path}: X has {d} columns, expected {width}; correct --features or the file")
    rows, names, place = np.asarray(X, dtype=np.float64), numbered(d), f"{path}, row {{}}".format
    check_finite(rows, names, lambda row: place(row + 1), refuse)
    labels = column_of([str(v) for v in (y.astype(np.int8) if y.dtype.kind == "b" else y).tolist()])
    return table_of_numbers(rows, names, "y", lambda: labels, lambda row: place(row + 1), str(path))
