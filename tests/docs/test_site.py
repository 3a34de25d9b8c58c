"""The documentation site: it builds without a warning, holds every page, and loads nothing from elsewhere.

The build itself warns of links to nowhere and of pages that the navigation lacks (`test_a_fault_stops_the_build`).
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import admmnet
from tests.doc_pages import ROOT
from tests.processes.browser import browser, found

CONFIG = ROOT / ".mkdocs" / "mkdocs.yml"
DEADLINE = 240.0
"""Seconds for a build; it takes about three."""
LOADING = {"src", "srcset", "data", "poster"}
"""Attributes that make a browser fetch something, with href of <link>."""
SEARCH = """
new Promise((found, failed) => {
  const query = document.querySelector("[data-md-component=search-query]");
  const look = () => {
    const links = [...document.querySelectorAll(".md-search-result__item a")].map((link) => link.href);
    if (links.length) found(links);
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  setTimeout(() => failed(new Error("nothing was found")), 30000);
  query.focus();
  query.value = "receipts";
  query.dispatchEvent(new Event("keyup"));
})
"""


def build(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(target)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(CONFIG, folder)
    assert done.returncode == 0, done.stderr
    return folder


class Page(HTMLParser):
    """Anchors of a page, where its links go, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.ids.add(value)
            elif key == "href" and tag == "a" and value:
                self.links.append(value)
            elif value and (
                key in LOADING or (key == "href" and tag == "link") or (key == "style" and "url(" in value)
            ):
                self.loads.append(value)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html")}


def in_nav() -> list[str]:
    nav = CONFIG.read_text(encoding="utf-8").split("\nnav:\n")[1]
    return re.findall(r"^ +- .*?: (\S+\.md)$", nav, re.MULTILINE)


def test_files_that_pages_link_to_are_there(site: Path, pages: dict[Path, Page]) -> None:
    assert "start" in pages[site / "readme.html"].ids
    assert "readme.html#start" in pages[site / "index.html"].links
    assert "index.html" in pages[site / "readme.html"].links
    assert (site / "pictures" / "ding2020-figure5.png").is_file()
    for file in ("topologies/ring-5.edges", "launch/slurm.sbatch"):
        assert (site / file).read_bytes() == (ROOT / file).read_bytes()


def test_old_names_lead_to_pages(site: Path, pages: dict[Path, Page]) -> None:
    moved = runpy.run_path(str(CONFIG.parent / "hooks.py"))["MOVED"]
    assert moved
    for old, new in moved.items():
        (link,) = pages[site / f"{old}.html"].links
        assert (site / f"{old}.html").parent.joinpath(link).resolve() == (site / f"{new}.html").resolve()
        assert f"{new}.md" in in_nav()


def test_pages_load_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loads = {load for page in pages.values() for load in page.loads}
    assert len(loads) > 5
    assert [load for load in loads if re.match(r"([a-z]+:)?//", load)] == []


def without_comments(file: Path) -> str:
    text = re.sub(r"/\*.*?\*/", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"^\s*(//|\*).*$", "", text, flags=re.MULTILINE)


def test_styles_and_scripts_name_no_other_host(site: Path) -> None:
    styles, scripts = ("".join(map(without_comments, site.rglob(kind))) for kind in ("*.css", "*.js"))
    assert "url(" in styles
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", styles) == []
    # names of XML namespaces, and words of a licence in a comment that the minifier kept
    known = {"www.w3.org", "www.mozilla.org", "github.com", "bit.ly", "lunrjs.com"}
    assert set(re.findall(r"https?://([\w.-]+)", scripts)) <= known


def test_search_knows_the_pages(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert len(in_nav()) == len(set(in_nav()))
    for page in in_nav():
        assert f'"location":"{page.removesuffix(".md")}.html' in index, page


@pytest.mark.processes
@pytest.mark.skipif(found() is None, reason="no Chromium: install one, as apt-get install chromium")
def test_search_on_a_disk(site: Path, tmp_path: Path) -> None:
    """In a headless Chromium: the search finds sections."""
    with browser(tmp_path) as chromium:
        chromium.open(site / "index.html")
        links = chromium.run(SEARCH)
        assert any(link.endswith("hosts.html?h=receipts#receipts") for link in links), links
        assert chromium.complaints() == []
        assert [each for each in chromium.requests() if not each.startswith(("file:", "data:"))] == []


def test_the_library_has_every_public_name(site: Path, pages: dict[Path, Page]) -> None:
    ids = pages[site / "library.html"].ids
    homes = {f"admmnet.{home}.{name}" for name, home in admmnet._HOMES.items() if name != "__version__"}
    assert set(admmnet.__all__) == set(admmnet._HOMES)
    assert sorted(homes - ids) == []
    assert "admmnet.config.run_config.RunConfig.simulation" in ids  # members, too


def test_a_fault_stops_the_build(tmp_path: Path) -> None:
    """A link to nowhere, an anchor that is none, a page that the navigation lacks: each is named."""
    shutil.copytree(ROOT / ".mkdocs", tmp_path / ".mkdocs", ignore=shutil.ignore_patterns("__pycache__"))
    config, docs = tmp_path / ".mkdocs" / "mkdocs.yml", tmp_path / "docs"
    settings = config.read_text(encoding="utf-8").partition("\nnav:\n")[0]
    config.write_text(f"{settings}\nnav:\n  - One: index.md\n  - Two: cli.md\n", encoding="utf-8")
    docs.mkdir()
    (docs / "cli.md").write_text("# Two\n\n## Such\n", encoding="utf-8")
    page = "# One\n\n[a](cli.md#such) `[c](../code.md)`\n\n```text\n[d](../fence.md)\n```\n"
    (docs / "index.md").write_text(page, encoding="utf-8")
    assert build(config, tmp_path / "site").returncode == 0
    (docs / "index.md").write_text(f"{page}\n[a](../nowhere.md) [b](cli.md#no-such)\n", encoding="utf-8")
    (docs / "unlisted.md").write_text("# Unlisted\n", encoding="utf-8")
    done = build(config, tmp_path / "site")
    assert done.returncode != 0
    warnings = "\n".join(re.findall(r"^(?:WARNING|  -).*", done.stderr, re.MULTILINE))
    for fault in ("nowhere.md", "no-such", "unlisted.md"):
        assert fault in warnings
    assert "fence.md" not in warnings
