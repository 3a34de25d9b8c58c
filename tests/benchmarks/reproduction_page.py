"""Puts finished `admmnet reproduce` folders into docs/reproduction.md: each figure's picture and table of verdicts.

``python -m tests.benchmarks.reproduction_page ding2020=runs/ding2020 banco=runs/banco``

What is written by hand between them, and the table "In short", stays: read it again.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from .common import row

DOCS = Path(__file__).parents[2] / "docs"
HEADINGS = {
    "ding2020": "## Ding et al. 2020",
    "damaskinos2021": "## Damaskinos et al. 2021",
    "song2013": "## Song et al. 2013",
    "banco": "## BANCO",
}
FINDING = re.compile(
    r"^\d+\. \*\*Claim\*\*: (?P<claim>.*)\n +\*\*Measured\*\*: (?P<measured>.*)\n +\*\*(?P<verdict>.*?)\.\*\*",
    re.MULTILINE,
)


def cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return text.replace("||w*||", "the norm of w*").replace("|", "\\|")


def sections(report: str) -> Iterator[tuple[str, str]]:
    """Title and table of each section of a report.md that has findings."""
    for section in re.split(r"^## ", report, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        rows = [
            row(cell(m["claim"]), cell(m["measured"]), f"**{m['verdict'].lower()}**") for m in FINDING.finditer(body)
        ]
        if rows:
            yield title, "\n".join(("| claim | measured | |", "|---|---|---|", *rows))


def filled(page: str, paper: str, folder: Path) -> str:
    """Return the page with a paper's pictures (copied) and tables from a folder of `admmnet reproduce`."""
    start = page.index(HEADINGS[paper] + "\n")
    end = page.find("\n## ", start + 1) % (len(page) + 1)
    part = page[start:end].rstrip("\n") + "\n\n"
    for title, table in sections((folder / "report.md").read_text()):
        blocks = [f"### {cell(title).replace(' (in place of Brazil) and Adult (in place of US)', '')}", table]
        key = title.partition(" (QUICK")[0]
        if figure := re.match(r"Figure (\d+)\b", title):
            key, name = figure[0], f"{paper}-figure{figure[1]}.png"
            shutil.copy(folder / f"figure{figure[1]}.png", DOCS / "pictures" / name)
            blocks.insert(1, f"![{cell(title)}](pictures/{name})")
        old = re.compile(rf"^### {re.escape(key)}(?!\w).*?(?=^### |\Z)", re.DOTALL | re.MULTILINE)
        if not old.search(part):
            raise SystemExit(f"{paper}: the page has no section for {key}")
        new = "\n\n".join((*blocks, "")).replace("\\", r"\\")
        part = old.sub(new, part, count=1)
    return page[:start] + part.rstrip("\n") + "\n" + page[end:]


if __name__ == "__main__":
    target = DOCS / "reproduction.md"
    text = target.read_text()
    for word in sys.argv[1:]:
        name, _, run = word.partition("=")
        text = filled(text, name, Path(run))
    target.write_text(text)
