"""HTML from nested calls: whatever is not ``Raw`` is escaped, so no name or path from a file becomes markup."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any


class Raw(str):
    """Text that is HTML already; only ``tag``, ``join`` and the template make it."""

    __slots__ = ()


def text(value: Any) -> Raw:
    """Return escaped text; HTML stays as it is."""
    return value if isinstance(value, Raw) else Raw(html.escape(str(value), quote=True))


def join(parts: Iterable[Any], between: str = "") -> Raw:
    """Return parts in a row, escaped where they are no HTML; ``between`` is HTML."""
    return Raw(between.join(text(part) for part in parts))


def tag(name: str, *content: Any, **attributes: Any) -> Raw:
    """Return an element; content and attributes that are None are left out.

    In names of attributes ``_`` stands for ``-``, and is dropped at the end; True has no value.
    """
    head = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        head.append(key if value is True else f'{key}="{text(value)}"')
    inner = join(part for part in content if part is not None)
    return Raw(f"<{' '.join(head)}>" if name == "input" else f"<{' '.join(head)}>{inner}</{name}>")


def data(value: Any) -> Raw:
    """Return compact JSON that may stand in a script element, whatever is in it."""
    raw = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return Raw(raw.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def bullets(items: Iterable[Any]) -> Raw:
    """Return a list."""
    return tag("ul", *(tag("li", item) for item in items))


def table(head: Iterable[Any], rows: Iterable[Raw], **attributes: Any) -> Raw:
    """Return a table with column headings, in a box that scrolls sideways where it is too wide."""
    columns = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head)))
    return tag("div", tag("table", columns, tag("tbody", *rows), **attributes), class_="scroll")


def pairs(items: Iterable[tuple[Any, Any]], **attributes: Any) -> Raw:
    """Return a table of two columns: name and value."""
    rows = (tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in items)
    return tag("div", tag("table", tag("tbody", *rows), class_="pairs", **attributes), class_="scroll")
