"""No page has a sentence of more than 35 words, but for the proofs; tables, code and headings are no sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doc_pages import PAGES, name, prose, text

MOST = 35
LONGER = {"docs/proofs.md"}
WAITING = {f"docs/{page}.md" for page in ("benchmarks",)}
"""Pages that have not been rewritten yet."""
ABBREVIATED = re.compile(r"\b(?:al|cf|e\.g|eqs?|etc|i\.e|resp|secs?|vs)\.")
START = re.compile(r"(?:[-*>]|\d+\.)\s+")
"""Of an item of a list."""


def paragraphs(written: str) -> Iterator[str]:
    """Parts of a page that are read as sentences: a paragraph, or an item of a list."""
    found: list[str] = []
    for line in [*written.splitlines(), ""]:
        here = line.strip()
        other = not here or here[0] in "|#<!" or line.startswith("    ")
        item = START.match(here)
        if (other or item) and found:
            yield " ".join(found)
            found = []
        if not other:
            found.append(here[item.end() :] if item else here)


def sentences(paragraph: str) -> list[str]:
    """Split at full stops, question and exclamation marks and semicolons; code and links count by their words shown."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)\s]*\)", r"\1", ABBREVIATED.sub(lambda at: at[0][:-1], paragraph))
    plain = re.sub(r"`+[^`]*`+", "Code", plain)
    return re.split(r"(?<=[.!?])[*_)\"']*\s+(?=[^a-z])|;\s+", plain)


def words(sentence: str) -> int:
    return len(re.findall(r"[A-Za-z]+(?:['-][A-Za-z]+)*", sentence))


def long_ones(written: str) -> list[str]:
    return [each for part in paragraphs(written) for each in sentences(part) if words(each) > MOST]


@pytest.mark.parametrize("path", [path for path in PAGES if name(path) not in LONGER | WAITING], ids=name)
def test_no_sentence_is_too_long(path: Path) -> None:
    assert long_ones(prose(path)) == []


def test_a_long_sentence_is_found() -> None:
    """Also where it stands in an item, over several lines, beside short ones and around code and links."""
    long = f"{'word ' * 30}and `code` with [a link to it](page.md#there), five more."
    for page in (long, f"- {long}", f"Short one. {long}", long.replace("and", "\n  and")):
        assert len(long_ones(page)) == 1, page
    for page in (
        f"| {long} |",
        f"# {long}",
        f"    {long}",
        f"{'word ' * 30}. {'Word ' * 30}",
        f"{'word ' * 20}; {'word ' * 20}",
    ):
        assert long_ones(page) == [], page
    assert words("a `b` isn't word-like 7") == 4


def test_the_pages_have_sentences() -> None:
    assert sum(len(sentences(part)) for path in PAGES for part in paragraphs(prose(path))) > 1000
    assert {name(path) for path in PAGES} >= LONGER
    assert all(long_ones(prose(path)) for path in PAGES if name(path) in LONGER), "an exception that none needs"
    assert all(text(path).strip() for path in PAGES)
