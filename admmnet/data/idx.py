"""IDX files: the big-endian arrays of bytes that MNIST comes in."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from admmnet.data.files import read_bytes
from admmnet.errors import DataError, RequestError

_BYTES = 0x08  # type code of unsigned bytes, the only one of these files


def read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes.

    Parameters
    ----------
    path : Path
        Plain or `.gz`.
    axes : int
        Number of axes the array must have: 3 for images, 1 for labels.

    Returns
    -------
    ndarray of uint8
        Read-only, on the bytes of the file.

    Raises
    ------
    RequestError
        For another type or number of axes, an empty array, or a file that is cut off or too long.
    """
    data = read_bytes(path)
    start = 4 + 4 * axes
    if len(data) < start or data[:4] != bytes((0, 0, _BYTES, axes)):
        raise DataError(
            f"{path} starts with {data[:4].hex()}, expected {bytes((0, 0, _BYTES, axes)).hex()}: it is no IDX file"
            f" of bytes with {axes} {'axes' if axes > 1 else 'axis'}; get the original"
        )
    shape = struct.unpack(f">{axes}I", data[4:start])
    size = int(np.prod([int(n) for n in shape], dtype=object))
    if size == 0 or len(data) - start != size:
        words = " x ".join(map(str, shape))
        raise RequestError(f"{path} holds {len(data) - start} bytes for {words}: get the original file")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)
