"""Speed and memory, each over a yardstick that is timed in the same run: processor seconds, on idle cores.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.speed PART [--repeats 9] [--data-dir DIR]

- solves: five agents of 7,000 x 104 records, 30 rounds of local solves, over warm-started L-BFGS on the same problems,
  which computes scores once for value and gradient together; passes; memory over the records'.
- rounds: whole rounds of these agents, over L-BFGS's solves alone.
- passes: a pass over an agent's records, over reading them once; all agents' are larger than most caches.
- baselines: an epoch of DP-SCD and DP-SGD over a pass of numpy; with --data-dir sdca on Adult over liblinear.
- journal: a round in the journal of an agent on a host of its own: encoding, write and fsync.

Both solvers stop at 1e-6: L-BFGS in the largest entry of the gradient, ours in its certified 2-norm, which is stricter.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from scipy.optimize import minimize

from admmnet.data import DataSettings, load
from admmnet.graph import network_of
from admmnet.holder import SimulatedHolder
from admmnet.holder.outbox import Answered
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.coordinate import DualSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.sdca import ExactPasses, primal, run_series
from admmnet.record.journal import Heard, Round, Run, Said, record_bytes
from admmnet.running.journal import Journal
from admmnet.solvers.certificate import Compiled, Solution, chosen, gradient
from admmnet.solvers.losses import Logistic
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector

from .common import Timed, heads, least, made, main, row, seconds_of, summary_of, unit_rows

LOSS, ROUNDS = Logistic(), 30
AGENTS, ROWS, WIDTH, TEST = 5, 7000, 104, 3500
ETA, REGULARISATION, TOLERANCE = 0.003, 1e-3, 1e-6
TOPOLOGY = f"erdos-renyi:{AGENTS}:0.5"
GRAPH = nx.to_numpy_array(nx.Graph(list(network_of(TOPOLOGY, agents=None, seed=1).edges)), nodelist=range(AGENTS))
Solve = Callable[[Matrix, Vector], Iterable[Any]]
"""Solutions of all agents' local problems, from linear terms (N, d) and quadratic coefficients (N,)."""
Asked = argparse.Namespace


class Work(NamedTuple):
    """Processor seconds of the local solves of a run, runs over an agent's records, and solves."""

    seconds: float
    passes: int
    solves: int

    def __str__(self) -> str:
        """Time and work of one agent."""
        each, passes = 1e6 * self.seconds / self.solves, self.passes / self.solves
        return f"{each:8.1f} us a solve of {passes:5.2f} passes ({each / passes:7.1f} us each)"


def consensus(solve: Solve, weights: Any, d: int, eta: float, share: float, noise: tuple[float, float]) -> Work:
    """Run decentralised ADMM (Ding et al. 2020, eqs. (3)-(7)) on a graph's adjacency matrix (N, N).

    ``noise`` are the standard deviations in linear terms and broadcasts. The time is that of the solves alone.
    """
    rng, degree = np.random.default_rng(3), weights.sum(axis=1)[:, None]
    theta = dual = np.zeros((len(degree), d))
    m, seconds, passes = share + 2.0 * eta * degree[:, 0], 0.0, 0
    for _ in range(ROUNDS):
        g = 2.0 * dual - eta * (degree * theta + weights @ theta)
        g += noise[0] * rng.standard_normal(g.shape)
        begin = time.process_time()
        found = list(solve(g, m))
        seconds += time.process_time() - begin
        passes += sum(answer.passes for answer in found)
        theta = np.array([answer.theta for answer in found]) + noise[1] * rng.standard_normal(g.shape)
        dual = dual + 0.5 * eta * (degree * theta - weights @ theta)
    return Work(seconds, passes, ROUNDS * len(degree))


def records_of(rows: int = ROWS) -> list[tuple[Matrix, Vector]]:
    return [unit_rows(np.random.default_rng([7, 1000 + i]), rows, WIDTH) for i in range(AGENTS)]


def ours(records: list[tuple[Matrix, Vector]]) -> Solve:
    solvers = [LocalSolver(X, y, LOSS, chosen("auto")) for X, y in records]
    return lambda g, m: [solver.solve(g[i], float(m[i]), TOLERANCE) for i, solver in enumerate(solvers)]


