"""Whether one column swallows the others once rows have norm 1; all of it is computed from records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from admmnet.data.records import Records
from admmnet.data.rows import INTERCEPT
from admmnet.data.schema import Numeric
from admmnet.data.source import Source

LARGEST = 0.9
"""Share of the rows' squared length above which one feature leaves little of the others."""
FILLED = 0.05
"""Share of its bounds below which the values of a column hardly differ."""
_ROWS = 2000
REMEDY = (
    "declare low and high of every column in [data.schema] (`admmnet data draft` proposes them); of rows without "
    "columns scales, or take --normalise columns"
)


def swallowing(X: Any, names: Sequence[str]) -> str | None:
    """What to say where one feature makes up most of rows of norm 1, dense (n, d) or CSR; None if none does."""
    some = X[:_ROWS]
    if len(names) < 3 or not some.shape[0]:
        return None
    squares = np.asarray(some.multiply(some).sum(axis=0) if hasattr(some, "multiply") else (some**2).sum(axis=0))
    share = squares.ravel() / some.shape[0]
    j = int(np.argmax(share))
    if share[j] <= LARGEST:
        return None
    what = "the constant column" if names[j] == INTERCEPT else f"feature {names[j]!r}"
    return f"{what} makes up {share[j]:.1%} of the rows' squared length, so that the others hardly count: {REMEDY}"


def swallowed(records: Records) -> str | None:
    """As ``swallowing`` of the rows of the first agent there is: a figure of records, for simulations alone."""
    return next((swallowing(X, records.feature_names) for _, (X, _) in sorted(records.shards.items())), None)


def unfilled(source: Source) -> Iterator[str]:
    """What to say of declared bounds of which the values take a small part."""
    for rule in source.schema.rules:
        if not isinstance(rule, Numeric) or rule.low is None or rule.high is None or rule.scale == "log":
            continue
        values = source.table.column(rule.column).values(source.schema.spelling, missing=True)
        if values is None or np.isnan(values).all():
            continue
        inside = np.clip(values, rule.low, rule.high)
        part = float((np.nanmax(inside) - np.nanmin(inside)) / (rule.high - rule.low))
        if part < FILLED:
            yield (
                f"column {rule.column!r} takes {part:.2%} of its bounds, {rule.low:g} to {rule.high:g}, so that it "
                'counts: narrow them, or take scale = "log"'
            )
