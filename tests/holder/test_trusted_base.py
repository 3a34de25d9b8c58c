"""The list of the trusted base in docs/proofs.md names every file, with lines by folder; it is read in a day."""

from __future__ import annotations

import re

import pytest

from .trusted import FOLDERS, ROOT, counted, row

PAGE = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", [f"{folder}/" for folder in FOLDERS])
def test_the_page_lists_every_file(folder: str) -> None:
    (listed,) = re.findall(rf"^\| `{re.escape(folder)}` \| (.*) \| (\d+) \|$", PAGE, re.MULTILINE)
    files, lines = row(folder)
    assert listed[0] == files, "python -m tests.holder.trusted prints the table"
    assert lines == pytest.approx(int(listed[1]), rel=0.1, abs=10)


def test_it_can_be_read_in_a_day() -> None:
    assert sum(sum(files.values()) for files in counted().values()) <= 6700
