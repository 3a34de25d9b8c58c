"""The site builds without a warning, with the lists that .mkdocs/tables.py makes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import admmnet
from admmnet.record.forms import Privacy
from tests.doc_pages import PAGES, ROOT, text


def test_the_site_builds_and_its_library_has_every_public_name(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ROOT / ".mkdocs" / "mkdocs.yml", "-d", tmp_path],
        timeout=240,
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    pages = {page: (tmp_path / f"{page}.html").read_text(encoding="utf-8") for page in ("cli", "ledger", "library")}
    ids = set(re.findall(r'\bid="([^"]+)"', pages["library"]))
    assert {f"admmnet.{home}.{name}" for name, home in admmnet._HOMES.items() if name != "__version__"} <= ids
    assert "--epsilon X" in pages["cli"]
    assert all(key in pages["ledger"] for key in Privacy.__struct_fields__)
    assert all(name in pages["library"] for name in ("theta", "dual", "heard", "degree"))


def test_every_list_of_the_program_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / ".mkdocs"))
    tables = import_module("tables")
    found = [match.groups() for path in PAGES for match in tables.PLACE.finditer(text(path))]
    assert sorted(found) == tables.places()
    assert all(tables.made(kind, name).strip() for kind, name in found)
