"""What a finished run's figure is held against, as its summary.json has it, in words (docs/run-folder.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORDS = {"larger_class": "always the larger class", "mean": "always the mean", "pooled": "no privacy, pooled"}
"""Names of the references of a summary."""


def yardsticks(summary: Mapping[str, Any]) -> list[tuple[str, float]]:
    """References in words, with their test figures; nothing where an older run has none."""
    values = ((words, _number(summary.get("references"), name)) for name, words in WORDS.items())
    return [(words, value) for words, value in values if value is not None]


def one_class(summary: Mapping[str, Any]) -> str | None:
    """Sentence on a model that gives every test record the same class; None of any other, and of older runs."""
    said = summary.get("test_error")
    only = said.get("one_class") if isinstance(said, Mapping) else None
    return f"one class only: this model says {only!r} for every test record" if isinstance(only, str) else None


def _number(table: object, name: str) -> float | None:
    value: Any = table.get(name) if isinstance(table, Mapping) else None
    return float(value) if type(value) in (int, float) and abs(value) <= 1e300 else None  # no nan


def no_better_than(summary: Mapping[str, Any]) -> tuple[str, float] | None:
    """The reference that looks at no record, where the consensus is no better than that; else None."""
    error = _number(summary.get("test_error"), "consensus")
    guess = next(((words, value) for words, value in yardsticks(summary) if words != WORDS["pooled"]), None)
    return guess if guess is not None and error is not None and error >= guess[1] else None
