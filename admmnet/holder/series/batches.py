"""Batches of records: Poisson, of fixed size, or the parts of a shuffled order. docs/methods.md, "Batches".

What each sampling proves is not decided here. L is the nominal batch: Poisson batches have L records on
average, and the last part of an epoch's shuffled order may be shorter; every divisor stays L.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SAMPLINGS = ("poisson", "fixed", "shuffled")
RecordIndices = NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class SeriesProgress:
    """How far a series is; what it keeps besides are the fields of its own kind, arrays and numbers."""

    step: int = 0  # taken
    # the epoch's order of the records, where batches are its parts
    order: RecordIndices = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)


def steps_per_epoch(records: int, batch: int) -> int:
    """Steps that make an epoch, N / L rounded up: the number of parts of a shuffled order."""
    return math.ceil(records / batch)


def draw_batches(
    sampling: str,
    records: int,
    batch: int,
    steps: int,
    rng: np.random.Generator,
    *,
    ordered: bool = False,
    progress: SeriesProgress | None = None,
) -> Iterator[RecordIndices]:
    """Yield the records of each step, from the step on that ``progress`` has reached.

    What is drawn, in this order:

    - poisson, each step: ``k = rng.binomial(N, L / N)``, then ``rng.choice(N, k, replace=False,
      shuffle=False)``, sorted. That is the law of N independent coins of probability L / N.
    - fixed, each step: ``rng.choice(N, L, replace=False, shuffle=False)``, sorted; if `ordered`,
      ``shuffle=True`` and not sorted.
    - shuffled, at the start of each epoch: ``rng.permutation(N)``, cut into parts of L.

    ``steps`` is the number of batches of the whole series, ``rng`` for the batches alone; ``ordered`` says whether the
    order within a batch matters, so that it must be random. Records of a batch are distinct; a Poisson
    batch may be empty.
    """
    parts, at = steps_per_epoch(records, batch), progress or SeriesProgress()
    while at.step < steps:
        part = at.step % parts
        at.step += 1
        if sampling == "shuffled":
            if part == 0:
                at.order = rng.permutation(records)
            yield at.order[part * batch : (part + 1) * batch]
            continue
        size = int(rng.binomial(records, batch / records)) if sampling == "poisson" else batch
        chosen = rng.choice(records, size, replace=False, shuffle=ordered)
        if not ordered:
            chosen.sort()  # neighbours in memory; sums do not depend on the order
        yield chosen
