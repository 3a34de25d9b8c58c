"""The house: imports follow the packages' order without circles; what pyproject.toml says of it is true."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

from tests.doc_pages import ROOT, section

PACKAGE = ROOT / "admmnet"
FOUNDATION = {
    *("errors", "gone", "log", "files", "types", "forms", "form_errors", "rng", "version", "settings", "registry")
}
"""Single modules, from which all may import."""
ORDER = re.findall(
    r"`(\w+)`", section("contributing.md", "Layers").partition("\nsingle modules, ")[2].partition(". ")[0]
)
"""Packages, lowest first, as the page lists them."""


def imported(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports, anywhere in it, also for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_module":
            names = [ast.unparse(node.args[0]).strip("'f\"").partition("{")[0].rstrip(".")]
        yield from (found for found in names if found.startswith("admmnet."))


def module_of(name: str) -> str:
    """The module that an imported name is or lies in."""
    parts = name.split(".")
    while len(parts) > 1:
        path = PACKAGE.joinpath(*parts[1:])
        if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
            return ".".join(parts)
        parts.pop()
    return "admmnet"


FILES = {
    module_of("admmnet." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py") or path.parent != PACKAGE
}


def room(module: str) -> str:
    """The part of the house that a module lies in."""
    return module.split(".")[1]


def test_imports_follow_the_order() -> None:
    assert {room(name) for name in FILES if "." in name} == FOUNDATION | set(ORDER), "each package has its place"
    rank = {name: place for place, name in enumerate(ORDER)} | dict.fromkeys(FOUNDATION, -1)
    against = {
        f"{path.relative_to(PACKAGE)} imports {module_of(name)}"
        for module, path in FILES.items()
        for name in imported(path)
        if rank[room(name)] > rank[room(module)]
    }
    assert against == set()


@pytest.mark.parametrize("package", ORDER)
def test_no_circle_among_modules(package: str) -> None:
    inside = {name: path for name, path in FILES.items() if room(name) == package}
    graph = {
        name: {module_of(found) for found in imported(path)} & inside.keys() - {name} for name, path in inside.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ABOUT: dict[str, Any] = PROJECT["project"]


def test_the_versions_are_those_that_are_said_and_the_code_is_in_the_oldest_grammar() -> None:
    lines = "\n".join(ABOUT["classifiers"])
    minors = list(map(int, re.findall(r"^Programming Language :: Python :: 3\.(\d+)$", lines, re.MULTILINE)))
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert ABOUT["requires-python"] == f">=3.{minors[0]}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py3{minors[0]}"
    assert sys.version_info[1] in minors, "the tests pass with a version that the classifiers do not name"
    for path in PACKAGE.rglob("*.py"):
        ast.parse(path.read_bytes(), str(path), feature_version=(3, minors[0]))


def test_the_citation_is_of_this_version_and_on_the_page_and_names_somebody_and_no_machine() -> None:
    citation, page = PROJECT["tool"]["citation"], (ROOT / "docs/references.md").read_text(encoding="utf-8")
    assert (citation["version"], citation["authors"]) == (ABOUT["version"], ABOUT["authors"])
    told = [f"{key}: {citation[key]}" for key in ("cff-version", "message", "type", "version")]
    told += [f'title: "{citation["title"]}"', f"  - name: {citation['authors'][0]['name']}"]
    assert [line for line in told if f"\n{line}\n" not in page] == []
    assert all(author["name"] for author in ABOUT["authors"])
    for address in ABOUT.get("urls", {}).values():
        assert re.match(r"https://[\w-]+(\.[\w-]+)*\.(org|com|io|net)/", address), address
