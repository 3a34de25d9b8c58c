"""encoding.json and whitening.npy: what is written is read back, and nothing that does not fit together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from admmnet.errors import CheckFailed
from admmnet.holder.encoding import encode_rows
from admmnet.record.encoding import NOTHING, Found, found_in, read_found, write_found
from admmnet.record.folder import npy_bytes
from tests.running.raw_runs import ENCODING, raw

WIDTH = ENCODING.width
A = np.random.default_rng(0).standard_normal((WIDTH, WIDTH))
FOUND = Found(ENCODING, A, "ab" * 32, ("bounds", "shape", "whiten"))


@pytest.mark.parametrize(
    "found",
    [FOUND, replace(FOUND, whitening=None, source="", stages=("bounds",)), Found(None, A, encoding_from="cd" * 32)],
    ids=["all", "encoding", "taken over"],
)
def test_what_is_written_is_read_back(found: Found, tmp_path: Path) -> None:
    write_found(tmp_path, {"label": "y"}, found)
    schema, read = read_found(tmp_path)
    assert (schema, read.text, read.digest) == ({"label": "y"}, found.text, found.digest)
    assert (read.encoding, read.encoding_from, read.stages) == (found.encoding, found.encoding_from, found.stages)
    assert (read.whitening is None) is (found.whitening is None)
    assert read.whitening is None or np.array_equal(read.whitening, A)
    assert found_in(found.text, tmp_path).digest == found.digest


def test_a_folder_without_sums_has_found_nothing(tmp_path: Path) -> None:
    assert read_found(tmp_path) == (None, NOTHING)
    assert (NOTHING.text, bool(NOTHING), bool(Found(stages=("whiten",)))) == ("", False, True)
    (tmp_path / "encoding.json").write_text('{"label": "y"}')
    assert read_found(tmp_path) == ({"label": "y"}, NOTHING)


def test_rows_are_encoded_whitened_and_scaled_to_norm_one() -> None:
    rows, _ = raw(0, 20)
    plain = encode_rows(rows, ENCODING)
    whitened = plain @ A.T
    np.testing.assert_allclose(FOUND.rows(rows), whitened / np.linalg.norm(whitened, axis=1, keepdims=True), rtol=1e-12)
    assert np.array_equal(replace(FOUND, whitening=None).rows(rows), plain)
    digests = {one.digest for one in (FOUND, replace(FOUND, source=""), replace(FOUND, stages=()), Found(ENCODING))}
    assert len(digests) == 4


def measured(**changes: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        table = json.loads((folder / "encoding.json").read_text())
        table["measured"].update(changes)
        (folder / "encoding.json").write_text(json.dumps(table))

    return change


def matrix(array: Any) -> Callable[[Path], object]:
    return lambda folder: write_found(folder, None, replace(FOUND, whitening=np.asarray(array)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: (folder / "encoding.json").write_text("{"), "cannot be read as JSON"),
        (lambda folder: (folder / "encoding.json").write_text("[]"), "must hold a table"),
        (measured(stages=["other"]), "stages"),
        (measured(whitening="0" * 64), "its sha256 is not the one"),
        (lambda folder: (folder / "whitening.npy").write_bytes(npy_bytes(2.0 * A)), "its sha256 is not the one"),
        (lambda folder: (folder / "whitening.npy").unlink(), "cannot be read"),
        (matrix(A[:-1, :-1]), f"has {WIDTH - 1} rows, and the columns have {WIDTH}"),
        (matrix(A[:, :-1]), "must hold"),
        (matrix(A[0]), "must hold"),
        (matrix(A.astype(np.float32)), "must hold"),
        (matrix(np.where(A > 0, np.inf, A)), "must hold"),
    ],
)
def test_what_does_not_fit_together_is_refused(change: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    write_found(tmp_path, None, FOUND)
    change(tmp_path)
    with pytest.raises(CheckFailed, match=told):
        read_found(tmp_path)
