"""Pages of reports as a reader sees them, and run folders that somebody has tampered with."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from admmnet.forms import encode
from admmnet.report.page import make_report
from tests.people_runs import put_summary, seal, summary_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{data}}&\"'\u2028"


def words_of(*folders: Path) -> str:
    """Text of a page."""
    made = make_report(folders)
    assert made.faults == ()
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", made.html, flags=re.DOTALL)))


def words_in(figure: Any) -> str:
    """Title and note of a picture."""
    texts = [*figure.texts, *(legend.get_title() for legend in figure.legends)]
    return " ".join(" ".join(text.get_text() for text in texts).split())


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
    file = copy(source, folder) / "ledger" / "agent-002.jsonl"
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
    summary = summary_of(folder)
    summary |= {"algorithm": HOSTILE, "topology": HOSTILE, "notes": [HOSTILE]}
    summary["data"]["name"] = summary["versions"][HOSTILE] = HOSTILE
    put_summary(folder, summary)
    config = folder / "config.toml"
    text = config.read_text(encoding="utf-8")
    assert 'split = "zipf:1.5"' in text
    config.write_text(text.replace('split = "zipf:1.5"', f"split = {json.dumps(HOSTILE)}"), encoding="utf-8")
    seal(folder)
    return folder
