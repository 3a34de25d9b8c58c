"""The end of a ledger, read without the rest of it, also while it is written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from admmnet.files import load_json
from admmnet.record.values import at, whole

NEAR, FAR = 4096, 65536
"""Bytes at the end in which the last total is looked for, at first and then."""


class Tail(NamedTuple):
    """How a ledger ends: the last total that it states, and round of the last charge, None before the first."""

    total: Mapping[str, Any] | None
    round: int | None


def ledger_tail(path: Path) -> Tail | None:
    """Return how a ledger ends, unverified; None where nothing can be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            for most in (NEAR, FAR):
                file.seek(max(0, size - most))
                tail = tail_of(file.read(most))
                if tail.round is not None or size <= most:
                    break
    except OSError:
        return None
    return tail


def tail_of(data: bytes) -> Tail:
    """Return how these lines end, of which the first may be cut."""
    total = None
    for text in reversed(data.split(b"\n")[:-1]):
        try:
            line = load_json(text)
        except ValueError:  # the rest of a line that began before
            continue
        total = total or _table(at(line, "total"))
        if (round := whole(at(line, "round"))) is not None and at(line, "kind") == "event":
            return Tail(total, round)
    return Tail(total, None)


def _table(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None
