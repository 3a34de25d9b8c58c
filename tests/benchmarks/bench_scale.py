"""Whole runs of many agents in one process: time an agent-round, against one holder of all records, and memory.

    OPENBLAS_NUM_THREADS=1 python tests/benchmarks/bench_scale.py [--agents 100,1000,10000] [--rounds 30]

Every agent has 100 records of 100 features on a random 4-regular graph; pp-admm, seeded. A round is timed whole:
proposals, ledgers, messages, measuring, metrics.csv. The yardstick is the
CPU time of as many passes over all records at once as the agents take on average (solves, and one for the two
training losses of a seeded round), in the same process.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig, run
from admmnet.blocks.solve import BlockSolver
from admmnet.data import DataSettings, Records
from admmnet.losses import get_loss
from admmnet.solve import Solution, gradient

RECORDS, FEATURES = 100, 100


def records(agents: int) -> Records:
    """Rows of norm 1 with noisy linear labels."""
    stream = np.random.default_rng(0)
    truth = stream.standard_normal(FEATURES)
    shards = {}
    for i in range(agents):
        X = stream.standard_normal((RECORDS, FEATURES))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        shards[i] = (X, np.where(X @ truth + 0.3 * stream.standard_normal(RECORDS) > 0.0, 1.0, -1.0))
    X_test, y_test = shards[0][0].copy(), shards[0][1].copy()
    names = tuple(f"x{k}" for k in range(FEATURES))
    counts = dict.fromkeys(range(agents), RECORDS)
    return Records("made", shards, counts, X_test, y_test, names, "public-bounds")


def peak() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0


def measure(agents: int, rounds: int) -> None:
    """Print one line."""
    solved: list[int] = []
    solve: Any = BlockSolver.solve

    def counted(self: BlockSolver, *asked: Any) -> Any:
        found = solve(self, *asked)
        solved.extend(answer.passes for answer in found if isinstance(answer, Solution))
        return found

    before = peak()
    data = records(agents)
    # what a pass over all records in one place costs, a part of them at a time where they are very many
    some = min(agents, 250)
    X, y = (np.concatenate([data.shards[i][k] for i in range(some)]) for k in (0, 1))
    theta, loss, times = np.full(FEATURES, 0.1), get_loss("logistic"), []
    for _ in range(7):
        start = time.process_time()
        gradient(X, y, theta, loss)
        times.append(time.process_time() - start)
    one_pass = float(np.median(times)) * agents / some
    del X, y
    ends: list[float] = []

    def loader(settings: DataSettings, count: int, wanted: Any) -> Records:
        return data

    setattr(BlockSolver, "solve", counted)  # noqa: B010
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(
            algorithm="pp-admm",
            seed=0,
            rounds=rounds,
            epsilon=5.0,
            topology=f"regular:{agents}:4",
            out=f"{folder}/run",
        )
        run(config, loader=loader, on_round=lambda round, error: ends.append(time.process_time()))
    cpu = (ends[-1] - ends[0]) * rounds / (rounds - 1)
    passes = sum(solved) / len(solved) + 1.0
    size = agents * RECORDS * FEATURES * 8 / 1e6
    print(
        f"{agents:6d} agents: {cpu:7.2f} s CPU, {cpu / agents / rounds * 1e6:6.1f} us an agent-round of {passes:.2f} "
        f"passes; {cpu / (rounds * passes * one_pass):.2f} x as many passes over all records at once; memory "
        f"{peak() - before:.0f} MB, {(peak() - before) / size:.2f} x the records"
    )


def main() -> None:
    """Every size in a process of its own, so that its memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default="100,1000,10000")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--here", action="store_true", help="measure in this process")
    words = parser.parse_args()
    for agents in map(int, words.agents.split(",")):
        if words.here:
            measure(agents, words.rounds)
            continue
        command = [sys.executable, str(Path(__file__)), "--agents", str(agents), "--here"]
        subprocess.run([*command, "--rounds", str(words.rounds)], check=True, timeout=1800)


if __name__ == "__main__":
    main()
