"""What a finished run's figure is held against, as its summary.json has it, in words (docs/ledger.md).

Of an unfinished run, whose summary is None, there is none of this.
"""

from __future__ import annotations

from admmnet.record.forms import Summary

WORDS = {"larger_class": "always the larger class", "mean": "always the mean", "pooled": "no privacy, pooled"}
"""Names of the references of a summary."""


def yardsticks(summary: Summary | None) -> list[tuple[str, float]]:
    """References in words, with their test figures."""
    values = [] if summary is None else [(words, getattr(summary.references, name)) for name, words in WORDS.items()]
    return [(words, value) for words, value in values if value is not None]


def one_class(summary: Summary | None) -> str | None:
    """Sentence on a model that gives every test record the same class; None of any other."""
    only = None if summary is None else summary.test_error.one_class
    return None if only is None else f"one class only: this model says {only!r} for every test record"


def no_better_than(summary: Summary) -> tuple[str, float] | None:
    """The reference that looks at no record, where the consensus is no better than that; else None."""
    error = summary.test_error.consensus
    guess = next(((words, value) for words, value in yardsticks(summary) if words != WORDS["pooled"]), None)
    return guess if guess is not None and error is not None and error >= guess[1] else None
