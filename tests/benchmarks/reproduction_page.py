"""Puts finished `admmnet reproduce` folders into docs/reproduction.md: each figure's picture and table of verdicts.

``python tests/benchmarks/reproduction_page.py ding2020=runs/ding2020 banco=runs/banco``

What is written by hand between them, and the table "In short", stays: read it again.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

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


def tables(report: str) -> dict[str, str]:
    """Return the table of each section of a report.md, by its title."""
    found = {}
    for section in re.split(r"^## ", report, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        rows = [
            f"| {cell(m['claim'])} | {cell(m['measured'])} | **{m['verdict'].lower()}** |"
            for m in FINDING.finditer(body)
        ]
        if rows:
            found[title] = "\n".join(("| claim | measured | |", "|---|---|---|", *rows))
    return found


def cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return text.replace("||w*||", "the norm of w*").replace("|", "\\|")


def key_of(title: str) -> str:
    """What a section is known by: ``Figure K``, or its whole title."""
    numbered = re.match(r"Figure \d+", title)
    return numbered[0] if numbered else title.partition(" (QUICK")[0]


def filled(page: str, paper: str, folder: Path) -> str:
    """Return the page with a paper's pictures (copied) and tables from a folder of `admmnet reproduce`."""
    start = page.index(HEADINGS[paper] + "\n")
    end = page.find("\n## ", start + 1)
    end = len(page) if end < 0 else end
    new = {
        key_of(title): (title, table) for title, table in tables((folder / "report.md").read_text()).items()
    }
    parts = []
    for part in re.split(r"^(?=### )", page[start:end], flags=re.MULTILINE):
        key = key_of(part.partition("\n")[0].removeprefix("### "))
        if not part.startswith("### ") or key not in new:
            parts.append(part)
            continue
        title, table = new.pop(key)
        blocks = [f"### {cell(title).replace(' (in place of Brazil) and Adult (in place of US)', '')}"]
        if key.startswith("Figure "):
            name = f"{paper}-figure{key.removeprefix('Figure ')}.png"
            shutil.copy(folder / f"figure{key.removeprefix('Figure ')}.png", DOCS / "pictures" / name)
            blocks.append(f"![{cell(title)}](pictures/{name})")
        parts.append("\n\n".join((*blocks, table)) + "\n\n")
    if new:
        raise SystemExit(f"{paper}: the page has no section for {', '.join(new)}")
    return page[:start] + "".join(parts).rstrip("\n") + "\n" + page[end:]


def main(words: list[str]) -> None:
    path = DOCS / "reproduction.md"
    page = path.read_text()
    for word in words:
        paper, _, folder = word.partition("=")
        page = filled(page, paper, Path(folder))
    path.write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
