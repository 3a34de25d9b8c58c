"""What the benchmarks share: ratios of times in one process, a toy consensus problem, seeded runs, tables."""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from admmnet import RunConfig, run
from admmnet.data import Records
from admmnet.solvers.certificate import Solution
from admmnet.types import Matrix, Vector

ROUNDS = 30
Shards = dict[int, tuple[Matrix, Vector]]
Solve = Callable[[Matrix, Vector], Iterable[Solution]]
"""Solutions of all agents' local problems, from linear terms (N, d) and quadratic coefficients (N,)."""


class Work(NamedTuple):
    """What the local solves of a run took: CPU seconds, runs over an agent's records, Hessians, solves."""

    seconds: float
    passes: int
    refreshes: int
    solves: int

    def __str__(self) -> str:
        """Time and work of one agent."""
        return (
            f"{1e6 * self.seconds / self.solves:8.1f} us a solve, {self.passes / self.solves:5.2f} passes a solve "
            f"({1e6 * self.seconds / max(1, self.passes):7.1f} us each), "
            f"{self.refreshes / self.solves * ROUNDS:5.2f} Hessians in {ROUNDS} rounds"
        )


def least(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """Least answer of each, repeats interleaved; an answer is its seconds or begins with them."""
    rounds = [{name: run() for name, run in runs.items()} for _ in range(repeats)]
    return {name: min(answers[name] for answers in rounds) for name in runs}


def seconds_of(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    """Function that runs another one and returns how long that took by a clock."""

    def timed() -> float:
        begin = clock()
        run()
        return clock() - begin

    return timed


def peak_memory(run: Callable[[], object]) -> int:
    """Bytes that arrays and objects of a run took at most, since it began or last reset the peak."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def unit_rows(rng: np.random.Generator, n: int, d: int) -> tuple[Matrix, Vector]:
    """Draw rows of norm 1 in random directions; labels of one hyperplane, noise 1/2 on its margin."""
    normal = np.random.default_rng(7).standard_normal(d)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X @ normal + 0.5 * rng.standard_normal(n) >= 0, 1.0, -1.0)


def consensus(
    solve: Solve,
    weights: Any,
    d: int,
    eta: float,
    regularisation: float,
    noise: tuple[float, float] = (0.0, 0.0),
    rounds: int = ROUNDS,
) -> tuple[Work, Matrix]:
    """Run decentralised ADMM (Ding et al. 2020, eqs. (3)-(7)) on a graph's adjacency matrix (N, N).

    ``noise`` are the standard deviations in linear terms and broadcasts. The time is that of the solves alone.
    """
    rng, degree = np.random.default_rng(3), weights.sum(axis=1)[:, None]
    theta = dual = np.zeros((len(degree), d))
    m, seconds, passes, refreshes = regularisation + 2.0 * eta * degree[:, 0], 0.0, 0, 0
    for _ in range(rounds):
        g = 2.0 * dual - eta * (degree * theta + weights @ theta)
        g += noise[0] * rng.standard_normal(g.shape)
        begin = time.process_time()
        found = list(solve(g, m))
        seconds += time.process_time() - begin
        passes += sum(answer.passes for answer in found)
        refreshes += sum(answer.refreshes for answer in found)
        theta = np.array([answer.theta for answer in found]) + noise[1] * rng.standard_normal(g.shape)
        dual = dual + 0.5 * eta * (degree * theta - weights @ theta)
    return Work(seconds, passes, refreshes, rounds * len(degree)), theta


def summary_of(loader: Any = None, on_start: Any = None, on_round: Any = None, **settings: Any) -> dict[str, Any]:
    """Summary of a run whose folder is thrown away; the calls are those of `admmnet.run`."""
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(out=f"{folder}/run", **settings)
        return run(config, loader=loader, on_start=on_start, on_round=on_round).summary


def made(shards: Shards, agents: int, size: int, test: tuple[Matrix, Vector]) -> Records:
    """Records of so many agents of one size, of whom some have their shards here."""
    names = tuple(f"x{k}" for k in range(test[0].shape[1]))
    return Records("made", shards, dict.fromkeys(range(agents), size), *test, names, "public-bounds")


def row(*cells: object) -> str:
    """Line of a markdown table."""
    return f"| {' | '.join(map(str, cells))} |"
