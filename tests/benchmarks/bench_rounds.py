"""Where the time of a run goes: local solves, passes over the records, rounds, and whole commands, over yardsticks.

Five agents on a random graph with 7,000 unit rows in 104 dimensions each, 30 rounds. The yardstick of solves and rounds
is warm-started L-BFGS on the same local problems, which computes the scores once for value and gradient together; both
stop at 1e-6: L-BFGS in the largest entry of the gradient, ours in its certified 2-norm, which is stricter. Passes go
through the agents' records in turn, which together are larger than most caches: their yardstick is reading them once.
That of commands is an interpreter that imports numpy.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_rounds [--repeats 9] [--only PART]

Where decent-bench is installed (docs/benchmarks.md), rounds are held against its ADMM, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from admmnet.data import DataSettings, load
from admmnet.solvers.certificate import Solution, gradient
from admmnet.solvers.kernel import Compiled, chosen
from admmnet.solvers.losses import Logistic
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector

from ..processes.launch import mpirun_path
from .common import ROUNDS, Solve, Work, consensus, least, made, peak_memory, row, summary_of, unit_rows

LOSS = Logistic()
TEST = 3500
AGENTS, ROWS, DIMENSION = 5, 7000, 104
REGULARISATION, ETA, TOLERANCE = 1e-3, 0.003, 1e-6

Records = list[tuple[Matrix, Vector]]


def graph() -> Matrix:
    """First connected Erdos-Renyi graph with p = 1/2 at seeds 1, 2, ..."""
    seed = 1
    while not nx.is_connected(found := nx.gnp_random_graph(AGENTS, 0.5, seed=seed)):
        seed += 1
    return np.asarray(nx.to_numpy_array(found))


def gaussian_records(rows: int = ROWS, dimension: int = DIMENSION) -> Records:
    return [unit_rows(np.random.default_rng([7, 1000 + i]), rows, dimension) for i in range(AGENTS)]


def ours(records: Records, beta: float) -> Solve:
    solvers = [LocalSolver(X, y, LOSS, chosen("auto")) for X, y in records]

    def solve(g: Matrix, m: Vector) -> list[Solution]:
        found = [solver.solve(g[i], float(m[i]), beta) for i, solver in enumerate(solvers)]
        assert max(answer.gradient_norm for answer in found) <= beta
        return found

    return solve


def yardstick(records: Records) -> Solve:
    theta = np.zeros((AGENTS, records[0][0].shape[1]))

    def solve(g: Matrix, m: Vector) -> list[Solution]:
        found = [_lbfgs(*records[i], g[i], float(m[i]), theta[i]) for i in range(AGENTS)]
        theta[:] = [answer.theta for answer in found]
        return found

    return solve


def _lbfgs(X: Matrix, y: Vector, g: Vector, m: float, start: Vector) -> Solution:
    def objective(theta: Vector) -> tuple[float, Vector]:
        margin = y * (X @ theta)
        value = np.logaddexp(0, -margin).mean() + 0.5 * m * theta @ theta + g @ theta
        return value, -((y / (1 + np.exp(margin))) @ X) / len(y) + m * theta + g

    options = {"gtol": TOLERANCE, "ftol": 0, "maxiter": 500}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return Solution(np.asarray(found.x), math.nan, int(found.nfev), 0)


def decent_bench(records: Records) -> float:
    """Processor time of the ADMM of decent-bench 0.2.2 on the same records, graph and penalty; without a regulariser.

    Each of its local solves takes at most 100 steps of accelerated gradient. Its losses are sums, ours are means.
    """
    from decent_bench.benchmark_problem import BenchmarkProblem
    from decent_bench.cost_functions import LogisticRegressionCost
    from decent_bench.distributed_algorithms import ADMM
    from decent_bench.network import create_distributed_network
    from decent_bench.schemes import AlwaysActive, NoCompression, NoDrops, NoNoise

    costs, active = [LogisticRegressionCost(X, y) for X, y in records], [AlwaysActive()] * AGENTS
    trouble = NoCompression(), NoNoise(), NoDrops()
    problem = BenchmarkProblem(nx.from_numpy_array(graph()), np.zeros(DIMENSION), costs, active, *trouble)
    network, begin = create_distributed_network(problem), time.process_time()
    ADMM(ROUNDS, 2.0 * ETA * ROWS, 0.5).run(network)
    return time.process_time() - begin


def half_the_time_of_lbfgs() -> None:
    records, weights, answers = gaussian_records(), graph(), {}

    def solved(name: str) -> Work:
        solve = ours(records, TOLERANCE) if name == "ours" else yardstick(records)
        work, answers[name] = consensus(solve, weights, DIMENSION, ETA, REGULARISATION)
        return work

    found = least({name: partial(solved, name) for name in ("ours", "L-BFGS")}, 5)
    mine, theirs = found["ours"], found["L-BFGS"]
    print(f"toy: {mine.seconds:.3f} s against {theirs.seconds:.3f} s of L-BFGS, ", end="")
    print(f"ratio {mine.seconds / theirs.seconds:.3f}; {mine}")
    assert np.abs(answers["ours"] - answers["L-BFGS"]).max() <= 1e-3
    assert mine.seconds <= 0.5 * theirs.seconds


def memory_is_the_records_and_little_more() -> None:
    sizes: list[int] = []

    def rounds() -> None:
        records = gaussian_records()
        sizes.extend(X.nbytes for X, _ in records)
        tracemalloc.reset_peak()
        consensus(ours(records, TOLERANCE), graph(), DIMENSION, ETA, REGULARISATION)

    ratio = peak_memory(rounds) / sum(sizes)
    print(f"memory: peak {ratio:.2f} times the records, records included")
    assert ratio <= 1.5


def passes_in_other_regimes() -> None:
    """Print the work in each regime; the bound is loose, to catch a solver that has lost its way."""
    census = list(load(DataSettings(data="census", split="iid"), AGENTS, range(AGENTS)).shards.values())
    low = gaussian_records(rows=20_000, dimension=6)
    regimes: list[tuple[str, Records, float, float, float, float]] = [
        ("toy, beta 1e-8", gaussian_records(), ETA, REGULARISATION, 0.0, 1e-8),
        ("census, m >= 1, fresh noise, beta 1e-8", census, 0.5, 1e-3, 1e-3, 1e-8),
        ("census, m >= 1, fresh noise, beta 10^-3.5", census, 0.5, 1e-3, 1e-3, 10**-3.5),
        ("census, m ~ 0.01, beta 1e-8", census, 0.0025, 1e-5, 0.0, 1e-8),
        ("census, m ~ 0.01, fresh noise, beta 1e-8", census, 0.0025, 1e-5, 1e-3, 1e-8),
        ("census, m ~ 0.01, fresh noise, beta 10^-3.5", census, 0.0025, 1e-5, 1e-3, 10**-3.5),
        ("d = 6, n = 20,000, fresh noise, beta 1e-8", low, 0.0025, 1e-5, 1e-3, 1e-8),
    ]
    for name, records, eta, regularisation, noise, beta in regimes:
        d = records[0][0].shape[1]
        work, _ = consensus(ours(records, beta), graph(), d, eta, regularisation, (noise, 0.0))
        print(f"{name:45} {work}")
        assert work.passes <= 6 * work.solves


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

    solvers, compiled = [LocalSolver(X, y, LOSS, chosen("auto")) for X, y in records], Compiled.of(chosen("auto"), LOSS)
    for solver in solvers:
        solver.solve(np.zeros(DIMENSION), 1.0, 1e-6)
    known = {id(solver.X): solver for solver in solvers}

    def compiled_pass(own: Compiled) -> Callable[[], float]:
        return timed(lambda X, y: gradient(X, y, theta, LOSS, compiled=own), records)

    variants = [] if compiled is None else [compiled._replace(variant=k) for k in range(compiled.variant + 1)]
    runs = {
        "read once": timed(lambda X, y: X.max(), records),
        "gradient, numpy": timed(lambda X, y: gradient(X, y, theta, LOSS), records),
        "losses, anywhere": timed(lambda X, y: known[id(X)].mean_losses(theta), records),
        "losses, at the answer": timed(lambda X, y: known[id(X)].mean_losses(known[id(X)].state.theta), records),
    }
    runs |= {f"gradient, compiled, variant {own.variant}": compiled_pass(own) for own in variants}
    found = least(runs, repeats * 5)
    print(row("pass", "ms", "over reading"), row("---", "---", "---"), sep="\n")
    for name, seconds in found.items():
        print(row(name, f"{1e3 * seconds:.3f}", f"{seconds / found['read once']:.2f}"))


def seconds_of_rounds(**settings: Any) -> float:
    """Processor time of the rounds of a run on the common problem."""
    shards, test, ends = dict(enumerate(gaussian_records())), gaussian_records(TEST)[0], list[float]()
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


def rounds(repeats: int) -> None:
    """Time whole rounds, solves, losses, errors and ledgers included, against other programs.

    L-BFGS's are its solves alone. ``measured`` is every third round, as by default.
    """
    records = gaussian_records()

    def lbfgs() -> float:  # made anew: it starts where its last solve ended
        return consensus(yardstick(records), graph(), DIMENSION, ETA, REGULARISATION)[0].seconds

    plain, private = {"algorithm": "admm"}, {"algorithm": "pp-admm", "epsilon": 5.0}
    others: dict[str, Callable[[], float]] = {"L-BFGS": lbfgs}
    if importlib.util.find_spec("decent_bench") is None:
        print("without decent-bench, which is not installed: docs/benchmarks.md")
    else:
        others["decent-bench"] = partial(decent_bench, records)
    measured: dict[str, Any] = {"measure_every": ROUNDS // 10}
    found = least(
        {
            **others,
            "admm, beta 1e-6, every round": partial(seconds_of_rounds, **plain, beta=TOLERANCE),
            "admm, beta 1e-6, measured": partial(seconds_of_rounds, **plain, **measured, beta=TOLERANCE),
            "admm, every round": partial(seconds_of_rounds, **plain),
            "admm, measured": partial(seconds_of_rounds, **plain, **measured),
            "pp-admm, every round": partial(seconds_of_rounds, **private),
            "pp-admm, measured": partial(seconds_of_rounds, **private, **measured),
        },
        repeats,
    )
    print(row("30 rounds", "s", *(f"{other} over it" for other in others)), row(*["---"] * (2 + len(others))), sep="\n")
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
            words = "-m", "admmnet", "run", "--data", "census", "--split", "iid", *asked, "--out", f"{folder}/run"
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
    """Print what solves take, and three tables; an AssertionError where a bound is missed."""
    parser = argparse.ArgumentParser(description="Passes, rounds and commands, each over a yardstick.")
    parser.add_argument("--repeats", type=int, default=9)
    parts = {part.__name__: part for part in (passes, rounds, commands)}
    parser.add_argument("--only", choices=parts)
    words = parser.parse_args()
    with threadpool_limits(1):
        bounds = half_the_time_of_lbfgs, memory_is_the_records_and_little_more, passes_in_other_regimes
        for bounded in () if words.only else bounds:
            bounded()
        for name in (words.only,) if words.only else parts:
            parts[name](words.repeats)
            print()


if __name__ == "__main__":
    main()
