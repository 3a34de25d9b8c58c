"""The list of the trusted base in docs/proofs.md names every file, with lines by folder; it is read in a day."""

from __future__ import annotations

import re

import pytest

from .trusted import FOLDERS, ROOT, code_lines, counted, row

PAGE = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")


def test_lines_of_code_are_counted() -> None:
    text = '"""Doc."""\n\nx = 1  # comment\n# alone\n\n\ndef f():\n    """Doc\n    two."""\n    return [1,\n    2]\n'
    assert code_lines(text) == 4
    assert code_lines("/* C.\n\n   Two. */\n#if 1\nint x; /* beside */\n    /* alone */\n\n#endif\n") == 3


@pytest.mark.parametrize("folder", [f"{folder}/" for folder in FOLDERS])
def test_the_page_lists_every_file(folder: str) -> None:
    (listed,) = re.findall(rf"^\| `{re.escape(folder)}` \| (.*) \| (\d+) \|$", PAGE, re.MULTILINE)
    files, lines = row(folder)
    assert listed[0] == files, "python -m tests.holder.trusted prints the table"
    assert lines == pytest.approx(int(listed[1]), rel=0.1, abs=10)


def test_it_can_be_read_in_a_day() -> None:
    assert sum(sum(files.values()) for files in counted().values()) <= 7290
