"""The house: a package imports from those before it in the list, never from those behind; no circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "admmnet"
FOUNDATION = {
    *("errors", "gone", "log", "files", "types", "forms", "form_errors"),
    *("rng", "version", "settings", "registry"),
}
ORDER = (
    *(
        "identity",
        "solvers",
        "graph",
        "privacy",
        "masking",
        "holder",
        "data",
        "methods",
        "transport",
        "faults",
        "config",
    ),
    *("record", "evidence", "predict", "running", "report", "library", "estimators", "auditing", "experiments"),
    *("papers", "cli"),
)
"""Lowest first, as docs/contributing.md lists them."""


def imported(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports, anywhere in it, also for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_module":
            names = [ast.unparse(node.args[0]).strip("'f\"").partition("{")[0].rstrip(".")]
        else:
            continue
        for name in names:
            if name.startswith("admmnet."):
                yield name


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


def test_every_package_has_its_place() -> None:
    assert {room(name) for name in FILES if "." in name} == FOUNDATION | set(ORDER)


def test_imports_follow_the_order() -> None:
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
