"""What a finished run's figure is held against, as its summary.json has it, in words (docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admmnet.record.forms import Summary
from admmnet.record.values import at, real

WORDS = {"larger_class": "always the larger class", "mean": "always the mean", "pooled": "no privacy, pooled"}
"""Names of the references of a summary."""
Told = Summary | Mapping[str, Any] | None
"""A summary, typed or as in its file; None of an unfinished run, which has none of this."""


def yardsticks(summary: Told) -> list[tuple[str, float]]:
    """References in words, with their test figures."""
    values = ((words, real(at(summary, "references", name))) for name, words in WORDS.items())
    return [(words, value) for words, value in values if value is not None]


def one_class(summary: Told) -> str | None:
    """Sentence on a model that gives every test record the same class; None of any other."""
    only = at(summary, "test_error", "one_class")
    return None if only is None else f"one class only: this model says {only!r} for every test record"


def no_better_than(summary: Told) -> tuple[str, float] | None:
    """The reference that looks at no record, where the consensus is no better than that; else None."""
    error = at(summary, "test_error", "consensus")
    guess = next(((words, value) for words, value in yardsticks(summary) if words != WORDS["pooled"]), None)
    return guess if guess is not None and error is not None and error >= guess[1] else None
