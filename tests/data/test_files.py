"""csv, libsvm, npz and parquet files, plain or packed: what they become, and what is refused with which words."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from admmnet.data import DataSettings, files, load
from admmnet.data.files import located, read_blocks
from admmnet.data.readers.delimited import read_texts
from admmnet.errors import RequestError
from tests.data.conftest import NUMBER, WARD, Write, every, refusal

X = np.array([[3.0, 4.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 2.0], [5.0, 12.0, 1.0]])
Y = np.array([1, -1, 1, -1])
UNIT = X / np.linalg.norm(X, axis=1)[:, None]


def stored(folder: Path, form: str) -> str:
    """The same four records in a file of every form."""
    path = folder / f"t{form}"
    lines = [",".join(f"{v:g}" for v in [*row, y]) for row, y in zip(X, Y, strict=True)]
    if form == ".npz":
        np.savez(path, X=X.astype(np.float32), y=Y > 0)
    elif form == ".parquet":
        pq.write_table(pa.table({**{f"x{k + 1}": X[:, k] for k in range(3)}, "y": Y}), path)
    elif form == ".svm":
        dump_svmlight_file(X, Y, str(path), zero_based=False)
    else:
        text = "\n".join(["x1,x2,x3,y", *lines]).encode()
        path.write_bytes(gzip.compress(text) if form.endswith("gz") else text.replace(b",", b"\t"))
    return str(path)


def read_lines(path: Path) -> list[str]:
    return [line for block in read_blocks(path) for line in block]


@pytest.mark.parametrize("form", [".csv.gz", ".tsv", ".npz", ".svm", ".parquet"])
def test_the_same_records_in_every_form(form: str, tmp_path: Path) -> None:
    path = stored(tmp_path, form)
    how: dict[str, Any] = {"features": 3} if form in (".npz", ".svm") else {"label": "y"}
    records = every(path, test=path, no_intercept=True, **how)
    assert (records.feature_names, records.preprocessing) == (("x1", "x2", "x3"), "public-bounds")
    np.testing.assert_allclose(records.X_test, UNIT, rtol=1e-7 if form == ".npz" else 1e-15)
    np.testing.assert_array_equal(records.y_test, Y)
    np.testing.assert_array_equal(records.shards[0][0], records.X_test)
    longer = np.column_stack([X, np.ones(4)])
    np.testing.assert_allclose(every(path, test=path, **how).X_test * np.linalg.norm(longer, axis=1)[:, None], longer)
    by_column = every(path, 2, split="by-column:x3", test=path, **how)
    assert by_column.counts == {0: 2, 1: 2}


def test_the_width_of_a_libsvm_file_is_read_if_it_is_not_declared(write: Write) -> None:
    path = write("t.libsvm", "+1 1:3 3:4 # first\n-1\t2:5\n-1\n1 4:2\n")
    assert every(path, features=6, test=path).X_test.shape == (4, 7)
    found = every(path, test=path)
    assert (found.X_test.shape, found.preprocessing) == ((4, 5), "data-dependent")
    assert any("width 4" in note for note in found.notes)


def test_quotes_blank_lines_at_the_end_and_other_line_ends(write: Write) -> None:
    plain = write("a.csv", "a,b,y\n3,4,1\n1,0,-1\n5,12,-1\n")
    text = '\ufeff"a", b,y\r\n"3",4,1\r\n1, 0,-1\r\n5,12,-1\r\n\r\n'
    for name, other in (("b.csv", text), ("c.csv", text.replace('"', ""))):
        path = write(name, other)
        found, expected = every(path, label="y", test=path), every(plain, label="y", test=plain)
        np.testing.assert_array_equal(found.X_test, expected.X_test)
        assert found.feature_names == expected.feature_names


def npz(**arrays: Any) -> bytes:
    """File of a feature matrix of ones and two labels, but for what is said."""
    held = io.BytesIO()
    np.savez(held, **{"X": np.ones((2, 2)), "y": np.ones(2)} | arrays)
    return held.getvalue()


REFUSED: list[tuple[str, str | bytes, str]] = [
    ("t.csv", "a,b,y\n1,2,1\n1,nan,-1\n", "line 3, column 'b': 'nan' is not finite"),
    ("t.csv", "a,b,y\n1,2,1\n1,2,1,1\n", "line 3: 4 values, expected 3"),
    ("t.csv", "a,b,y\n1,2,1\n\n1,2,0\n", "line 3: 0 values, expected 3"),
    ("t.csv", 'a,b,y\n1,2,1\n"1",3,4,1\n', "line 3: 4 values, expected 3"),
    ("t.csv", 'a,b,y\n"1\n",2,1\n1,red,0\n', "line 4, column 'b': 'red' is no number"),
    ("t.csv", 'a,b,y\n"1,2,1\n', "mend the quotes"),
    ("t.csv", "a,b,y\n1,2,1\n1,2,7\n", "line 3, column 'y': label '7'; labels must be"),
    ("t.csv", "a,b,y\n1,2,0\n1,2,-1\n", "line 3, column 'y': label '-1'"),
    ("t.csv", "a,b,y\n", "t.csv has a header and no records"),
    ("t.csv", "a,a,y\n1,2,1\n", "line 1: the header holds column 'a' twice"),
    ("t.csv", ",b,y\n1,2,1\n", "no name for column 1 (row numbers of pandas?"),
    ("t.csv", "y\n1\n", "t.csv: no column is left besides the label 'y'"),
    ("t.csv", "a,b\n1,2\n", "t.csv has no column 'y'; it has 'a', 'b'"),
    ("t.csv", "  \n\n", "t.csv is empty"),
    ("t.csv", "a;b;y\n1;2;1\n", "line 1 has no commas but 2 semicolons: give --separator ';'"),
    ("t.csv", "a\tb\ty\n1\t2\t1\n", "line 1 has no commas but 2 tabs: give --separator tab"),
    ("t.csv", "sep=;\na;y\n1;1\n", "line 1 is 'sep=;', which only spreadsheets read: remove that line"),
    ("t.csv", "39,7.5,1\n41,2,0\n", "line 1 looks like a record, as it holds the number 39: write a line"),
    ("t.csv", "A,2024-01-01,yes\nB,2024-01-02,no\n", "as it holds the date 2024-01-01"),
    ("t.csv", "A,yes\nA,yes\nB,no\n", "as it holds what line 2 holds"),
    ("t.csv", "A,yes\nB,no\nA,no\nB,yes\n", "as it holds nothing that does not occur again below"),
    ("t.csv", b"a,y\n1,1\n\xff,1\n", "t.csv, line 3: not UTF-8"),
    ("t.parquet", "PAR1 no such thing", "t.parquet is not a sound parquet file"),
    ("t.svm", "1 1:2\n1 2:x\n", "line 2, index 2: 'x' is no finite number"),
    ("t.svm", "1 1:2\n1\n1 1:1 2:nan\n", "line 3, index 2: 'nan' is no finite number"),
    ("t.svm", "1 1:2\n1 2:1 2:1\n", "line 2, index 2: indices"),
    ("t.svm", "1 0:2\n", "line 1, index 0: indices must start at 1"),
    ("t.svm", "1 1:2\n1 6:2\n", "line 2, index 6: above the width 2; raise --features"),
    ("t.svm", "1 1:2\n1 99999999999999999999:2\n", "line 2: expected"),
    ("t.svm", "1 1:2\n-1\n", "t.svm, line 2: every feature is zero"),
    ("t.npz", npz(X=np.ones(4)), "X must be a numeric (n, d) array, got float64 of shape"),
    ("t.npz", npz(X=np.array([["a"]])), "X must be a numeric"),
    ("t.npz", npz(X=np.ones((2, 2), dtype=object)), "without objects"),
    ("t.npz", npz(y=np.ones(3)), "y must be 2 numbers or texts, got float64 of shape"),
    ("t.npz", npz(y=np.array([1.0, np.nan])), "row 2, column 'y': label 'nan'"),
    ("t.npz", npz(X=np.array([[1, 2], [1, np.inf]])), "row 2, column 'x2': inf is not finite"),
    ("t.npz", npz(X=np.ones((0, 2)), y=np.ones(0)), "X of shape (0, 2) is empty"),
    ("t.npz", npz(X=np.ones((2, 3))), "X has 3 columns, expected 2; correct --features"),
    ("t.npz", b"PK\x03\x04 not really", "is not a sound npz file"),
]


@pytest.mark.parametrize(("name", "content", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_files_that_are_refused(name: str, content: str | bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    how: dict[str, Any] = {"label": "y"} if "csv" in name or "parquet" in name else {"features": 2}
    message = refusal(str(tmp_path / name), no_intercept=True, no_test=True, **how)
    assert words in message
    assert name in message


def test_what_cannot_be_told_of_a_file(write: Write, tmp_path: Path) -> None:
    assert "holds no index:value pair" in refusal(write("t.svm", "1\n"))
    assert "t.svm: width 123456789 is above 100000" in refusal(write("t.svm", "1 1:2\n-1 123456789:1\n"))
    np.savez(tmp_path / "t.npz", X=np.ones((2, 2)))
    assert "must hold the arrays X and y, its keys are: X" in refusal(str(tmp_path / "t.npz"))


def test_cells_of_parquet_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "p.parquet")
    cells = {
        "n": pa.array([1, None, 3], pa.int32()),
        "x": [0.5, float("nan"), 2.0],
        "w": pa.array(["A", "B", None]).dictionary_encode(),
        "t": [True, False, None],
        "d": [datetime.date(2024, 1, 1)] * 3,
        "l": [[1], [2], [3]],
        "y": [1, 0, 1],
    }
    pq.write_table(pa.table(cells), path)
    columns = {
        "n": NUMBER | {"missing": "indicator"},
        "x": NUMBER | {"missing": 0},
        "w": WARD | {"missing": "B"},
        "t": {"kind": "categorical", "categories": ["True", "False"], "missing": "indicator"},
    }
    schema = {"label": "y", "columns": columns, "drop": ["d", "l"]}
    found = load(DataSettings(data=path, no_test=True, schema=schema), 1, [0]).shards[0][0]
    rows: Any = [[0.1, 0, 0.05, 1, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0, 1, 0], [0.3, 0, 0.2, 0, 1, 0, 0, 1]]
    np.testing.assert_allclose(found[:, :-1] / found[:, -1:], rows, rtol=1e-15)
    lists = schema | {"drop": ["d"], "columns": columns | {"l": NUMBER}}
    assert "p.parquet, column 'l' holds list<" in refusal(path, schema=lists)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'admmnet[frames]'" in refusal(path, label="y")


# blocks and packed files


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "text", ["a\nb\nc", "\ufeffa\r\n\r\n\nb\r\n", "a\n\n \nb\n\n  \n\n", "\n\na\n", "één\nβ\n", "a" * 50 + "\nb"]
)
def test_blocks_are_the_lines_of_the_file(text: str, size: int, write: Write) -> None:
    path = Path(write("t.txt", text))
    found = [line for block in read_blocks(path, size) for line in block]
    assert found == read_lines(path)
    assert found == text.removeprefix("\ufeff").rstrip().replace("\r\n", "\n").split("\n")


def test_blocks_refuse_what_lines_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"a\nb\n\xff\nc\n")
    for size in (1, 3, 100):
        with pytest.raises(RequestError, match=r"t\.txt, line 3: not UTF-8"):
            list(read_blocks(path, size))
    monkeypatch.setattr(files, "LINE", 1000)
    path.write_text(f"{'1' * 1000}\n" * 9)
    assert len(read_lines(path)) == 9
    path.write_text("1\n" + "1" * 1001)
    with pytest.raises(RequestError, match=r"t\.txt has a line of more than 1,000 bytes"):
        list(read_blocks(path, 100))


def test_a_fault_far_down_names_its_line_and_lines_at_the_top_may_be_no_records(write: Write) -> None:
    lines = [f"{k % 7},{k}" for k in range(200_000)]
    lines[190_000] = "1,2,3"
    path = Path(write("t.csv", "\n".join(lines)))
    assert path.stat().st_size > 1 << 20
    with pytest.raises(RequestError, match=r"t\.csv, line 190001: 3 values, expected 2"):
        read_texts(path, ("a", "b"), header=False)
    top = Path(write("u.csv", "|no\n|\nb,1\n|b,2\nb,1\n"))
    table = read_texts(top, ("letter", "number"), header=False, skip="|")
    letter = table.column("letter")
    assert [letter.levels[code] for code in letter.codes] == ["b", "|b", "b"]
    assert table.where(2).endswith("u.csv, line 5")


def zipped(content: bytes, *names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("t.txt",):
            archive.writestr(name, content)
    return held.getvalue()


PACKED: dict[str, Any] = {"gz": ("gzip", gzip.compress), "bz2": ("bzip2", bz2.compress), "zip": ("zip", zipped)}


@pytest.mark.parametrize("kind", PACKED)
def test_packed_files(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the plain ones; one that grows is refused at a public bound, long before it is whole in memory."""
    path, (word, pack) = tmp_path / f"t.txt.{kind}", PACKED[kind]
    path.write_bytes(pack(b"a\nb\n" * 30))
    assert read_lines(path) == ["a", "b"] * 30
    assert located(["t.txt"], str(tmp_path), "nowhere") == [path]
    for content in (b"PK no zip", path.read_bytes()[:-12]):
        path.write_bytes(content)
        with pytest.raises(RequestError, match=f"is not a sound {word} file"):
            read_lines(path)
    zeros = b"0" * (1 << 22)
    path.write_bytes(pack(zeros))
    monkeypatch.setattr(files, "UNPACKED", 1 << 20)
    with pytest.raises(RequestError, match=r"unpacks to more than 1,0[46].* bytes .*give it unpacked"):
        files.read_bytes(path)
    monkeypatch.setattr(files, "UNPACKED", 1 << 24)
    assert files.read_bytes(path) == zeros


def test_archives_that_grow_are_encrypted_or_hold_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npz, other = tmp_path / "t.npz", tmp_path / "t.zip"
    np.savez_compressed(npz, X=np.zeros((1 << 19, 1)), y=np.ones(1 << 19))
    monkeypatch.setattr(files, "UNPACKED", 1 << 20)
    assert "t.npz unpacks to more than 1,0" in refusal(str(npz))
    secret = bytearray(zipped(b"a", "X.npy", "y.npy"))
    secret[6] = secret[secret.index(b"PK\x01\x02") + 8] = 1  # as if a password were needed
    npz.write_bytes(secret)
    assert "is not a sound npz file (" in refusal(str(npz))
    assert "is encrypted" in refusal(str(npz))
    secret = bytearray(zipped(b"a"))
    secret[6] = secret[secret.index(b"PK\x01\x02") + 8] = 1
    for content, words in (
        (secret, r"cannot be unpacked .* is encrypted"),
        (zipped(b"a", "one", "two"), "holds 2 files"),
    ):
        other.write_bytes(content)
        with pytest.raises(RequestError, match=words):
            files.read_bytes(other)
