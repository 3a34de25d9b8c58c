"""Links of the pages lead somewhere, and cited equations, theorems, pages and sections exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doc_pages import MODULES, PAGES, ROOT, blocks, name, page, prose, text

CITATION = re.compile(
    r"docs/([\w-]+)\.md((?:[, ]*(?:(?:and|to|-|Theorems?|Lemma|eqs?\.|secs?\.|section) ?|\d+(?:\([a-z]\))?"
    r"|\([A-Z]?\d*\)|\"[A-Z][^\"]*\"))*)"
)
PART = re.compile(r"(Theorem|Lemma|sec)|(?<!\d)\((\w+)\)|(\d+)|\"([^\"]+)\"")
EQUATIONS = re.compile(r"(?<!\d{4}, )\beqs?\. (\(P?\d+\)(?:(?:[ ,-]|and|to)*\(P?\d+\))*)")
"""Not those of papers, as in `2020, eq. (3)`."""


def anchors(path: Path) -> Iterator[str]:
    """Anchors of a page's headings, as code hosts make them."""
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        yield re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_relative_links_lead_somewhere(path: Path) -> None:
    for file, anchor in re.findall(r"\[[^\]]*\]\((?![a-z]+:)([^)\s#]*)#?([^)\s]*)\)", prose(path)):
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), (file, anchor)


def flat(path: Path) -> str:
    """Text with line ends and comment marks made spaces: a citation may go over a line's end."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", text(path))


def parts(tail: str) -> Iterator[tuple[str, str]]:
    """Kind and name of every part that a citation names after its page; the page itself, if it names none."""
    yield "page", ""
    kind = ""
    for word, formula, number, heading in PART.findall(tail):
        kind = word or kind
        if formula or heading or (number and kind):
            yield ("formula", formula) if formula else ("heading", heading) if heading else (kind, number)


def stated(file: str) -> set[tuple[str, str]]:
    """Theorems, lemmas, sections, headings and formulas that a page has."""
    written = page(file)
    found = {("page", ""), *re.findall(r"^[^\w\n]*(Theorem|Lemma) (\d+)\b", written, re.MULTILINE)}
    found |= {("sec", number) for number in re.findall(r"^## (\d+)\. ", written, re.MULTILINE)}
    found |= {("heading", heading) for heading in re.findall(r"^#+ (?:\d+\. )?(.+)$", written, re.MULTILINE)}
    formulas = "\n".join(blocks(ROOT / "docs" / file, "text"))
    return found | {("formula", one) for one in re.findall(r"^\(([A-Z]?\d*)\) ", formulas, re.MULTILINE)}


def test_every_citation_resolves() -> None:
    """Each theorem, lemma, section, heading and formula that code names of a page stands on that page."""
    known = {path.name: stated(path.name) for path in (ROOT / "docs").glob("*.md")}
    formulas = {number for file in ("methods.md", "proofs.md") for kind, number in known[file] if kind == "formula"}
    number, unknown = 0, []
    for path in [*MODULES, *PAGES, *sorted((ROOT / "tests").rglob("*.py"))]:
        for match in CITATION.finditer(flat(path)) if path not in (*PAGES, Path(__file__)) else ():
            cited = set(parts(match[2]))
            number += len(cited)
            unknown += [(name(path), match[1], part) for part in cited - known.get(f"{match[1]}.md", set())]
        for match in EQUATIONS.finditer(flat(path)) if "tests" not in path.parts else ():
            cited_formulas = set(re.findall(r"P?\d+", match[1]))
            number += len(cited_formulas)
            unknown += [(name(path), "eq.", part) for part in cited_formulas - formulas]
    assert number > 300
    assert unknown == []
