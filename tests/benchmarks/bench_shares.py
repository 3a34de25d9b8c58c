"""Shares of the time that drawing by rows, measuring less often and kept tables take, interleaved in one process.

OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_shares [--repeats 9] [--data-dir DIR]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

from admmnet.data import DataSettings, load
from admmnet.privacy.discrete import discrete_rows
from admmnet.rng import AgentStreams, Purpose

from ..privacy import plain_sampler
from .bench_rounds import AGENTS, ROWS, gaussian_records
from .common import ROUNDS, least, made, row, summary_of

AT_MOST = {"drawn by rows": 0.3, "measured ten times": 0.8, "kept table": 0.2}


def processor_seconds(run: Callable[[], object]) -> Callable[[], float]:
    """Function that runs another one and returns how much processor time that took."""

    def timed() -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    return timed


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
    shards, test = dict(enumerate(gaussian_records())), gaussian_records(3500)[0]

    def rounds(every: Any) -> float:
        ends: list[float] = []
        summary_of(
            lambda *_: made(dict(shards), AGENTS, ROWS, test),
            lambda *_: ends.append(time.process_time()),
            lambda *_: ends.append(time.process_time()),
            seed=0,
            rounds=ROUNDS,
            topology=f"erdos-renyi:{AGENTS}:0.5",
            topology_seed=1,
            algorithm="admm",
            measure_every=every,
        )
        return ends[-1] - ends[0]

    return partial(rounds, "auto"), partial(rounds, 1)


def reading(folder: str | None) -> tuple[Callable[[], float], Callable[[], float]]:
    """Adult from the cache, and from its files."""
    settings = DataSettings(data="adult", data_dir=folder)
    files = DataSettings(data="adult", data_dir=folder, no_cache=True)
    load(settings, 5, range(5))  # keeps it
    return processor_seconds(lambda: load(settings, 5, range(5))), processor_seconds(lambda: load(files, 5, range(5)))


def main() -> int:
    """Print a table; exit code 1 where a share is too large."""
    parser = argparse.ArgumentParser(description="Shares of the time that three ways to do less take.")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--data-dir", help="folder of data sets, with adult in it")
    options = parser.parse_args()
    pairs = {"drawn by rows": drawing(), "measured ten times": measuring()}
    with threadpool_limits(1), pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as cache:
        patch.setenv("XDG_CACHE_HOME", cache)
        if options.data_dir is not None:
            pairs["kept table"] = reading(str(Path(options.data_dir)))
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
