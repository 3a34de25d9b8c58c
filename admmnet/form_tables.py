"""Forms in other words, made of their types and docstrings: tables of keys for the docs, and JSON Schemas."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec


def keys(kind: type) -> dict[str, str]:
    """Keys of a form and their meanings: from ``told`` at each, or from its docstring and those of its bases.

    Of a docstring keys that share one description are joined by commas.
    """
    _, forms = msgspec.json.schema_components([kind])
    properties = forms.get(kind.__name__, {}).get("properties", {})
    found = {name: form["description"] for name, form in properties.items() if "description" in form}
    for base in reversed(kind.__mro__[:-1]):
        _, rule, told = inspect.cleandoc(base.__doc__ or "").partition("\n----------\n")
        name = ""
        for line in told.splitlines() if rule else ():
            if line.startswith(" "):
                found[name] = f"{found[name]} {line.strip()}".strip().replace("``", "`")
            elif line:
                name = line.partition(" : ")[0]
                found[name] = ""
    return found


def summary(kind: type) -> str:
    """First paragraph of its docstring."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())


def table(kind: type) -> str:
    """Return a Markdown table of the keys of a form."""
    properties, rows = schema([kind])[kind.__name__]["properties"], ["| key | meaning |", "|---|---|"]
    for names, told in keys(kind).items():
        known = [properties.get(name, {}) for name in names.split(", ")]
        values = [f"`{value}`" for form in known[:1] for value in form.get("enum", ()) if len(form["enum"]) > 1]
        choice = f"{told}: {' or '.join(values)}" if values and not any(value in told for value in values) else told
        rows.append(f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {choice} |")
    return "\n".join(rows)


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
