"""What ``msgspec`` says of a value that has another form, in plain words."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from admmnet.errors import short

_PLACE = re.compile(r"(?P<fault>.*?)(?: - at `\$\.?(?P<key>.*)`)?", re.DOTALL)
_WORDS = {
    "Expected ": "expected ",
    "Object contains unknown field": "unknown key",
    "Object missing required field": "missing key",
    "of length >=": "of length at least",
    ">=": "of at least",
    "<=": "of at most",
    ">": "above",
    "<": "below",
}
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
"""What ``msgspec`` says, and what a person reads in its place."""


def said(error: Exception, found: Any) -> str:
    """Return what ``msgspec`` says of JSON, or of values that it was to convert, with the value that it refuses."""
    parts = _PLACE.fullmatch(str(error))
    assert parts is not None
    fault, key = parts["fault"], parts["key"]
    for word, plain in _WORDS.items():
        fault = fault.replace(word, plain)
    if not fault.startswith("expected"):
        return f"{key}: {fault}" if key else fault
    fault = re.sub(r"`(.*?)`", lambda kinds: " or ".join(KINDS.get(k, k) for k in kinds[1].split(" | ")), fault)
    if not key or "[...]" in key:  # some place in a table or list, which msgspec does not name
        return f"{key}: {fault}" if key else fault
    try:
        value = msgspec.json.decode(found) if isinstance(found, bytes) else found
        for name, place in re.findall(r"([^.\[\]]+)(?!\])|\[(\d+)\]", key):
            value = value[name or int(place)]
        return f"{key}: {fault.partition(', got ')[0]}; it is {short(value, 60)}"
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, ValueError):
        return f"{key}: {fault}"
