"""What the site needs beside docs/: files that pages link to elsewhere in the repository, and links that fit both.

In the repository a page of docs/ links to ``../README.md``; on the site that file is ``readme.html``. Every file
reached by a relative link is brought along, and the link is rewritten.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^( *)```.*?^\1```[^\n]*$", re.DOTALL | re.MULTILINE)
MOVED = {
    "overview": "index",
    "estimators": "library",
    "reference": "library",
    "examples/frame": "library",
    "examples/graph": "library",
    "algorithms": "methods",
    "baselines": "methods",
    "losses": "methods",
    "defaults": "methods",
    "masked": "methods",
    "limits": "privacy",
    "run-folder": "ledger",
    "model": "results",
    "plot": "results",
    "report": "results",
    "track": "results",
    "starts": "protocol",
    "wire": "protocol",
    "members": "hosts",
    "robust": "hosts",
    "tried": "hosts",
    "examples/hospitals": "hosts",
    "examples/signoff": "signoff",
    "examples/method": "contributing",
    "topologies": "simulate",
    "trouble": "simulate",
    "scale": "simulate",
}
"""Names that pages had before, and the pages that have their content now."""
MOVED_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={to}">
<title>Moved</title>
<a href="{to}">This page has moved</a>
"""
# the theme's script would fetch these for diagrams and a repository's stars, which no page has
ELSEWHERE = re.compile(r"https://(?:unpkg\.com|api\.github\.com)/")


def site_path(path: str) -> str:
    """Return where a file of the repository is on the site, before pages become HTML.

    ``README.md`` would be a folder's index, and docs/ has one.
    """
    path = path.removeprefix(f"{DOCS}/")
    folder, name = posixpath.split(path)
    return posixpath.join(folder, "readme.md") if name == "README.md" else path


def repository_path(uri: str) -> str:
    """Return the file of the repository that is at this place of the site."""
    if (ROOT / DOCS / uri).is_file():
        return f"{DOCS}/{uri}"
    path = PurePosixPath(uri)
    return str(path.with_name("README.md")) if path.name == "readme.md" else uri


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what is not within fences."""
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def target_of(page: str, link: str) -> tuple[str, str] | None:
    """Return path in the repository and anchor of a relative link; None for other links.

    Parameters
    ----------
    page : str
        Path of the page that has the link.
    link : str
        As written.
    """
    if re.match(r"[a-z][a-z0-9+.-]*:|[#/]", link):
        return None
    file, _, anchor = link.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), file))
    if (ROOT / path).is_dir():
        path = posixpath.join(path, "README.md")
    return path, anchor


def linked(page: str) -> set[str]:
    """Return files that a page links to."""
    found: set[str] = set()

    def note(text: str) -> str:
        targets = (target_of(page, match[2]) for match in LINK.finditer(text))
        found.update(target[0] for target in targets if target)
        return text

    outside_code((ROOT / page).read_text(encoding="utf-8"), note)
    return found


def brought() -> set[str]:
    """Return files outside docs/ that its pages reach."""
    found: set[str] = set()
    waiting = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / DOCS).rglob("*.md"))
    while waiting:
        for path in linked(waiting.pop()) - found:
            if path.startswith(("../", f"{DOCS}/")) or not (ROOT / path).is_file():
                continue  # a link that leads nowhere is refused when its page is built
            found.add(path)
            if path.endswith(".md"):
                waiting.append(path)
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Bring the linked files along, and the script by which pages on a disk can search."""
    script = Path(__file__).with_name("iframe-worker.js")
    files.append(File.generated(config, f"assets/javascripts/{script.name}", abs_src_path=str(script)))
    for path in sorted(brought()):
        files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links of the repository into links of the site."""
    uri = page.file.src_uri
    here = repository_path(uri)

    def rewrite(match: re.Match[str]) -> str:
        target = target_of(here, match[2])
        if target is None:
            return match[0]
        place, anchor = site_path(target[0]), target[1]
        link = posixpath.relpath(place, posixpath.dirname(uri) or ".")
        return f"{match[1]}{link}{'#' + anchor if anchor else ''}{match[3]}"

    return outside_code(markdown, lambda text: LINK.sub(rewrite, text))


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Send readers of old names on, and take addresses of other hosts out of the theme's scripts."""
    for old, new in MOVED.items():
        page = Path(config.site_dir, f"{old}.html")
        page.parent.mkdir(exist_ok=True)
        page.write_text(MOVED_PAGE.format(to=posixpath.relpath(f"{new}.html", posixpath.dirname(old) or ".")), "utf-8")
    for script in Path(config.site_dir).rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        if ELSEWHERE.search(text):
            script.write_text(ELSEWHERE.sub("about:blank#", text), encoding="utf-8")
