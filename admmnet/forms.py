"""Forms: files of a run as typed values (``msgspec.Struct``), written in one way and read by exactly that way."""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from admmnet.errors import CheckFailed
from admmnet.form_errors import said

Form = TypeVar("Form")
Kind = TypeVar("Kind")


def encode(value: Any, *, indent: int | None = None) -> bytes:
    """Return a form as JSON, keys in the order of its fields; with ``indent`` over several lines, for people.

    ValueError if a number is not finite: JSON has no word for it.
    """
    found = _written(value, indent)
    if b"null" in found:  # nan and inf are written as null
        json.dumps(msgspec.to_builtins(value, enc_hook=_plain), allow_nan=False)
    return found


def _written(value: Any, indent: int | None) -> bytes:
    found: bytes = msgspec.json.encode(value, enc_hook=_plain)
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
    if _written(value, indent) != text:  # what is not finite, too: it would be null
        raise CheckFailed(f"{place}it is not as admmnet writes it: a key or number is unknown, twice, or spelt anew")
    return value


def read_form(kind: type[Form], path: Path, *, indent: int | None = 2) -> Form:
    """Return what ``decode`` makes of a file.

    CheckFailed if the file cannot be read, or is not as ``encode`` writes it.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CheckFailed(f"{path}: cannot be read: {error.strerror}") from None
    return decode(kind, text, str(path), indent=indent)


def _plain(value: Any) -> Any:
    """Number of numpy as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no form")


_MAKING = threading.Lock()


def ready(kind: Kind) -> Kind:
    """Return a type that msgspec knows whole: whoever converts or decodes to a type asks for it here.

    msgspec ends the process where a thread reads a type that another thread is just reading for the first time.
    """
    _decoder(cast(Hashable, kind))
    return kind


@cache
def _decoder(kind: Hashable) -> Any:
    with _MAKING:
        return msgspec.json.Decoder(kind)
