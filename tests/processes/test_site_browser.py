"""The documentation site in a headless Chromium: no complaint, no request to elsewhere, search, phones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.docs.test_site import CONFIG, build, in_nav

from .browser import DEADLINE, Browser, found

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(found() is None, reason="no Chromium: install one, as apt-get install chromium"),
]
NARROW, WIDE = 390, 1280


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(CONFIG, folder)
    assert done.returncode == 0, done.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(timeout=20)


def until(chromium: Browser, condition: str) -> None:
    """Wait in the page itself until a condition holds."""
    script = f"""new Promise((done, fail) => {{
        const begun = performance.now();
        const late = () => performance.now() - begun > {1000 * DEADLINE};
        const look = () => ({condition}) ? done(true) : late() ? fail(new Error("late")) : setTimeout(look, 20);
        look();
    }})"""
    assert chromium.run(script) is True


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_page_loads_quietly_and_fits(width: int, chromium: Browser, address: str) -> None:
    for page in [name.replace(".md", ".html") for name in in_nav()]:
        chromium.open(address + page, width)
        assert chromium.complaints() == [], page
        assert [url for url in chromium.requests() if not url.startswith((address, "data:", "blob:"))] == [], page
        across = chromium.run("document.documentElement.scrollWidth")
        assert across <= width, (page, across)


def test_search_finds_a_flag(chromium: Browser, address: str) -> None:
    chromium.open(address + "index.html")
    chromium.run("document.querySelector('input[name=query]').focus()")
    for letter in "heartbeat":
        chromium.call("Input.insertText", text=letter)
    until(chromium, "document.querySelectorAll('.md-search-result__link').length > 0")
    links = chromium.run("[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)")
    assert any("hosts.html" in link for link in links)
    assert [url for url in chromium.requests() if not url.startswith((address, "data:", "blob:"))] == []
