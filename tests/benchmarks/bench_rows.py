"""Rounds of many agents by rows and one by one, in turn in one process: processor time, and the same bytes.

OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_rows [--agents 1000] [--rounds 6] [--repeats 5]

One by one is the path of faults and of methods from outside: questions of a block are answered together there, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

from admmnet.data import Records
from admmnet.methods.rows import rows_of
from admmnet.running import together
from admmnet.running.rounds import Rounds

from .common import least, made, row, summary_of, unit_rows

SHAPES = (100, 100), (10, 20)
AT_MOST = {("noisy-gd", 100): 0.5, ("noisy-gd", 10): 0.5, ("pp-admm", 100): 1.0, ("pp-admm", 10): 0.9}
"""Most that a round by rows may take of one agent by agent."""


def rounds_of(algorithm: str, records: Records, agents: int, rounds: int, way: Any) -> Callable[[], float]:
    """Function that returns the processor seconds of all rounds but the first, where blocks warm up."""

    def timed() -> float:
        ends: list[float] = []
        run = Rounds.run

        def ended(own: Rounds, round: int) -> bool:
            said = run(own, round)
            ends.append(time.process_time())
            return said

        with patch.object(together, "rows_of", way), patch.object(Rounds, "run", ended):
            settings: dict[str, Any] = {"algorithm": algorithm, "seed": 0, "rounds": rounds, "epsilon": 5.0}
            summary_of(loader=lambda *_: records, topology=f"regular:{agents}:4", measure_every=rounds, **settings)
        return ends[-1] - ends[0]

    return timed


def main() -> int:
    """Print a table; exit code 1 where a quotient is too large."""
    parser = argparse.ArgumentParser(description="Rounds of many agents by rows and one by one.")
    for name, value in {"agents": 1000, "rounds": 6, "repeats": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    words = parser.parse_args()
    missed = False
    print(row("", "us an agent-round", "one by one", "quotient", "at most"), row(*["---"] * 5), sep="\n")
    for (algorithm, size), most in AT_MOST.items():
        rng = np.random.default_rng(0)
        shards = {i: unit_rows(rng, size, dict(SHAPES)[size]) for i in range(words.agents)}
        records = made(shards, words.agents, size, shards[0])
        ways: dict[str, Any] = {"rows": rows_of, "single": lambda *_, **__: None}
        runs = {name: rounds_of(algorithm, records, words.agents, words.rounds, way) for name, way in ways.items()}
        found = least(runs, words.repeats)
        ours, before = (1e6 * found[name] / words.agents / (words.rounds - 1) for name in ways)
        missed |= not ours / before <= most
        shape = f"{algorithm}, {size} x {dict(SHAPES)[size]}"
        print(row(shape, f"{ours:.1f}", f"{before:.1f}", f"{ours / before:.2f}", most), flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