def lbfgs(records: list[tuple[Matrix, Vector]]) -> Solve:
    starts = np.zeros((AGENTS, records[0][0].shape[1]))

    def one(i: int, g: Vector, m: float) -> Solution:
        X, y = records[i]

        def objective(theta: Vector) -> tuple[float, Vector]:
            margin = y * (X @ theta)
            value = np.logaddexp(0, -margin).mean() + 0.5 * m * theta @ theta + g @ theta
            return value, -((y / (1 + np.exp(margin))) @ X) / len(y) + m * theta + g

        options = {"gtol": TOLERANCE, "ftol": 0, "maxiter": 500}
        found = minimize(objective, starts[i], jac=True, method="L-BFGS-B", options=options)
        starts[i] = found.x
        return Solution(np.asarray(found.x), math.nan, int(found.nfev), 0)

    return lambda g, m: [one(i, g[i], float(m[i])) for i in range(AGENTS)]


def toy(kind: Callable[[Any], Solve], records: list[tuple[Matrix, Vector]]) -> Work:
    return consensus(kind(records), GRAPH, WIDTH, ETA, REGULARISATION, (0.0, 0.0))


def solves(asked: Asked) -> None:
    """At most half of L-BFGS's time, 1.5 times the records' memory, 6 passes a solve."""
    records = records_of()
    found = least({"ours": partial(toy, ours, records), "L-BFGS": partial(toy, lbfgs, records)}, asked.repeats)
    ratio = found["ours"].seconds / found["L-BFGS"].seconds
    print(f"toy: {found['ours'].seconds:.3f} s, {ratio:.3f} of L-BFGS's; {found['ours']}")
    assert ratio <= 0.5
    assert found["ours"].passes <= 6 * found["ours"].solves
    tracemalloc.start()
    held = records_of()
    tracemalloc.reset_peak()
    toy(ours, held)
    peak = tracemalloc.get_traced_memory()[1] / sum(X.nbytes for X, _ in held)
    tracemalloc.stop()
    print(f"memory: peak {peak:.2f} times the records, records included")
    assert peak <= 1.5


def run_seconds(**settings: Any) -> float:
    """Seconds of the rounds of a run on the common problem: solves, losses, errors and ledgers."""
    shards, test, ends = dict(enumerate(records_of())), records_of(TEST)[0], list[float]()

    def ended(*_: Any) -> None:
        ends.append(time.process_time())

    words = {"seed": 0, "rounds": ROUNDS, "topology": TOPOLOGY, "topology_seed": 1}
    summary_of(lambda *_: made(dict(shards), AGENTS, ROWS, test), ended, ended, **words, **settings)
    return ends[-1] - ends[0]


def rounds(asked: Asked) -> None:
    """Print whole rounds over others."""
    records = records_of()
    ways: dict[str, dict[str, Any]] = {
        "admm, beta 1e-6": {"algorithm": "admm", "beta": TOLERANCE},
        "admm": {"algorithm": "admm"},
        "pp-admm": {"algorithm": "pp-admm", "epsilon": 5.0},
    }
    runs: dict[str, Timed] = {"L-BFGS": lambda: toy(lbfgs, records).seconds}
    found = least(runs | {name: partial(run_seconds, **way) for name, way in ways.items()}, asked.repeats)
    heads(f"{ROUNDS} rounds", "s", "over L-BFGS")
    for name, seconds in found.items():
        print(row(name, f"{seconds:.3f}", f"{seconds / found['L-BFGS']:.2f}"))


def passes(asked: Asked) -> None:
    records, theta = records_of(), 3.0 * np.random.default_rng(5).standard_normal(WIDTH)
    solvers, compiled = [LocalSolver(X, y, LOSS, chosen("auto")) for X, y in records], Compiled.of(chosen("auto"), LOSS)
    for solver in solvers:
        solver.solve(np.zeros(WIDTH), 1.0, 1e-6)

    def each(work: Callable[[Any, Any, LocalSolver], Any]) -> Timed:
        return seconds_of(lambda: [work(X, y, own) for (X, y), own in zip(records, solvers, strict=True)])

    def slopes(compiled: Any) -> Timed:
        return each(lambda X, y, own: gradient(X, y, theta, LOSS, compiled=compiled))

    runs = {"read once": each(lambda X, y, own: X.max()), "gradient, numpy": slopes(None)}
    for k in range(0 if compiled is None else compiled.variant + 1):
        runs[f"gradient, compiled, variant {k}"] = slopes(compiled and compiled._replace(variant=k))
    found = least(runs, asked.repeats * 5)
    heads("pass", "ms", "over reading")
    for name, seconds in found.items():
        print(row(name, f"{1e3 * seconds / AGENTS:.3f}", f"{seconds / found['read once']:.2f}"))


