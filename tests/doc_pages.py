"""The pages of the documentation and their parts, for the tests that compare them with the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "topologies" / "README.md"]
MODULES = sorted((ROOT / "admmnet").rglob("*.py"))


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def page(file: str) -> str:
    return text(ROOT / "docs" / file)


EXAMPLE = re.compile(r"^<!-- example -->\n(.*?)^<!-- end of example -->\n", re.DOTALL | re.MULTILINE)


def examples(path: Path) -> str:
    """Return the parts of a page that tests/processes/test_examples.py carries out as they stand."""
    return "\n".join(EXAMPLE.findall(text(path)))


def fenced(text: str, language: str) -> list[str]:
    """Return the blocks of a text in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def blocks(path: Path, language: str) -> list[str]:
    """Return the blocks of a page in a language, but those of its examples; a command is a line."""
    return [re.sub(r" *\\\n *", " ", block) for block in fenced(EXAMPLE.sub("", text(path)), language)]


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", text(path), flags=re.DOTALL | re.MULTILINE)


def section(file: str, title: str) -> str:
    return page(file).split(f"\n## {title}\n")[1].split("\n## ")[0]
