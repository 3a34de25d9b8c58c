"""JSON Schemas of forms, made of their types and docstrings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from typing import Any

import msgspec


def keys(kind: type) -> dict[str, str]:
    """Keys of a form, those that one description has joined by commas, from the texts behind its fields."""
    found: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith("admmnet.")]):
        names: list[str] = []
        for node in ast.walk(ast.parse(inspect.getsource(base))):
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
                names.append(ast.unparse(node.target))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and names:
                found[", ".join(names)] = " ".join(str(node.value.value).split()).replace("``", "`")
                names = []
    return found


def summary(kind: type) -> str:
    """First paragraph of its docstring."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())


def schema(kinds: Iterable[type]) -> dict[str, Any]:
    """Return the JSON Schemas of forms by their names, every key with its description."""
    chosen = list(kinds)
    _, found = msgspec.json.schema_components(chosen, ref_template="#/$defs/{name}")
    for kind in chosen:
        own = found[kind.__name__]
        own |= {"description": summary(kind), "additionalProperties": False}
        for names, told in keys(kind).items():
            for name in names.split(", "):
                own["properties"][name]["description"] = told
    return found
