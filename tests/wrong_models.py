"""Files model.npz that no run has made, by what is wrong with them: a neighbour may send any of them."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

_SOUND = {"theta": np.ones((3, 4)), "consensus": np.ones(4), "feature_names": np.array(list("abcd"))}


def _saved(**other: Any) -> bytes:
    content = io.BytesIO()
    np.savez(content, **{name: array for name, array in (_SOUND | other).items() if array is not None})
    return content.getvalue()


def _alone(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _with(member: str, data: bytes, packed: int = zipfile.ZIP_STORED) -> bytes:
    """Archive of the other sound members and this one."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in _SOUND.items():
            if f"{name}.npy" != member:
                archive.writestr(f"{name}.npy", _alone(array))
        archive.writestr(member, data, packed)
    return content.getvalue()


def _many(members: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for i in range(members):
            archive.writestr(f"{i}", b"")
    return content.getvalue()


def _headed(text: str, data: bytes = b"", packed: int = zipfile.ZIP_STORED) -> bytes:
    """Archive whose theta has this header, which need not be of its data."""
    header = text.encode()
    return _with("theta.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data, packed)


def _shaped(shape: str, kind: str = "<f8") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


SHORTEST = 2**20
"""Length of the data that are packed into next to nothing."""
WRONG = {
    "empty": b"",
    "no archive": b"PK",
    "one array": _alone(np.ones((3, 4))),
    "strange member": _with("note", b"x"),
    "missing names": _saved(feature_names=None),
    "many members": _many(2000),
    "packed": _headed(_shaped(f"({SHORTEST // 32}, 4)"), bytes(SHORTEST), zipfile.ZIP_DEFLATED),
    "packed by lzma": _headed(_shaped("(3, 4)"), bytes(96), zipfile.ZIP_LZMA),
    "longer than its data": _headed(_shaped("(268435456, 4)"), bytes(96)),
    "shorter than its data": _headed(_shaped("(3, 4)"), bytes(128)),
    "negative length": _headed(_shaped("(-1, 4)"), bytes(96)),
    "no header": _headed("{'descr': ("),
    "deep header": _headed(9000 * "("),
    "texts": _saved(theta=np.full((3, 4), "a")),
    "complex": _saved(theta=np.ones((3, 4), complex)),
    "objects": _headed(_shaped("(3, 4)", "|O"), bytes(96)),
    "single floats": _saved(theta=np.ones((3, 4), np.float32)),
    "other byte order": _saved(theta=np.ones((3, 4), ">f8")),
    "no rows": _saved(theta=np.ones((0, 4))),
    "one dimension": _saved(theta=np.ones(3)),
    "texts as the average": _saved(consensus=np.full(4, "a")),
    "numbers as names": _saved(feature_names=np.ones(4)),
    "another average": _saved(consensus=np.full(4, 7.0)),
}
