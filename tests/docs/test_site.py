"""The site builds without a warning, with the lists that .mkdocs/tables.py makes; a link to nowhere is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import admmnet
from admmnet.methods.agent import Agent
from admmnet.record.forms import Privacy
from tests.doc_pages import PAGES, ROOT, text

CONFIG = ROOT / ".mkdocs" / "mkdocs.yml"
DEADLINE = 240.0
"""Seconds for a build; it takes about three."""


def build(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(target)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


def test_the_site_builds_and_its_library_has_every_public_name(tmp_path: Path) -> None:
    done = build(CONFIG, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "site").glob("*.html")}
    ids = set(re.findall(r'\bid="([^"]+)"', pages["library"]))
    homes = {f"admmnet.{home}.{name}" for name, home in admmnet._HOMES.items() if name != "__version__"}
    assert set(admmnet.__all__) == set(admmnet._HOMES)
    assert sorted(homes - ids) == []
    assert "admmnet.config.run_config.RunConfig.simulation" in ids  # members, too
    shown = {page: set(re.findall(r"<code>([^<]*)</code>", pages[page])) for page in ("cli", "ledger", "library")}
    assert {"--epsilon X", "--tune [METHOD.]SETTING=X:X,...", "--require [private]"} <= shown["cli"]
    assert {*Privacy.__struct_fields__, "above-threshold", "previous"} <= shown["ledger"]
    assert {*Agent.__dataclass_fields__, "present"} <= shown["library"]


def test_every_list_of_the_program_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / ".mkdocs"))
    tables = import_module("tables")
    found = [match.groups() for path in PAGES for match in tables.PLACE.finditer(text(path))]
    assert sorted(found) == tables.places()
    assert all(tables.made(kind, name).strip() for kind, name in found)


def test_a_fault_stops_the_build(tmp_path: Path) -> None:
    """A link to nowhere, an anchor that is none, a page that the navigation lacks: each is named."""
    shutil.copytree(ROOT / ".mkdocs", tmp_path / ".mkdocs")
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
