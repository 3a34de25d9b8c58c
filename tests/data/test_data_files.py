"""csv, npz and libsvm files: what they become, and what is refused with which words."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data import files
from admmnet.errors import RequestError
from tests.data.conftest import Write, every, refusal

NUMBERS = "a,b,y\n3,4,1\n1,0,-1\n0,2,1\n5,12,-1\n"


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_csv_of_numbers(name: str, write: Write) -> None:
    path = write(name, NUMBERS)
    records = every(path, label="y", test=path, no_intercept=True)
    assert records.feature_names == ("a", "b")
    assert records.preprocessing == "public-bounds"
    np.testing.assert_allclose(records.X_test, [[0.6, 0.8], [1.0, 0.0], [0.0, 1.0], [5 / 13, 12 / 13]], rtol=1e-15)
    np.testing.assert_array_equal(records.y_test, [1, -1, 1, -1])
    np.testing.assert_array_equal(records.shards[0][0], records.X_test)
    with_one = every(path, label="y", test=path)
    np.testing.assert_allclose(with_one.X_test[1], np.array([1, 0, 1]) / np.sqrt(2), rtol=1e-15)


def test_a_quarter_is_drawn_for_testing(write: Write) -> None:
    path = write("t.csv", "a,y\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    records = every(path, 3, label="y")
    assert len(records.y_test) == 10
    assert records.counts == {0: 10, 1: 10, 2: 10}
    assert len(every(path, label="y", test_fraction=0.1).y_test) == 4


def test_quotes_blank_lines_at_the_end_and_other_line_ends(write: Write) -> None:
    plain = every(write("a.csv", NUMBERS), label="y", test=write("a.csv", NUMBERS))
    text = '\ufeff"a", b,y\r\n"3",4,1\r\n1, 0,-1\r\n0,2,1\r\n5,12,-1\r\n\r\n'
    quoted = every(write("b.csv", text), label="y", test=write("b.csv", text))
    np.testing.assert_array_equal(plain.X_test, quoted.X_test)
    unquoted = every(write("c.csv", text.replace('"', "")), label="y", test=write("c.csv", text.replace('"', "")))
    np.testing.assert_array_equal(plain.X_test, unquoted.X_test)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,y\n1,2,1\n1,nan,-1\n", ["t.csv, line 3, column 'b'", "'nan' is not finite"]),
        ("a,b,y\n1,2,1\n-inf,1,-1\n", ["t.csv, line 3, column 'a'", "'-inf' is not finite"]),
        ("a,b,y\n1,2,1\nred,1,-1\n", ["t.csv, line 3, column 'a'", "'red' is no number", "[data.schema]"]),
        ("a,b,y\n1,2,1\n,1,-1\n", ["t.csv, line 3, column 'a'", "'' is no number"]),
        ("a,b,y\n1,2,1\n1,2\n1,2,1\n", ["t.csv, line 3", "2 values, expected 3"]),
        ("a,b,y\n1,2,1\n\n1,2,1\n", ["t.csv, line 3", "0 values, expected 3"]),
        ("a,b,y\n1,2,1\n1,2,3,1\n", ["t.csv, line 3", "4 values, expected 3"]),
        ('a,b,y\n1,2,1\n"1",3,4,1\n', ["t.csv, line 3", "4 values, expected 3"]),
        ('a,b,y\n"1,2,1\n', ["t.csv, line", "quotes"]),
        ("a,b,y\n1,2,1\n1,2,7\n", ["t.csv, line 3, column 'y'", "'7'", "--positive"]),
        ("a,b,y\n1,2,0\n1,2,-1\n", ["t.csv, line 3, column 'y'", "'-1'"]),
        ("a,b,y\n1,2,yes\n", ["t.csv, line 2, column 'y'", "'yes'"]),
        ("a,b,y\n", ["t.csv has a header and no records"]),
        ("a,a,y\n1,2,1\n", ["t.csv, line 1", "'a' twice"]),
        ("a,,y\n1,2,1\n", ["t.csv, line 1", "no name for column 2"]),
        ("y\n1\n", ["t.csv: no column is left besides the label 'y'"]),
        ("a,b\n1,2\n", ["t.csv has no column 'y'; it has 'a', 'b'"]),
        ("", ["t.csv is empty"]),
        ("  \n\n", ["t.csv is empty"]),
    ],
)
def test_csv_refusals(text: str, words: list[str], write: Write) -> None:
    message = refusal(write("t.csv", text), label="y")
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("name", "content", "others", "words"),
    [
        ("t.csv", NUMBERS.encode(), {}, "--label NAME; the header has a, b, y"),
        ("t.csv", b"a,y\n1,1\n\xff,1\n", {"label": "y"}, "t.csv, line 3: not UTF-8"),
        (
            "t.csv",
            b"a,y\n1,1.0\n2,+1\n3,2\n4,3\n",
            {"label": "y", "positive": "1"},
            "undeclared label '3'; the labels are '2' and '1'",
        ),
        ("t.csv", b"a,y\n1,1.0\n2,+1\n", {"label": "y", "positive": "1"}, "every row has the label '1'"),
        ("t.csv.gz", b"a,y\n1,1\n", {"label": "y"}, "t.csv.gz is not a sound gzip file"),
        ("t.csv.gz", b"\x1f\x8b\x08\x00 cut", {"label": "y"}, "t.csv.gz is not a sound gzip file"),
        ("t.libsvm.gz", b"\x1f\x8b\x08\x00 cut", {}, "t.libsvm.gz is not a sound gzip file"),
        ("t.svm", b"1 1:2\n-1 123456789:1\n", {}, "t.svm: width 123456789 is above 100000"),
        (
            "t.svm",
            b"1 1:2\n-1\n1 2:1\n-1 1:1\n",
            {"features": 2, "no_intercept": True},
            "t.svm, line 2: every feature is zero",
        ),
        ("t.npz", b"PK\x03\x04 not really", {}, "t.npz"),
        ("t.npz", b"", {}, "t.npz"),
        ("t.npz", b"\x93NUMPY\x01\x00", {}, "is not a sound npz file"),
    ],
)
def test_files_that_are_refused(name: str, content: bytes, others: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert words in refusal(str(tmp_path / name), **others)


def test_positive_value(write: Write) -> None:
    path = write("t.csv", "a,y\n1,no\n2,yes\n3,yes\n4,no\n")
    records = every(path, label="y", positive="yes", test=path)
    np.testing.assert_array_equal(records.y_test, [-1, 1, 1, -1])
    assert records.preprocessing == "data-dependent"
    assert any("negative label 'no'" in note for note in records.notes)
    declared = every(path, label="y", schema={"labels": ["no", "yes"]}, test=path)
    assert declared.preprocessing == "public-bounds"
    turned = every(path, label="y", positive="no", schema={"labels": ["no", "yes"]}, test=path)
    np.testing.assert_array_equal(turned.y_test, -records.y_test)
    assert "--positive si is none of the declared labels" in refusal(
        path, label="y", positive="si", schema={"labels": ["no", "yes"]}
    )
    assert "no row has the label 'si'" in refusal(path, label="y", positive="si")
    assert "line 3, column 'y': undeclared label 'yes'" in refusal(path, label="y", schema={"labels": ["no", "ja"]})


def test_labels_of_several_spellings(write: Write) -> None:
    spelt = {"labels": {"no": ["no", "No", "0"], "yes": ["Y", "1.0"]}}
    path = write("t.csv", "a,y\n1,No\n2,Y\n3,1\n4,no\n")
    records = every(path, label="y", schema=spelt, test=path)
    np.testing.assert_array_equal(records.y_test, [-1, 1, 1, -1])
    assert (records.labels, records.preprocessing) == (("no", "yes"), "public-bounds")
    turned = every(path, label="y", positive="no", schema=spelt, test=path)
    np.testing.assert_array_equal(turned.y_test, -records.y_test)
    path = write("t.csv", "a,y\n1,No\n2,n\n")
    assert "line 3, column 'y': undeclared label 'n'; the labels are 'no' and 'yes'" in refusal(
        path, label="y", schema=spelt
    )
    for labels, words in (
        ({"no": ["n"]}, "must be [negative, positive]"),
        ({"no": ["n"], "yes": ["n"]}, "holds 'n' twice"),
        ({"no": "n", "yes": ["y"]}, "data.schema.labels.no must be a list of values"),
    ):
        assert words in refusal(path, label="y", schema={"labels": labels})


@pytest.mark.parametrize("name", ["t.libsvm", "t.svm.gz"])
def test_libsvm(name: str, write: Write) -> None:
    path = write(name, "+1 1:3 3:4 # first\n-1\t2:5\n-1\n1 4:2\n")
    records = every(path, features=5, test=path)
    assert records.feature_names == ("x1", "x2", "x3", "x4", "x5", "intercept")
    assert records.preprocessing == "public-bounds"
    raw = np.array([[3, 0, 4, 0, 0, 1], [0, 5, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1], [0, 0, 0, 2, 0, 1]])
    np.testing.assert_allclose(records.X_test, raw / np.linalg.norm(raw, axis=1)[:, None], rtol=1e-15)
    np.testing.assert_array_equal(records.y_test, [1, -1, -1, 1])
    discovered = every(path, test=path)
    assert discovered.X_test.shape == (4, 5)
    assert discovered.preprocessing == "data-dependent"
    assert any("width 4" in note for note in discovered.notes)
    assert every(path, 2, features=5, split="by-column:x4", test=path).counts == {0: 3, 1: 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 1:2\n1 2:x\n", ["t.svm, line 2, index 2", "'x' is no finite number"]),
        ("1 1:2\n\n1 2:nan\n", ["t.svm, line 2", "expected a label"]),
        ("1 1:2\n1\n1 1:1 2:nan\n", ["t.svm, line 3, index 2", "'nan' is no finite number"]),
        ("1 1:2\n1 3:1 2:1\n", ["t.svm, line 2, index 2", "increase"]),
        ("1 1:2\n1 2:1 2:1\n", ["t.svm, line 2, index 2", "increase"]),
        ("1 0:2\n", ["t.svm, line 1, index 0", "start at 1"]),
        ("1 1:2\n1 6:2\n", ["t.svm, line 2, index 6", "above the width 5", "--features"]),
        ("1 1:2\n1 qid:3 1:2\n", ["t.svm, line 2", "expected a label and index:value pairs"]),
        ("1 1:2\n1 1:2:3 4\n", ["t.svm, line 2", "expected a label and index:value pairs"]),
        ("1 1:2\n1 99999999999999999999:2\n", ["t.svm, line 2", "expected a label"]),
        ("1 1:2\n2 1:2\n", ["t.svm, line 2, column 'label'", "'2'"]),
        ("", ["t.svm is empty"]),
    ],
)
def test_libsvm_refusals(text: str, words: list[str], write: Write) -> None:
    message = refusal(write("t.svm", text), features=5)
    assert all(word in message for word in words), message


def test_huge_and_tiny_rows_still_get_norm_one(tmp_path: Path) -> None:
    X = np.array([[1e300, 1e300], [1e-300, 0.0], [3e-200, 4e-200], [1.0, 1.0]])
    np.savez(tmp_path / "t.npz", X=X, y=[1, -1, 1, -1])
    path = str(tmp_path / "t.npz")
    found = every(path, test=path, no_intercept=True).X_test
    np.testing.assert_allclose(found[:3], [[0.5**0.5] * 2, [1, 0], [0.6, 0.8]], rtol=1e-14)


def test_npz(tmp_path: Path) -> None:
    X = np.array([[3, 4], [0, 1], [1, 0], [5, 12]], dtype=np.int16)
    for labels in ([1, 0, 1, 0], [1.0, -1.0, 1.0, -1.0], [True, False, True, False]):
        np.savez(tmp_path / "t.npz", X=X, y=labels)
        records = every(str(tmp_path / "t.npz"), test=str(tmp_path / "t.npz"), no_intercept=True)
        np.testing.assert_array_equal(records.y_test, [1, -1, 1, -1])
        np.testing.assert_allclose(records.X_test[0], [0.6, 0.8])
        assert records.preprocessing == "public-bounds"
    np.savez(tmp_path / "t.npz", X=X, y=["cat", "dog", "cat", "dog"])
    records = every(str(tmp_path / "t.npz"), 2, positive="cat", split="by-column:x1", test_fraction=0.25)
    assert sum(records.counts.values()) == 3


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.ones((2, 2))}, "must hold the arrays X and y, its keys are: X$"),
        ({"X": np.ones(4), "y": np.ones(4)}, r"X must be a numeric \(n, d\) array, got float64 of shape"),
        ({"X": np.array([["a"]]), "y": np.ones(1)}, r"X must be a numeric"),
        ({"X": np.ones((2, 2)), "y": np.ones(3)}, r"y must be 2 numbers or texts, got float64 of shape"),
        ({"X": np.ones((2, 2), dtype=complex), "y": np.ones(2)}, "X must be a numeric"),
        ({"X": np.ones((2, 2), dtype=object), "y": np.ones(2)}, "without objects"),
        ({"X": np.ones((2, 2)), "y": np.array([1.0, np.nan])}, "row 2, column 'y': label 'nan'"),
        ({"X": np.array([[1, 2], [1, np.inf]]), "y": np.ones(2)}, "row 2, column 'x2': inf is not finite"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, r"X of shape \(0, 2\) is empty"),
        ({"X": np.ones((2, 3)), "y": np.ones(2)}, "X has 3 columns, expected 2; correct --features"),
    ],
)
def test_npz_refusals(arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(RequestError, match=rf"t\.npz.*{words}"):
        every(str(tmp_path / "t.npz"), features=2)


@pytest.mark.parametrize(("name", "words"), [("t.npz", "is not a sound npz file"), ("idx.zip", "cannot be unpacked")])
def test_an_encrypted_archive(name: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        for key in ("X", "y")[: 1 if name == "idx.zip" else 2]:
            archive.writestr(f"{key}.npy", "a")
    content = bytearray(path.read_bytes())
    content[6] = content[content.index(b"PK\x01\x02") + 8] = 1  # as if a password were needed
    path.write_bytes(content)
    with pytest.raises(RequestError, match=rf"{name} {words} \(.*X\.npy.* is encrypted"):
        files.read_bytes(path) if name == "idx.zip" else every(str(path))


@pytest.mark.parametrize("name", ["t.csv.gz", "t.svm.gz", "t.npz", "idx.gz", "idx.zip"])
def test_a_packed_file_that_grows_without_bound(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused at a public bound, long before it is whole in memory."""
    monkeypatch.setattr(files, "UNPACKED", 1 << 20)
    path, zeros = tmp_path / name, b"0" * (1 << 22)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(zeros))
    elif name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("idx", zeros)
    else:
        np.savez_compressed(path, X=np.zeros((1 << 19, 1)), y=np.ones(1 << 19))
    with pytest.raises(RequestError, match=r"unpacks to more than 1,0[46].* bytes .*give it unpacked"):
        files.read_bytes(path) if "idx" in name else every(str(path), label="y" if "csv" in name else None)
    monkeypatch.setattr(files, "UNPACKED", 1 << 24)
    if "idx" in name:
        assert files.read_bytes(path) == zeros
