"""Forms: files of a run as typed values (``msgspec.Struct``), written in one way and read by exactly that way."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from admmnet.errors import CheckFailed, short

Form = TypeVar("Form")
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
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
"""What ``msgspec`` says, and what a person reads in its place."""


def encode(value: Any, *, indent: int | None = None) -> bytes:
    """Return a form as JSON, keys in the order of its fields; with ``indent`` over several lines, for people.

    Raises
    ------
    ValueError
        If a number is not finite: JSON has no word for it.
    """
    found: bytes = msgspec.json.encode(value, enc_hook=_plain)
    if b"null" in found and not _finite(value):  # nan and inf are written as null
        raise ValueError(f"{type(value).__name__} holds a number that is not finite")
    return found if indent is None else msgspec.json.format(found, indent=indent) + b"\n"


def decode(kind: type[Form], text: bytes, where: str = "", *, indent: int | None = None) -> Form:
    """Return the form that ``encode`` would write as this text and no other.

    So a key that is unknown, missing where it is needed, said twice or out of its place is refused, and so is a number
    that is spelt otherwise.

    Parameters
    ----------
    kind : type
        A ``msgspec.Struct``, or a union of tagged ones.
    where : str
        File, and line where it has several, for the message.

    Raises
    ------
    CheckFailed
        It names the place, the key and the fault.
    """
    place = where and f"{where}: "
    try:
        value: Form = _decoder(cast(Hashable, kind)).decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckFailed(f"{place}{said(error, text)}") from None
    if encode(value, indent=indent) != text:
        raise CheckFailed(f"{place}it is not as admmnet writes it: a key or number is unknown, twice, or spelt anew")
    return value


def read_form(kind: type[Form], path: Path, *, indent: int | None = 2) -> Form:
    """Return what ``decode`` makes of a file.

    Raises
    ------
    CheckFailed
        If the file cannot be read, or is not as ``encode`` writes it.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CheckFailed(f"{path}: cannot be read: {error.strerror}") from None
    return decode(kind, text, str(path), indent=indent)


def _finite(value: Any) -> bool:
    if isinstance(value, msgspec.Struct):
        return all(_finite(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, dict | list | tuple):
        return all(map(_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def _plain(value: Any) -> Any:
    """Number of numpy as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no form")


def said(error: Exception, found: Any) -> str:
    """Return what ``msgspec`` says of JSON, or of values that it was to convert, with the value that it refuses."""
    parts = _PLACE.fullmatch(str(error))
    assert parts is not None
    fault, key = parts["fault"], parts["key"]
    for word, plain in _WORDS.items():
        fault = fault.replace(word, plain)
    if not fault.startswith("expected"):
        return f"{key}: {fault}" if key else fault
    fault = re.sub(r"`(.*?)`", lambda kinds: " or ".join(_KINDS.get(k, k) for k in kinds[1].split(" | ")), fault)
    if not key or "[...]" in key:  # some place in a table or list, which msgspec does not name
        return f"{key}: {fault}" if key else fault
    try:
        value = msgspec.json.decode(found) if isinstance(found, bytes) else found
        for name, place in re.findall(r"([^.\[\]]+)(?!\])|\[(\d+)\]", key):
            value = value[name or int(place)]
        return f"{key}: {fault.partition(', got ')[0]}; it is {short(value, 60)}"
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, ValueError):
        return f"{key}: {fault}"


@cache
def _decoder(kind: Hashable) -> Any:
    return msgspec.json.Decoder(kind)
