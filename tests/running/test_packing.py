"""States of agents in one file: every array comes back with its type, shape, order and bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.running.checkpoint.packing import digest, pack, read_archive, unpack, write_archive

STATES = {
    "agent 0": {
        "theta": np.array([0.1, -0.0, np.nan]),
        "count": np.asarray(3),
        "marks": np.array([], dtype=np.str_),
        "word": np.array("ä"),
        "inverse": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "swapped": np.array([1, 2], dtype=">i4"),
        "none": np.empty((0, 4)),
    },
    "agent 1": {"theta": np.array([1.0, 2.0, 3.0]), "count": np.asarray(4), "yes": np.asarray(True)},
    "block 0": {"inverse": np.arange(6.0).reshape(2, 3)},
}


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    index, content = pack(STATES)
    assert len(index) == 9, "arrays that are alike share a line"
    write_archive(tmp_path / "a", {"index": index, "bytes": len(content), "digest": digest(index, content)}, content)
    meta, read = read_archive(tmp_path / "a")
    found = unpack(meta["index"], read)
    assert found.keys() == STATES.keys()
    for owner, state in STATES.items():
        assert found[owner].keys() == state.keys()
        for name, value in state.items():
            own = found[owner][name]
            assert (own.dtype.str, own.shape, own.strides) == (value.dtype.str, value.shape, value.strides)
            assert own.tobytes() == value.tobytes()
            assert own.flags.writeable
    assert read_archive(tmp_path / "a", whole=False) == (meta, b"")


@pytest.mark.parametrize("at", [0, 70, -1])
@pytest.mark.parametrize("cut", [False, True])
def test_every_damage_is_seen(at: int, cut: bool, tmp_path: Path) -> None:
    index, content = pack(STATES)
    path = tmp_path / "a"
    write_archive(path, {"index": index, "bytes": len(content), "digest": digest(index, content)}, content)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(path.read_bytes()[:at] if cut else bytes(data))
    with pytest.raises(RequestError, match="is damaged"):
        read_archive(path)
    if cut:
        with pytest.raises(RequestError, match="is damaged"):
            read_archive(path, whole=False)


@pytest.mark.parametrize("meta", [[], 5, {}, {"bytes": 0}])
def test_a_head_that_is_none_is_damaged(meta: Any, tmp_path: Path) -> None:
    write_archive(tmp_path / "a", meta, b"")
    with pytest.raises(RequestError, match="is damaged"):
        read_archive(tmp_path / "a")


def test_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="agent 0: theta holds objects"):
        pack({"agent 0": {"theta": np.array([None])}})