def problem_of(X: Matrix, y: Vector, loss: str, regularisation: float) -> Problem:
    holder = SimulatedHolder.of([(X, y)], task="real" if loss == "squared" else "binary", copy=False)
    return holder.problem(SINGLE_SITE_LOSSES[loss], regularisation)


def baselines(asked: Asked) -> None:
    n, batch, share, rng = 50_000, 500, 1e-4, np.random.default_rng(0)
    X, _ = unit_rows(rng, n, 90)
    theta = rng.standard_normal(90)
    p = problem_of(X, 3.0 * X @ theta + rng.standard_normal(n), "squared", share)
    dual, steps = DualSteps(share, batch, 0.5, 1.0, n // batch), (share, batch, 0.1, n // batch, "poisson", 0.5, 1.0)
    epoch = {
        name: partial(lambda own: run_series(own, p, np.random.default_rng(1), np.random.default_rng(2)), own)
        for name, own in (("dp-scd", dual), ("dp-sgd", GradientSteps(*steps)))
    }
    for one in epoch.values():
        one()  # compiles
    timed = {name: seconds_of(one) for name, one in epoch.items()} | {"a pass": seconds_of(lambda: X.T @ (X @ theta))}
    found = least(timed, asked.repeats)
    for name in epoch:
        print(f"{name}: {1e3 * found[name]:.1f} ms an epoch, {found[name] / found['a pass']:.1f} passes in numpy")
    if asked.data_dir:
        from sklearn.svm import LinearSVC

        q = problem_of(*load(DataSettings(data="adult", data_dir=asked.data_dir), 1, [0]).shards[0], "hinge", 1e-5)
        gap, seeds = 1e-4, range(5)

        def liblinear(seed: int) -> Vector:
            words = {"C": 1.0 / q.scale, "fit_intercept": False, "tol": 1e-2, "max_iter": 100_000, "random_state": seed}
            return np.asarray(LinearSVC(loss="hinge", **words).fit(q.X, q.y).coef_[0])

        def descend(seed: int) -> Any:
            return run_series(ExactPasses(1e-5, 20_000, gap), q, np.random.default_rng(seed))

        target = statistics.fmean(primal(q, liblinear(seed)) for seed in seeds)
        while statistics.fmean(descend(seed).primal for seed in seeds) > target:
            gap /= 2.0
        runs = {
            "sdca": seconds_of(lambda: [descend(seed) for seed in seeds]),
            "liblinear": seconds_of(lambda: [liblinear(seed) for seed in seeds]),
        }
        ours, theirs = least(runs, asked.repeats).values()
        print(f"sdca on Adult, hinge, to liblinear's objective: {ours / theirs:.2f} of its time")


def journal(asked: Asked) -> None:
    """Print medians of 50 rounds with the vectors of four neighbours, on the disk of the working folder."""
    heads("d", "encode, write and fsync ms", "kB")
    with tempfile.TemporaryDirectory(dir=".") as place:
        for width in (100, 10_000):
            (folder := Path(place) / str(width)).mkdir()
            own, stream, found = Journal(folder), np.random.default_rng(0), list[float]()
            own.write(Run("", {}, b""))
            for number in range(50):
                vectors = [stream.standard_normal(width).tobytes() for _ in range(5)]
                heard = Heard(number - 1, dict(enumerate(vectors[1:], 1)))
                record = Round(number, {0: Said([Answered(bytes(16), "<f8", vectors[0])], bytes(600))}, heard)
                begin = time.perf_counter()
                own.write(record)
                found.append(time.perf_counter() - begin)
            own.close()
            print(row(width, f"{1e3 * statistics.median(found):.2f}", f"{len(record_bytes(record)) / 1e3:.1f}"))


if __name__ == "__main__":
    parts = (solves, rounds, passes, baselines, journal)
    main(__doc__, {part.__name__: part for part in parts}, repeats=9, data_dir="")
