"""Examples of the pages: every block is carried out as it stands, in order, in an empty folder.

A block behind "`NAME`:" is a file; `bash` and `python` are run; the words and counts of `text` behind them are printed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.doc_pages import PAGES, examples, name

from .test_documented_commands import run_command, run_words
from .warm import SIMPLE

pytestmark = pytest.mark.processes
BLOCK = re.compile(r"(?:`([\w./-]+)`:\n\n)?^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COUNT = re.compile(r"\d+[,;:]?")
NUMBER = re.compile(r"[\d.,:+-]*\d[\dTZ.,:%e+-]*")


def shape(line: str) -> str:
    """A line without its widths, times and other numbers than counts, which no noise and no machine changes."""
    line = re.sub(r"(\d+ min )?[\d.]+ s\b", "# s", line)  # a slow machine takes whole seconds
    return " ".join(word if COUNT.fullmatch(word) else NUMBER.sub("#", word) for word in line.split())


def carry_out(folder: Path, kind: str, body: str) -> str:
    """Run a block; what it prints."""
    lines = re.sub(r" *\\\n *", " ", body).splitlines()
    if kind == "python":
        ends = [run_words(folder, sys.executable, "-W", "error", "-c", body)]
    else:
        ends = [run_command(folder, one) for one in (lines if all(map(SIMPLE.fullmatch, lines)) else [body])]
    assert all(end.code == 0 and "Traceback" not in end.err for end in ends), f"{body}\n{ends}"
    return "".join(end.out + end.err for end in ends)


@pytest.mark.parametrize("path", [path for path in PAGES if examples(path)], ids=name)
def test_the_examples(path: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(examples(path))
    assert {"bash", "text"} <= {kind for _, kind, _ in blocks}
    printed = ""
    for file, kind, body in blocks:
        if file:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(body, encoding="utf-8")
        elif kind in ("bash", "python"):
            printed = carry_out(tmp_path, kind, body)
        else:
            shapes = {shape(line) for line in printed.splitlines()}
            missing = [line for line in body.splitlines() if line.strip() and shape(line) not in shapes]
            assert not missing, f"not printed: {missing}\n{printed}"
