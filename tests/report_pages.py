"""Pages of reports as a reader sees them, and run folders that somebody has tampered with."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from admmnet.forms import encode
from admmnet.report.html import make_report
from admmnet.report.html.facts import RunFacts, read_facts
from tests.people_runs import put_summary, seal, summary_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{data}}&\"'\u2028"
VOID = {"meta", "link", "input"}


class Page(HTMLParser):
    """Elements of a page, checked to be nested; text and attributes as a reader sees them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[str, str]] = []
        self.style = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append((self.tags[-1][1].get("type") or "", data))
        elif inside == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    @property
    def data(self) -> dict[str, Any]:
        (raw,) = (raw for kind, raw in self.scripts if kind == "application/json")
        found: dict[str, Any] = json.loads(raw)
        return found


def page(*folders: Path) -> Page:
    """The page of folders; of the same files it is drawn once, with and without matplotlib."""
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return _page(folders, tuple(path.read_bytes() for path in files), sys.modules.get("matplotlib", "there") is None)


@cache
def _page(folders: tuple[Path, ...], contents: tuple[bytes, ...], undrawn: bool) -> Page:
    report = make_report(folders)
    assert report.faults == ()
    return Page(report.html)


def sound(folder: Path) -> RunFacts:
    """What a folder that verifies says."""
    facts = read_facts(folder, "run")
    assert isinstance(facts, RunFacts)
    return facts


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change summary.json."""
    summary = summary_of(folder)
    change(summary)
    put_summary(folder, summary)


def rechained(folder: Path, agent: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a ledger's header and make the chain and the digest hold again."""
    file = folder / "ledger" / f"agent-{agent:03d}.jsonl"
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    change(lines[0])
    raw: list[bytes] = []
    for line in lines:
        if raw:
            line["previous"] = hashlib.sha256(raw[-1]).hexdigest()
        raw.append(encode(line))
    file.write_bytes(b"\n".join(raw) + b"\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    rewrite(folder, lambda summary: summary["ledgers"].update({f"ledger/{file.name}": digest}))


def copy(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


def damaged(source: Path, folder: Path) -> Path:
    """Copy with one sigma changed by hand."""
    copy(source, folder)
    file = folder / "ledger" / "agent-002.jsonl"
    lines = file.read_bytes().split(b"\n")
    line = json.loads(lines[2])
    line["parameters"]["sigma"] *= 2
    lines[2] = encode(line)
    file.write_bytes(b"\n".join(lines))
    return folder


def hostile(source: Path, folder: Path) -> Path:
    """Copy whose every free text is an attack; it still verifies."""
    copy(source, folder)
    for agent in range(5):
        rechained(folder, agent, lambda header: header.update(algorithm=HOSTILE, admmnet=HOSTILE))
    rewrite(
        folder,
        lambda summary: (
            summary.update(algorithm=HOSTILE, topology=HOSTILE, notes=[HOSTILE]),
            summary["data"].update(name=HOSTILE),
            summary["versions"].update({HOSTILE: HOSTILE}),
        ),
    )
    config = folder / "config.toml"
    text = config.read_text(encoding="utf-8")
    assert 'split = "zipf:1.5"' in text
    config.write_text(text.replace('split = "zipf:1.5"', f"split = {json.dumps(HOSTILE)}"), encoding="utf-8")
    seal(folder)
    return folder
