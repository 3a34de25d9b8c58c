"""Files model.npz that no run has made, by what is wrong with them: a neighbour may send any of them."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np


def _alone(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _archive(packed: int = zipfile.ZIP_STORED, **other: Any) -> bytes:
    """Archive of sound members and others: arrays, or files as they stand, None for none."""
    sound = {"theta": np.ones((3, 4)), "consensus": np.ones(4), "feature_names": np.array(list("abcd"))}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in (sound | other).items():
            if isinstance(array, bytes):
                archive.writestr(name if name.isdecimal() else f"{name}.npy", array, packed)
            elif array is not None:
                archive.writestr(f"{name}.npy", _alone(array))
    return content.getvalue()


def _headed(shape: str, data: bytes = b"", packed: int = zipfile.ZIP_STORED, kind: str = "<f8") -> bytes:
    """Archive whose theta has a header of this shape, which need not be of its data."""
    return _raw(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", data, packed)


def _raw(header: str, data: bytes = b"", packed: int = zipfile.ZIP_STORED) -> bytes:
    length = len(header.encode()).to_bytes(2, "little")
    return _archive(packed, theta=b"\x93NUMPY\x01\x00" + length + header.encode() + data)


WRONG = {
    "empty": b"",
    "no archive": b"PK",
    "one array": _alone(np.ones((3, 4))),
    "strange member": _archive(zipfile.ZIP_STORED, **{"0": b"x"}),
    "missing names": _archive(feature_names=None),
    "many members": _archive(zipfile.ZIP_STORED, **{str(i): b"" for i in range(2000)}),
    "packed": _headed("(32768, 4)", bytes(2**20), zipfile.ZIP_DEFLATED),  # into next to nothing
    "packed by lzma": _headed("(3, 4)", bytes(96), zipfile.ZIP_LZMA),
    "longer than its data": _headed("(268435456, 4)", bytes(96)),
    "shorter than its data": _headed("(3, 4)", bytes(128)),
    "negative length": _headed("(-1, 4)", bytes(96)),
    "no header": _raw("{'descr': ("),
    "deep header": _raw(9000 * "("),
    "texts": _archive(theta=np.full((3, 4), "a")),
    "complex": _archive(theta=np.ones((3, 4), complex)),
    "objects": _headed("(3, 4)", bytes(96), kind="|O"),
    "single floats": _archive(theta=np.ones((3, 4), np.float32)),
    "other byte order": _archive(theta=np.ones((3, 4), ">f8")),
    "no rows": _archive(theta=np.ones((0, 4))),
    "one dimension": _archive(theta=np.ones(3)),
    "texts as the average": _archive(consensus=np.full(4, "a")),
    "numbers as names": _archive(feature_names=np.ones(4)),
    "another average": _archive(consensus=np.full(4, 7.0)),
}
