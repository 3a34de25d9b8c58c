"""kddcup99 and mnist: small files in the real formats, and the real ones."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, sets, validate
from admmnet.data.known import DataSet
from admmnet.data.rows import INTERCEPT
from admmnet.data.schema import parse_schema
from admmnet.data.sets.kddcup99 import COLUMNS
from admmnet.errors import RequestError
from tests.data.conftest import Write, below, every
from tests.real_sets import need

# kddcup99

NAMES = (*COLUMNS, "label")
CONNECTION = dict.fromkeys(NAMES, "0") | {"protocol_type": "tcp", "service": "http", "flag": "SF"}


def connection(**changes: str) -> str:
    return ",".join((CONNECTION | {"label": "normal."} | changes).values())


ATTACK = connection(
    label="smurf.", protocol_type="icmp", service="ecr_i", src_bytes="1032", count="511", serror_rate="0.50",
    duration="100000",
)  # fmt: skip


def test_kddcup99_encoding(write: Write) -> None:
    lines = [connection(), ATTACK, connection(service="Z39_50", label="neptune."), connection(logged_in="1")]
    folder = below(write("kddcup99/kddcup.data_10_percent.gz", "\n".join(lines) + "\n"))
    records = every("kddcup99", data_dir=folder, test_fraction=0.5)
    X = np.vstack([records.shards[0][0], records.X_test])
    y = np.concatenate([records.shards[0][1], records.y_test])
    assert X.shape == (4, 123)
    assert sorted(y.tolist()) == [-1, -1, 1, 1]
    assert records.preprocessing == "public-bounds"
    assert len(set(records.feature_names)) == 123
    attack = X[np.flatnonzero(X[:, records.feature_names.index("protocol_type=icmp")])[0]]
    row = {k: v / attack[-1] for k, v in zip(records.feature_names, attack, strict=True) if v != 0}
    assert row == pytest.approx(
        {
            "protocol_type=icmp": 1.0, "service=ecr_i": 1.0, "flag=SF": 1.0, "count": 1.0, "serror_rate": 0.5,
            "src_bytes": math.log1p(1032) / math.log1p(2**32), "duration": 1.0, INTERCEPT: 1.0,
        }
    )  # fmt: skip


def test_kddcup99_files_and_refusals(write: Write) -> None:
    lines = [connection(), ATTACK, connection(), ATTACK]
    folder = below(write("kddcup99/kddcup.data", "\n".join(lines)))
    full = every("kddcup99", data_dir=folder, test_fraction=0.5)
    assert any("the full set" in note for note in full.notes)
    write("kddcup99/kddcup.data_10_percent", "\n".join(lines[:2]))
    tenth = every("kddcup99", data_dir=folder, test_fraction=0.5)
    assert len(tenth.y_test) == 1  # the 10 % file is taken if both are there
    assert not any("the full set" in note for note in tenth.notes)
    for change, words in (
        (connection(service="nfs"), "line 2, column 'service': undeclared category 'nfs'"),
        (connection(label="apache2."), "line 2, column 'label': undeclared label 'apache2.'"),
        (connection(hot="many"), "line 2, column 'hot': 'many' is no number"),
        (connection() + ",1", "line 2: 43 values, expected 42"),
    ):
        write("kddcup99/kddcup.data_10_percent", "\n".join([lines[0], change, lines[1]]))
        with pytest.raises(RequestError, match=words):
            every("kddcup99", data_dir=folder)


def test_kddcup99_itself() -> None:
    folder = need("kddcup99/kddcup.data_10_percent.gz")
    records = every("kddcup99", 2, data_dir=folder, split="by-column:label")
    assert sum(records.counts.values()) + len(records.y_test) == 494_021
    attacks = sum(int(np.sum(y > 0)) for _, y in records.shards.values()) + int(np.sum(records.y_test > 0))
    assert attacks == 396_743
    assert any("145,586" in note for note in records.notes)


# mnist


def idx(array: np.ndarray[Any, Any]) -> bytes:
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.astype(np.uint8).tobytes()


def small_mnist(folder: Path, digits: Sequence[int] = (3, 1, 3, 0), tests: Sequence[int] = (3, 9)) -> str:
    (folder / "mnist").mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for part, labels in (("train", digits), ("t10k", tests)):
        images = rng.integers(0, 256, (len(labels), 2, 3))
        for name, array in (("images-idx3", images), ("labels-idx1", np.array(labels))):
            (folder / "mnist" / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
    return str(folder)


def test_mnist_of_a_digit(tmp_path: Path) -> None:
    folder = small_mnist(tmp_path)
    records = every("mnist:3", data_dir=folder, test="official")
    assert records.name == "mnist:3"
    assert records.feature_names == ("r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2", INTERCEPT)
    np.testing.assert_array_equal(records.shards[0][1], [1, -1, 1, -1])
    np.testing.assert_array_equal(records.y_test, [1, -1])
    assert records.preprocessing == "public-bounds"
    images = np.random.default_rng(0).integers(0, 256, (4, 2, 3)).reshape(4, 6) / 255
    raw = records.shards[0][0] / records.shards[0][0][:, -1:]
    np.testing.assert_allclose(raw[:, :-1], images, rtol=1e-14)
    np.testing.assert_array_equal(every("mnist:9", data_dir=folder, test="official").y_test, [-1, 1])
    mixed = every("mnist:3", data_dir=folder, test_fraction=0.5)  # rows of both parts in one piece
    together = np.vstack([mixed.shards[0][0], mixed.X_test])
    whole = np.vstack([records.shards[0][0], records.X_test])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(whole, axis=0))
    parts = every("mnist:3", 3, data_dir=folder, test="official", split="by-column:digit")
    assert parts.counts == {0: 2, 1: 1, 2: 1}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train-images-idx3", b"\0\0\x0d\x03" + bytes(12), "starts with 00000d03, expected 00000803"),
        ("train-labels-idx1", idx(np.zeros((4, 1, 1))), "starts with 00000803, expected 00000801"),
        ("train-images-idx3", idx(np.zeros((4, 2, 3)))[:-1], "holds 23 bytes for 4 x 2 x 3"),
        ("train-images-idx3", idx(np.zeros((4, 2, 3))) + b"\0", "holds 25 bytes for 4 x 2 x 3"),
        ("train-images-idx3", idx(np.zeros((5, 2, 3))), "is 5 x 2 x 3 and .* has 4 labels"),
        ("t10k-images-idx3", idx(np.zeros((2, 3, 3))), "is 2 x 3 x 3 and"),
        ("t10k-labels-idx1", idx(np.array([1, 12])), "record 2: label 12, expected 0 to 9"),
        ("train-images-idx3", idx(np.zeros((4, 0, 3))), "holds 0 bytes for 4 x 0 x 3"),
        ("train-images-idx3", struct.pack(">4B3I", 0, 0, 8, 3, 2**31, 2**31, 4), "holds 0 bytes for 2147483648"),
    ],
)  # fmt: skip
def test_mnist_refusals(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    folder = small_mnist(tmp_path)
    (tmp_path / "mnist" / f"{name}-ubyte.gz").write_bytes(gzip.compress(content))
    with pytest.raises(RequestError, match=words):
        every("mnist:3", data_dir=folder)


def test_mnist_itself() -> None:
    folder = need("mnist/train-images-idx3-ubyte.gz", "mnist/t10k-images-idx3-ubyte.gz")
    records = every("mnist:5", 2, data_dir=folder, test="official", project=3)
    assert records.counts == {0: 30_000, 1: 30_000}
    assert sum(int(np.sum(y > 0)) for _, y in records.shards.values()) == 5421
    assert len(records.y_test) == 10_000
    assert int(np.sum(records.y_test > 0)) == 892


# all of them


@pytest.mark.parametrize("known", sets.KNOWN.values(), ids=sets.KNOWN)
def test_a_declaration_is_sound(known: DataSet) -> None:
    parse_schema(known.schema)
    files = {path for alternatives in known.files for path in alternatives}
    assert set(known.sha256) <= files
    assert bool(known.origin) == bool(files)
    assert known.public == (known.adapt is None)  # a user's own schema goes with the user's own records
    assert (known.records is None) == (known.train is None)
    assert (known.shown or known.name) in sets.NAMES.split(", ")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"data": "mnist:10"}, "unknown data 'mnist:10': did you mean mnist:1\\? the names are .*mnist:DIGIT"),
        ({"data": "mnist", "task": "binary"}, "'mnist', whose labels are 10 classes: drop --task"),
        *(({"data": name}, f"the set '{name}' is gone: name its file") for name in ("skin", "phishing:uci")),
        ({"data": "ipums:usa.txt"}, "FILE must be an extract in csv form"),
        ({"data": "ipums:a-{agent}.csv"}, "is one extract, without {agent}"),
        ({"data": "kddcup99", "test": "official"}, "it takes no --test, only --test-fraction"),
        ({"data": "adult", "schema": {"label": "x"}}, r"\[data\.schema\] goes with a file.*centre and"),
    ],
)
def test_settings_of_the_sets(others: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        validate(DataSettings(**others))
