"""Shares of the time that drawing by rows and measuring less often take, interleaved in one process.

OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_shares [--repeats 9]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits

from admmnet.privacy.discrete import discrete_rows
from admmnet.rng import AgentStreams, Purpose

from ..privacy import plain_sampler
from .bench_rounds import seconds_of_rounds
from .common import least, row, seconds_of

AT_MOST = {"drawn by rows": 0.3, "measured ten times": 0.8}


processor_seconds = partial(seconds_of, clock=time.process_time)


def drawing() -> tuple[Callable[[], float], Callable[[], float]]:
    """128 rows of 100 numbers: together, and one by one as it was."""
    rngs = [AgentStreams(i, 0)[Purpose.OUTPUT] for i in range(128)]
    s = 1.3 * 2.0**33

    def alone() -> None:
        for rng in rngs:
            plain_sampler.discrete_gaussian(rng, s, 100)

    return processor_seconds(lambda: discrete_rows(rngs, s, 100)), processor_seconds(alone)


def measuring() -> tuple[Callable[[], float], Callable[[], float]]:
    """Rounds of admm, measured as commands do, and every time."""
    rounds = partial(seconds_of_rounds, algorithm="admm")
    return partial(rounds, measure_every="auto"), partial(rounds, measure_every=1)


def main() -> int:
    """Print a table; exit code 1 where a share is too large."""
    parser = argparse.ArgumentParser(description="Shares of the time that two ways to do less take.")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    pairs = {"drawn by rows": drawing(), "measured ten times": measuring()}
    with threadpool_limits(1):
        named = {(name, part): run for name, pair in pairs.items() for part, run in zip("so", pair, strict=True)}
        found: Any = least(named, options.repeats)  # type: ignore[arg-type]
    print(row("", "ms", "without it", "share", "at most"), row(*["---"] * 5), sep="\n")
    missed = False
    for name in pairs:
        ours, before = found[name, "s"], found[name, "o"]
        missed |= not ours / before <= AT_MOST[name]
        print(row(name, f"{1e3 * ours:.1f}", f"{1e3 * before:.1f}", f"{ours / before:.2f}", AT_MOST[name]))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
