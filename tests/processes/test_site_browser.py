"""The documentation site, opened from a disk in a headless Chromium: its search finds sections."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_site import CONFIG, build

from .browser import Browser, found

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(found() is None, reason="no Chromium: install one, as apt-get install chromium"),
]
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


def test_search_on_a_disk(chromium: Browser, tmp_path: Path) -> None:
    done = build(CONFIG, tmp_path)
    assert done.returncode == 0, done.stderr
    chromium.open(tmp_path / "index.html")
    links = chromium.run(SEARCH)
    assert any(link.endswith("hosts.html?h=receipts#receipts") for link in links), links
    assert chromium.complaints() == []
    assert [each for each in chromium.requests() if not each.startswith(("file:", "data:"))] == []
