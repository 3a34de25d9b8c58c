"""Links of the pages lead somewhere, and cited equations, theorems, pages and sections exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.doc_pages import MODULES, PAGES, ROOT, blocks, name, page, prose, text

DOCS = {path.name for path in PAGES if path.parent.name == "docs"}


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts make them."""
    found: Counter[str] = Counter()
    result = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        result.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return result


def links(path: Path) -> list[str]:
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(path))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_relative_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_reached() -> None:
    index = ROOT / "docs" / "index.md"
    assert "docs/index.md" in links(ROOT / "README.md")
    assert DOCS - {"index.md"} <= {Path(link.partition("#")[0]).name for link in links(index)}


NUMBERS = r"\(P?\d+\)(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s+to\s+|\s*[-\u2013]\s*)\(P?\d+\))*"


def flat(path: Path) -> str:
    """Text with line ends and comment marks made spaces: a citation may go over a line's end."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", text(path))


def equations(source: str) -> list[str]:
    """Numbers cited as `eq. (n)`, ranges filled; not those of papers, as in `2020, eq. (3)`."""
    numbers: list[str] = []
    for match in re.finditer(rf"\beqs?\.\s+({NUMBERS})", source):
        if re.search(r"\d{4}, $", source[: match.start()]):
            continue
        numbers += re.findall(r"P?\d+", match[1])
        for letter, first, last in re.findall(r"\((P?)(\d+)\)(?:\s+to\s+|\s*[-\u2013]\s*)\(P?(\d+)\)", match[1]):
            numbers += [f"{letter}{n}" for n in range(int(first), int(last) + 1)]
    return numbers


CITATION = re.compile(
    r"docs/([\w-]+)\.md((?:[, ]*(?:(?:and|to|-|Theorems?|Lemma|eqs?\.|secs?\.|section) ?|\d+(?:\([a-z]\))?"
    r"|\([A-Z]?\d*\)|\"[A-Z][^\"]*\"))*)"
)
PART = re.compile(r"(Theorem|Lemma|sec)|\((\w+)\)|(\d+)|\"([^\"]+)\"|\b(to)\b|(-)")


def parts(tail: str) -> list[tuple[str, str]]:
    """Kind and name of every part that a citation names after its page, ranges filled."""
    found: list[tuple[str, str]] = []
    kind, ranging = "", False
    for word, formula, number, heading, *until in PART.findall(re.sub(r"(?<=\d)\([a-z]\)", "", tail)):
        kind = word or kind
        if any(until):
            ranging = True
            continue
        here = ("formula", formula) if formula else (kind, number) if number and kind else ("heading", heading)
        if ranging and here[1]:
            first, last = (int(re.sub(r"\D", "", name)) for name in (found[-1][1], here[1]))
            found += [(here[0], re.sub(r"\d+", str(k), here[1])) for k in range(first + 1, last)]
        ranging = False
        if here[1]:
            found.append(here)
    return found


def stated(file: str) -> set[tuple[str, str]]:
    """Theorems, lemmas, sections, headings and formulas that a page has."""
    written = page(file)
    found = set(re.findall(r"^[^\w\n]*(Theorem|Lemma) (\d+)\b", written, re.MULTILINE))
    found |= {("sec", number) for number in re.findall(r"^## (\d+)\. ", written, re.MULTILINE)}
    found |= {("heading", heading) for heading in re.findall(r"^#+ (?:\d+\. )?(.+)$", written, re.MULTILINE)}
    fenced = "\n".join(blocks(ROOT / "docs" / file, "text"))
    return found | {("formula", one) for one in re.findall(r"^\(([A-Z]?\d*)\) ", fenced, re.MULTILINE)}


def test_citations_are_read_in_every_form() -> None:
    assert equations("eq. (3); eqs. (5)-(7), (15) and 2020, eq. (99); eqs. (P6) to (P8)") == [
        *("3", "5", "7", "15", "5", "6", "7"),
        *("P6", "P8", "P6", "P7", "P8"),
    ]


def test_cited_equations_are_on_their_page() -> None:
    defined = [number for kind, number in stated("methods.md") if kind == "formula"]
    lines = "\n".join(blocks(ROOT / "docs" / "methods.md", "text"))
    assert len(re.findall(r"^\(\d+\) ", lines, re.MULTILINE)) == len(defined)
    assert {str(n) for n in range(1, 16)} <= set(defined)
    private = {number for kind, number in stated("proofs.md") if kind == "formula"}
    cited = {(number, name(path)) for path in [*MODULES, *PAGES] for number in equations(flat(path))}
    assert any(number.startswith("P") for number, _ in cited)
    assert sorted(citation for citation in cited if citation[0] not in {*defined, *private}) == []


def test_parts_of_a_citation_are_read() -> None:
    assert parts(", Theorems 3, 4 and 26; 7") == [
        ("Theorem", "3"),
        ("Theorem", "4"),
        ("Theorem", "26"),
        ("Theorem", "7"),
    ]
    assert parts(", sec. 2 eqs. (5)-(7)") == [("sec", "2"), ("formula", "5"), ("formula", "6"), ("formula", "7")]
    assert parts(" eqs. (P6) to (P8)") == [("formula", f"P{n}") for n in (6, 7, 8)]
    assert parts(', "The boundary"') == [("heading", "The boundary")]


def test_every_citation_resolves() -> None:
    """Each theorem, lemma, section, heading and formula that code names of a page stands on that page."""
    files = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]
    found = [(name(path), match) for path in files if path != Path(__file__) for match in CITATION.finditer(flat(path))]
    cited = {(file, f"{match[1]}.md", part) for file, match in found for part in parts(match[2])}
    assert len(cited) > 150
    known = {file: stated(file) for _, file, _ in cited}
    assert sorted(one for one in cited if one[2] not in known[one[1]]) == []


def test_cited_pages_exist() -> None:
    cited = {(found, name(path)) for path in MODULES for found in re.findall(r"\bdocs/([\w-]+\.md)", flat(path))}
    assert cited
    assert sorted(citation for citation in cited if citation[0] not in DOCS) == []
