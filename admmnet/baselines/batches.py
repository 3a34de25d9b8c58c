"""Batches of records: Poisson, of fixed size, or the parts of a shuffled order. docs/baselines.md, sec. 3.

What each sampling proves is not decided here. L is the nominal batch: Poisson batches have L records on
average, and the last part of an epoch's shuffled order may be shorter; every divisor stays L.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from admmnet.baselines.checks import check_count
from admmnet.errors import RequestError

Sampling = Literal["poisson", "fixed", "shuffled"]
Indices = NDArray[np.int64]


def steps_per_epoch(records: int, batch: int) -> int:
    """Steps that make an epoch, N / L rounded up: the number of parts of a shuffled order."""
    return math.ceil(records / batch)


def draw_batches(
    sampling: Sampling,
    records: int,
    batch: int,
    steps: int,
    rng: np.random.Generator,
    *,
    ordered: bool = False,
) -> Iterator[Indices]:
    """Yield the records of each step.

    What is drawn, in this order:

    - poisson, each step: ``k = rng.binomial(N, L / N)``, then ``rng.choice(N, k, replace=False,
      shuffle=False)``, sorted. That is the law of N independent coins of probability L / N.
    - fixed, each step: ``rng.choice(N, L, replace=False, shuffle=False)``, sorted; if `ordered`,
      ``shuffle=True`` and not sorted.
    - shuffled, at the start of each epoch: ``rng.permutation(N)``, cut into parts of L.

    Parameters
    ----------
    sampling : {"poisson", "fixed", "shuffled"}
        How batches arise.
    records, batch, steps : int
        N; L, from 1 to N; number of batches.
    rng : numpy.random.Generator
        For the batches alone.
    ordered : bool
        Whether the order within a batch matters, so that it must be random.

    Yields
    ------
    ndarray of int64
        Distinct records, 0 to N - 1; a Poisson batch may be empty.

    Raises
    ------
    RequestError
        An unknown sampling, or a number out of range.
    """
    check_count("batch", batch, records, of="the number of records")
    check_count("steps", steps)
    if sampling not in get_args(Sampling):
        known = ", ".join(get_args(Sampling))
        raise RequestError(f"sampling = {sampling!r} is not known; choose one of {known}")
    return _draw(sampling, records, batch, steps, rng, ordered)


def _draw(
    sampling: Sampling, records: int, batch: int, steps: int, rng: np.random.Generator, ordered: bool
) -> Iterator[Indices]:
    parts, order = steps_per_epoch(records, batch), np.empty(0, dtype=np.int64)
    for step in range(steps):
        if sampling == "shuffled":
            part = step % parts
            if part == 0:
                order = rng.permutation(records)
            yield order[part * batch : (part + 1) * batch]
            continue
        size = int(rng.binomial(records, batch / records)) if sampling == "poisson" else batch
        chosen = rng.choice(records, size, replace=False, shuffle=ordered)
        if not ordered:
            chosen.sort()  # neighbours in memory; sums do not depend on the order
        yield chosen
