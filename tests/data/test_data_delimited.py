"""Files that are read block by block."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from admmnet.data import files
from admmnet.data.files import read_blocks, read_lines
from admmnet.data.readers.delimited import Form, read_texts
from admmnet.errors import RequestError
from tests.data.conftest import Write

BARE = Form(header=False)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "text",
    ["a\nb\nc", "a\nb\n", "\ufeffa\r\n\r\n\nb\r\n", "a\n\n \nb\n\n  \n\n", "\n\na\n", "één\nβ\n", "a" * 50 + "\nb"],
)
def test_blocks_are_the_lines_of_the_file(text: str, size: int, write: Write) -> None:
    path = Path(write("t.txt", text))
    found = [line for block in read_blocks(path, size) for line in block]
    assert found == read_lines(path)
    assert found == text.removeprefix("\ufeff").rstrip().replace("\r\n", "\n").split("\n")


def test_blocks_refuse_what_lines_refuse(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"a\nb\n\xff\nc\n")
    for size in (1, 3, 100):
        with pytest.raises(RequestError, match=r"t\.txt, line 3: not UTF-8"):
            list(read_blocks(path, size))
    path.write_bytes(b"\n \n")
    with pytest.raises(RequestError, match="is empty"):
        list(read_blocks(path))
    cut = tmp_path / "t.gz"
    cut.write_bytes(gzip.compress(b"abc\n" * 1000)[:-20])
    with pytest.raises(RequestError, match="is not a sound gzip file"):
        list(read_blocks(cut))


def test_a_line_without_end(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LINE", 1000)
    assert len(read_lines(Path(write("t.txt", f"{'1' * 1000}\n" * 9)))) == 9
    with pytest.raises(RequestError, match=r"t\.txt has a line of more than 1,000 bytes: give a text file"):
        list(read_blocks(Path(write("t.txt", "1\n" + "1" * 1001)), 100))


def test_a_fault_far_down_names_its_line(write: Write) -> None:
    lines = [f"{k % 7},{k}" for k in range(200_000)]
    lines[190_000] = "1,2,3"
    path = Path(write("t.csv", "\n".join(lines)))
    assert path.stat().st_size > 1 << 20
    with pytest.raises(RequestError, match=r"t\.csv, line 190001: 3 values, expected 2"):
        read_texts([path], ("a", "b"), BARE)


def test_lines_at_the_top_alone_are_no_records(write: Write) -> None:
    for lines, words in ((["|no", "|", "a,1", "|b,2"], ""), (["|no", "a,1", "", "b,2"], "line 3: 0 values")):
        path = Path(write("t.csv", "\n".join(lines)))
        if words:
            with pytest.raises(RequestError, match=words):
                read_texts([path], ("letter", "number"), BARE, skip="|")
        else:
            assert read_texts([path], ("letter", "number"), BARE, skip="|").column("letter").levels == ("a", "|b")


def test_repeated_lines_are_all_there(write: Write) -> None:
    path = Path(write("t.csv", "b,1\na,2\nb,1\nb,1\nc,2\n"))
    table = read_texts([path], ("letter", "number"), BARE)
    letter = table.column("letter")
    assert [letter.levels[code] for code in letter.codes] == ["b", "a", "b", "b", "c"]
    assert table.rows == 5
    assert table.where(4).endswith("t.csv, line 5")
