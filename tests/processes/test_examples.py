"""Examples of the pages: every block is carried out as it stands, in order, in an empty folder.

A block behind "`NAME`:" is a file; `bash` and `python` are run; the words and counts of `text` behind them are printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.doc_pages import PAGES, ROOT, examples, name

from .warm import SIMPLE, run_line

pytestmark = pytest.mark.processes
DEADLINE = 120.0
"""Seconds that a block may take; most take two."""
BLOCK = re.compile(r"(?:`([\w./-]+)`:\n\n)?^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COUNT = re.compile(r"\d+[,;:]?")
RUNNERS = {"bash": ("bash", "-euo", "pipefail", "-c"), "python": (sys.executable, "-W", "error", "-c")}


class Block(NamedTuple):
    """A block of a page: the file that it is, or what runs it."""

    file: str
    kind: str
    body: str


def blocks(page: str) -> Iterator[Block]:
    return (Block(*match) for match in BLOCK.findall(page))


def shape(line: str) -> str:
    """A line without its widths, times and other numbers than counts, which no noise and no machine changes."""
    number = re.compile(r"[\d.,:+-]*\d[\dTZ.,:%e+-]*")
    line = re.sub(r"(\d+ min )?[\d.]+ s\b", "# s", line)  # a slow machine takes whole seconds
    return " ".join(word if COUNT.fullmatch(word) else number.sub("#", word) for word in line.split())


def carry_out(page: str, folder: Path) -> None:
    """Run a page.

    Raises
    ------
    AssertionError
        If a command fails, or does not print what the page says.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    printed = ""
    for file, kind, body in blocks(page):
        if file:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(body, encoding="utf-8")
        elif kind in RUNNERS:
            lines = re.sub(r" *\\\n *", " ", body).splitlines()
            if all(map(SIMPLE.fullmatch, lines)):
                ended = [run_line(line, os.environ | own, folder, DEADLINE) for line in lines]
            else:
                done = subprocess.run(
                    [*RUNNERS[kind], body],
                    cwd=folder,
                    env=os.environ | own,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=DEADLINE,
                    check=False,
                )
                ended = [(done.returncode, done.stdout, done.stderr)]
            assert all(code == 0 and "Traceback" not in err for code, _, err in ended), f"{body}\n{ended}"
            printed = "".join(out + err for _, out, err in ended)
        else:
            shapes = {shape(line) for line in printed.splitlines()}
            missing = [line for line in body.splitlines() if line.strip() and shape(line) not in shapes]
            assert not missing, f"not printed: {missing}\n{printed}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", [path for path in PAGES if examples(path)], ids=name)
def test_the_examples(path: Path, tmp_path: Path) -> None:
    page = examples(path)
    assert {"bash", "text"} <= {block.kind for block in blocks(page)}
    carry_out(page, tmp_path)
