"""Where the time of a run goes: a pass over the records, rounds, and the whole command, each over a yardstick.

Five agents with 7,000 unit rows in 104 dimensions each, 30 rounds. Passes go through the agents' records in turn, which
together are larger than most caches: their yardstick is reading them once. That of rounds is warm-started L-BFGS on
the same local problems (`bench_solve`), that of the command an interpreter that imports numpy.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_rounds [--repeats 9]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from admmnet.solvers.certificate import gradient
from admmnet.solvers.losses import LOSSES
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Vector

from ..processes.launch import mpirun_path
from .bench_solve import (
    AGENTS,
    DIMENSION,
    ETA,
    REGULARISATION,
    ROWS,
    TOLERANCE,
    accelerated,
    gaussian_records,
    graph,
    yardstick,
)
from .common import ROUNDS, Solve, consensus, least, made, row, summary_of

LOSS = LOSSES["logistic"]
TEST = 3500


def passes(repeats: int) -> None:
    """Time passes, interleaved; all over the time of reading the records."""
    records = gaussian_records()
    theta = 3.0 * np.random.default_rng(5).standard_normal(DIMENSION)

    def timed(work: Callable[[Any, Vector], Any], shards: list[tuple[Any, Vector]]) -> Callable[[], float]:
        def once() -> float:
            begin = time.perf_counter()
            for X, y in shards:
                work(X, y)
            return (time.perf_counter() - begin) / len(shards)

        return once

    solvers = [LocalSolver(X, y, LOSS) for X, y in records]
    for solver in solvers:
        solver.solve(np.zeros(DIMENSION), 1.0, 1e-6)
    known = {id(solver.X): solver for solver in solvers}
    runs = {
        "read once": timed(lambda X, y: X.max(), records),
        "gradient": timed(lambda X, y: gradient(X, y, theta, LOSS), records),
        "losses, anywhere": timed(lambda X, y: known[id(X)].mean_losses(theta), records),
        "losses, at the answer": timed(lambda X, y: known[id(X)].mean_losses(known[id(X)].state.theta), records),
    }
    found = least(runs, repeats * 5)
    print(row("pass", "ms", "over reading"), row("---", "---", "---"), sep="\n")
    for name, seconds in found.items():
        print(row(name, f"{1e3 * seconds:.3f}", f"{seconds / found['read once']:.2f}"))


def rounds(repeats: int) -> None:
    """Time whole rounds, solves, losses, errors and ledgers included, against L-BFGS's solves alone.

    Both stop at one tolerance; the automatic beta of `admm` is looser.
    """
    records = gaussian_records()
    shards, test = dict(enumerate(records)), gaussian_records(TEST)[0]

    def ours(**settings: Any) -> float:
        ends: list[float] = []
        summary_of(
            lambda *_: made(dict(shards), AGENTS, ROWS, test),
            lambda *_: ends.append(time.process_time()),
            lambda *_: ends.append(time.process_time()),
            seed=0,
            rounds=ROUNDS,
            topology=f"erdos-renyi:{AGENTS}:0.5",
            topology_seed=1,
            **settings,
        )
        return ends[-1] - ends[0]

    def theirs(solver: Callable[[Any], Solve]) -> float:  # made anew: it starts where its last solve ended
        return consensus(solver(records), graph(), DIMENSION, ETA, REGULARISATION)[0].seconds

    private = {"algorithm": "pp-admm", "epsilon": 5.0}
    found = least(
        {
            "L-BFGS": partial(theirs, yardstick),
            "decent-bench": partial(theirs, accelerated),
            "admm": partial(ours, algorithm="admm", beta=TOLERANCE),
            "admm, measured every 10": partial(ours, algorithm="admm", beta=TOLERANCE, measure_every=10),
            "admm, automatic beta": partial(ours, algorithm="admm"),
            "pp-admm": partial(ours, **private),
            "pp-admm, measured every 10": partial(ours, **private, measure_every=10),
        },
        repeats,
    )
    others = ("L-BFGS", "decent-bench")
    print(row("30 rounds", "s", *(f"{other} over it" for other in others)), row(*["---"] * 4), sep="\n")
    for name, seconds in found.items():
        print(row(name, f"{seconds:.3f}", *(f"{found[other] / seconds:.2f}" for other in others)))


def commands(repeats: int) -> None:
    """Processor time of whole commands on the census set, over an interpreter's that imports what they cannot avoid."""

    def used(*words: str, ranks: int = 0) -> float:
        before, launch = resource.getrusage(resource.RUSAGE_CHILDREN), (mpirun_path(), "-n", str(ranks))
        command = [*(launch if ranks else ()), sys.executable, *words]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def command(ranks: int = 0) -> float:
        with tempfile.TemporaryDirectory() as folder:
            asked = ("--algorithm", "admm", "--seed", "0", "--rounds", "30", "--quiet")
            words = "-m", "admmnet", "run", "--data", "census", *asked, "--out", os.path.join(folder, "run")
            return used(*words, ranks=ranks)

    runs = {
        "imports": lambda: used("-c", "import numpy"),
        "admmnet --help": lambda: used("-m", "admmnet", "--help"),
        "admmnet run": command,
        "mpirun -n 5, imports": lambda: used("-c", "import numpy", ranks=5),
        "mpirun -n 5 admmnet run": lambda: command(5),
    }
    found = least(runs, repeats)
    print(row("command", "s", "over the imports"), row("---", "---", "---"), sep="\n")
    for name, seconds in found.items():
        print(row(name, f"{seconds:.2f}", f"{seconds / found['imports']:.2f}"))


def main() -> None:
    """Print three tables."""
    parser = argparse.ArgumentParser(description="Passes, rounds and commands, each over a yardstick.")
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    with threadpool_limits(1):
        for part in (passes, rounds, commands):
            part(repeats)
            print()


if __name__ == "__main__":
    main()
