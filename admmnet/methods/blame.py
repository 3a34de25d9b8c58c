"""Faults of a method of another package: told with the file and line of its author, not as ours."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from admmnet.errors import AdmmnetError, RequestError

PACKAGE = __name__.partition(".")[0]


@contextmanager
def blaming(kind: type, error: type[AdmmnetError] = RequestError) -> Iterator[None]:
    """Raise ``error`` with file, line and function where an author's class, not ours, raises what is none of ours.

    AdmmnetError as ``m5.py:46, propose: ValueError: ...``, of the deepest line in the author's file.
    """
    try:
        yield
    except AdmmnetError:
        raise
    except Exception as fault:
        place = _place(kind, fault)
        if isinstance(fault, NotImplementedError):
            name = traceback.extract_tb(fault.__traceback__)[-1].name
            raise error(
                f"{kind.__module__}.{kind.__qualname__} has no {name}(): docs/contributing.md describes it"
            ) from fault
        if place is None:
            raise
        raise error(f"{place}: {type(fault).__name__}: {fault}") from fault


def defined(kind: type, name: str) -> str:
    """Where a class's function is defined, as ``m5.py:46, propose``."""
    code = getattr(getattr(kind, name), "__code__", None)
    return name if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}, {name}"


def asking(steps: Any, kind: type, fault: BaseException) -> str:
    """Where a method's generator waits for an answer, or raised: the deepest line that is not ours, or nothing."""
    place = ""
    while (frame := getattr(steps, "gi_frame", None)) is not None:
        if frame.f_globals["__name__"].partition(".")[0] != PACKAGE:
            place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}, {frame.f_code.co_name}"
        steps = steps.gi_yieldfrom
    return place or _place(kind, fault) or ""


def _place(kind: type, fault: BaseException) -> str | None:
    """Deepest line in a file of the author's that a function of the class leads to; None where there is none."""
    authors = {base.__module__ for base in kind.__mro__ if base is not object}
    authors = {name for name in authors if name.partition(".")[0] != PACKAGE}
    own, found = tuple(f"{base.__qualname__}." for base in kind.__mro__ if base.__module__ in authors), None
    for frame, line in traceback.walk_tb(fault.__traceback__):
        code = frame.f_code
        theirs = frame.f_globals.get("__name__") in authors
        if theirs and (found is not None or code.co_qualname.startswith(own)):
            found = f"{Path(code.co_filename).name}:{line}, {code.co_name}"
    return found
