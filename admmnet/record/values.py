"""Values out of files that may hold anything."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from msgspec import Struct


def at(tree: Any, *keys: str) -> Any:
    """Value below these keys of nested tables, None where something else is in between."""
    for key in keys:
        if not isinstance(tree, Mapping | Struct):
            return None
        tree = tree.get(key) if isinstance(tree, Mapping) else getattr(tree, key, None)
    return tree


def real(value: Any) -> float | None:
    """Return the value if it is a finite number, else None: files may hold anything."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def whole(value: Any) -> int | None:
    """Return the value if it is a whole number of at most 53 bits, which a script can count with, else None."""
    return value if type(value) is int and abs(value) < 1 << 53 else None
