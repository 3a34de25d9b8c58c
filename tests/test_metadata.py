"""What pyproject.toml says of the package: Python versions that its code compiles for, and nothing of this machine."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ABOUT: dict[str, Any] = PROJECT["project"]
VERSIONS = [
    (3, int(match[1]))
    for line in ABOUT["classifiers"]
    if (match := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", line))
]


def test_the_versions_are_those_that_are_said() -> None:
    (oldest,) = re.findall(r"^>=(3\.\d+)$", ABOUT["requires-python"])
    assert [(3, minor) for minor in range(VERSIONS[0][1], VERSIONS[-1][1] + 1)] == VERSIONS
    assert f"3.{VERSIONS[0][1]}" == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py3{VERSIONS[0][1]}"
    assert sys.version_info[:2] in VERSIONS, "the tests pass with a version that the classifiers do not name"


def test_the_citation_is_of_this_version_and_on_the_page() -> None:
    citation, page = (PROJECT["tool"]["citation"], (ROOT / "docs" / "references.md").read_text(encoding="utf-8"))
    assert citation["version"] == ABOUT["version"]
    assert citation["authors"] == ABOUT["authors"]
    for key in ("cff-version", "message", "type", "version"):
        assert f"\n{key}: {citation[key]}\n" in page
    assert f'\ntitle: "{citation["title"]}"\n' in page
    assert f"\n  - name: {citation['authors'][0]['name']}\n" in page


def test_the_code_is_in_the_oldest_grammar() -> None:
    for path in (ROOT / "admmnet").rglob("*.py"):
        ast.parse(path.read_bytes(), str(path), feature_version=VERSIONS[0])


def test_it_names_somebody_and_no_machine() -> None:
    assert all(author["name"] for author in ABOUT["authors"])
    for address in ABOUT.get("urls", {}).values():
        assert re.match(r"https://[\w-]+(\.[\w-]+)*\.(org|com|io|net)/", address), address
