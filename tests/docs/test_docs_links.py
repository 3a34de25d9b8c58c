"""Links of the pages lead somewhere, and cited equations, theorems, pages and sections exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.doc_pages import MODULES, PAGES, ROOT, name, page, prose, text

# links


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


def test_every_page_is_reached_from_the_index_and_the_readme() -> None:
    wanted = {path.name for path in PAGES if path.parent.name == "docs"} - {"index.md"}
    assert wanted <= {link.partition("#")[0] for link in links(ROOT / "docs" / "index.md")}
    assert wanted <= {Path(link.partition("#")[0]).name for link in links(ROOT / "README.md")}


# equations, theorems, sections

NUMBERS = r"\(P?\d+\)(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s+to\s+|\s*[-\u2013]\s*)\(P?\d+\))*"
EQUATIONS = re.compile(rf"\beqs?\.\s+({NUMBERS})")


def flat(path: Path) -> str:
    """Text with line ends and comment marks made spaces: a citation may go over a line's end."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", text(path))


def cited(source: str) -> list[str]:
    """Numbers cited as `eq. (n)`, ranges filled; not those of papers, as in `2020, eq. (3)`."""
    numbers: list[str] = []
    for match in EQUATIONS.finditer(source):
        if re.search(r"\d{4}, $", source[: match.start()]):
            continue
        ends = re.findall(r"P?\d+", match[1])
        numbers += ends
        for first, last in re.findall(r"\((P?\d+)\)(?:\s+to\s+|\s*[-\u2013]\s*)\(P?(\d+)\)", match[1]):
            letter = "P" if first.startswith("P") else ""
            numbers += [f"{letter}{n}" for n in range(int(first.removeprefix("P")), int(last) + 1)]
    return numbers


def equation_citations() -> list[tuple[str, str]]:
    sources = [*MODULES, *PAGES]
    return sorted({(number, name(path)) for path in sources for number in cited(flat(path))})


def defined_equations(file: str) -> list[str]:
    """Numbers that start a line, or stand in a tag, of a page."""
    found = re.findall(r"^[^\w\n(|]{0,6}\((P?\d+)\)[\s*`:]|\\tag\{(P?\d+)\}", page(file), re.MULTILINE)
    return [first or second for first, second in found]


def test_citations_are_read_in_every_form() -> None:
    assert cited("eq. (3); eqs. (5)-(7), (15) and 2020, eq. (99); eqs. (P6) to (P8)") == [
        *("3", "5", "7", "15", "5", "6", "7"),
        *("P6", "P8", "P6", "P7", "P8"),
    ]


def test_cited_equations_are_on_the_algorithms_page_once() -> None:
    defined = defined_equations("algorithms.md")
    assert [number for number, count in Counter(defined).items() if count > 1] == []
    assert {str(n) for n in range(1, 16)} <= set(defined)
    missing = [c for c in equation_citations() if not c[0].startswith("P") and c[0] not in defined]
    assert missing == []


def test_cited_equations_are_on_the_privacy_page() -> None:
    if not (ROOT / "docs" / "privacy.md").exists():
        pytest.skip("docs/privacy.md is not there yet")
    citations = [c for c in equation_citations() if c[0].startswith("P")]
    assert citations
    assert [c for c in citations if not re.search(rf"\({c[0]}\)|\\tag\{{{c[0]}\}}", page("privacy.md"))] == []


def test_cited_theorems_are_on_the_privacy_page() -> None:
    if not (ROOT / "docs" / "privacy.md").exists():
        pytest.skip("docs/privacy.md is not there yet")
    citations = {
        (number, name(path))
        for path in MODULES
        for number in re.findall(r"docs/privacy\.md,? Theorem (\d+)\b(?!\.\d)", flat(path))
    }
    assert citations
    stated = set(re.findall(r"^[^\w\n]*Theorem (\d+)\b", page("privacy.md"), re.MULTILINE))
    assert sorted(c for c in citations if c[0] not in stated) == []


def test_cited_pages_and_sections_exist() -> None:
    pages = {path.name for path in PAGES if path.parent.name == "docs"}
    sections = re.findall(r"^## (\d)\. ", page("algorithms.md"), re.MULTILINE)
    missing = []
    for path in MODULES:
        files = set(re.findall(r"\bdocs/([\w-]+\.md)", flat(path))) - pages
        numbers = set(re.findall(r"docs/algorithms\.md, sec\. (\d)", flat(path))) - set(sections)
        missing += [(name(path), *sorted(files | numbers))] if files | numbers else []
    assert missing == []
