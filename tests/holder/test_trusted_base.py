"""The list of the trusted base in docs/proofs.md names every file, with its lines; it stays readable in a day."""

from __future__ import annotations

import re

import pytest

from .trusted import ROOT, code_lines, counted

PAGE = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")


def test_lines_of_code_are_counted() -> None:
    text = '"""Doc."""\n\nx = 1  # comment\n# alone\n\n\ndef f():\n    """Doc\n    two."""\n    return [1,\n    2]\n'
    assert code_lines(text) == 4
    assert code_lines("/* C.\n\n   Two. */\n#if 1\nint x; /* beside */\n    /* alone */\n\n#endif\n") == 3


@pytest.mark.parametrize("place", counted())
def test_the_page_lists_every_file(place: str) -> None:
    (row,) = re.findall(rf"^\| {re.escape(place)} \| (.*) \| (\d+) \|$", PAGE, re.MULTILINE)
    listed = {name: int(count) for name, count in re.findall(r"`([\w./]+)` (\d+)", row[0])}
    own = counted()[place]
    assert listed.keys() == own.keys(), "python -m tests.holder.trusted prints the table"
    for name, count in own.items():
        assert count == pytest.approx(listed[name], rel=0.1, abs=10), name


def test_it_can_be_read_in_a_day() -> None:
    assert sum(sum(files.values()) for files in counted().values()) <= 8365
