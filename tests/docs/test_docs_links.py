"""Links of the pages lead somewhere, and cited equations, theorems, pages and sections exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.doc_pages import MODULES, PAGES, ROOT, name, page, prose, text

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


def unfounded(pattern: str, stated: set[str]) -> list[tuple[str, str]]:
    """Numbers and names that modules cite in the pattern's words, and that no page has; there must be citations."""
    cited = {(found, name(path)) for path in MODULES for found in re.findall(pattern, flat(path))}
    assert cited
    return sorted(citation for citation in cited if citation[0] not in stated)


def test_citations_are_read_in_every_form() -> None:
    assert equations("eq. (3); eqs. (5)-(7), (15) and 2020, eq. (99); eqs. (P6) to (P8)") == [
        *("3", "5", "7", "15", "5", "6", "7"),
        *("P6", "P8", "P6", "P7", "P8"),
    ]


def test_cited_equations_are_on_their_page() -> None:
    found = re.findall(r"^[^\w\n(|]{0,6}\((P?\d+)\)[\s*`:]|\\tag\{(P?\d+)\}", page("algorithms.md"), re.MULTILINE)
    defined = [first or second for first, second in found]
    assert max(Counter(defined).values()) == 1
    assert {str(n) for n in range(1, 16)} <= set(defined)
    private = set(re.findall(r"(?:\(|\\tag\{)(P\d+)[)}]", page("privacy.md")))
    cited = {(number, name(path)) for path in [*MODULES, *PAGES] for number in equations(flat(path))}
    assert any(number.startswith("P") for number, _ in cited)
    assert sorted(citation for citation in cited if citation[0] not in {*defined, *private}) == []


def test_cited_theorems_pages_and_sections_exist() -> None:
    theorems = set(re.findall(r"^[^\w\n]*Theorem (\d+)\b", page("privacy.md"), re.MULTILINE))
    assert unfounded(r"docs/privacy\.md,? Theorem (\d+)\b(?!\.\d)", theorems) == []
    assert unfounded(r"\bdocs/([\w-]+\.md)", DOCS) == []
    sections = set(re.findall(r"^## (\d)\. ", page("algorithms.md"), re.MULTILINE))
    assert unfounded(r"docs/algorithms\.md, sec\. (\d)", sections) == []
