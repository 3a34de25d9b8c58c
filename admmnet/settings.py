"""A setting: its table, help and range in one place, and the check that names value, bound and remedy."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from admmnet.errors import RequestError


def setting(
    default: Any,
    table: str,
    help: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    choices: tuple[str, ...] = (),
    metavar: str = "",
) -> Any:
    """Field with the table it belongs to, its help and its range; ``open_`` bounds are excluded."""
    meta = {
        "table": table,
        "help": help,
        "low": low,
        "high": high,
        "open_low": open_low,
        "open_high": open_high,
        "choices": choices,
        "metavar": metavar,
    }
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=meta)
    return field(default=default, metadata=meta)


def _range(meta: Mapping[str, Any]) -> str:
    if meta["choices"]:
        return "one of " + ", ".join(meta["choices"])
    low, high = meta["low"], meta["high"]
    parts = []
    if low > -math.inf:
        parts.append(f"{'above' if meta['open_low'] else 'at least'} {low:g}")
    if high < math.inf:
        parts.append(f"{'below' if meta['open_high'] else 'at most'} {high:g}")
    return " and ".join(parts) or "any value"


def checked(name: str, value: Any, described: tuple[str, Mapping[str, Any]]) -> Any:
    """Return the value as its setting's kind.

    Parameters
    ----------
    name : str
        How the message calls it.
    value : object
        What a file, a flag or a caller gave.
    described : tuple
        Annotation of the field, such as ``"float | Auto"``, and its metadata.

    Raises
    ------
    RequestError
        If it is not of that kind or out of range.
    """
    kind, meta = described
    if value is None and "None" in kind:
        return None
    if value == "auto" and "Auto" in kind:
        return value
    for base in ("dict", "bool", "int", "float", "str"):
        if kind.startswith(base):
            return of_kind(name, value, base, meta, auto="Auto" in kind)
    raise AssertionError(kind)


def of_kind(name: str, value: Any, base: str, meta: Mapping[str, Any], *, auto: bool) -> Any:
    """Check one value against its base type and its bounds."""
    words = {
        "dict": "a table",
        "bool": "true or false",
        "int": "a whole number",
        "float": "a number",
        "str": "text",
    }
    wanted = words[base] + (" or 'auto'" if auto else "")

    def wrong() -> RequestError:
        bound = "" if base in ("dict", "bool", "str") and not meta["choices"] else f", {_range(meta)}"
        return RequestError(f"{name} = {value!r} is not allowed: it must be {wanted}{bound}")

    if base in ("dict", "bool", "str"):
        if not isinstance(value, {"dict": dict, "bool": bool, "str": str}[base]):
            raise wrong()
        if isinstance(value, str) and not value.isprintable():
            raise wrong()  # surrogates of undecodable bytes could be written nowhere
        if value == "" or (meta["choices"] and value not in meta["choices"]):
            raise wrong()
        return value
    usable = (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    )
    if not usable or (base == "int" and value != int(value)):
        raise wrong()
    number = int(value) if base == "int" else float(value)
    below = number < meta["low"] or (meta["open_low"] and number <= meta["low"])
    above = number > meta["high"] or (meta["open_high"] and number >= meta["high"])
    if below or above:
        raise wrong()
    return number
