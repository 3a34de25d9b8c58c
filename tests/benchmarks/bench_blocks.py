"""Small agents in blocks against one agent with all the records; wide records against solves with (d, d) matrices.

Agents hold unit rows; 30 rounds on a random 4-regular graph, fresh noise in every linear term and every broadcast.
The yardstick is one `LocalSolver` over all records in rounds of the same kind; a ratio is our time for a pass over all
records, solves complete, by its. Wide records are a run on a sparse file, and solves of few records of many features.

    python -m tests.benchmarks.bench_blocks
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver, WideSolver
from admmnet.types import Matrix, Vector
from tests.wide_files import write_wide

from .common import ROUNDS, Work, consensus, least, peak_memory, unit_rows

LOSS = Logistic()
DEGREE, REGULARISATION, NOISE, BETA = 4, 1e-4, (1e-3, 1e-3), 1e-6
BLOCK = 128
ROWS, WIDTH, FILLED = 5_000, 20_000, 80
"""Of the sparse file."""


def solved(sizes: Sequence[int], d: int, eta: float, rounds: int, block: int = BLOCK, loss: Loss = LOSS) -> Work:
    """Work of agents with these numbers of records, drawn and stacked block by block."""
    rng, agents = np.random.default_rng(1), len(sizes)
    starts = [*range(0, agents, block), agents]
    blocks = [(slice(a, b), BlockSolver([unit_rows(rng, n, d) for n in sizes[a:b]], loss)) for a, b in pairwise(starts)]

    def solve(g: Matrix, m: Vector) -> list[Any]:  # an error in place of a Solution has no theta: it raises
        found = []
        for part, one in blocks:
            k = len(one.members)
            found += one.solve(range(k), g[part], m[part], np.full(k, BETA))
        return found

    graph = nx.random_regular_graph(DEGREE, agents, seed=1)
    weights = nx.to_scipy_sparse_array(graph, nodelist=range(agents))
    return consensus(solve, weights, d, eta, REGULARISATION, NOISE, rounds)[0]


def yardstick(records: int, d: int, eta: float, rounds: int, loss: Loss = LOSS) -> Work:
    """Work of one agent with all the records whose neighbours say what it says."""
    solver = LocalSolver(*unit_rows(np.random.default_rng(1), records, d), loss)
    weights = np.array([[float(DEGREE)]])
    return consensus(
        lambda g, m: [solver.solve(g[0], float(m[0]), BETA)], weights, d, eta, REGULARISATION, NOISE, rounds
    )[0]


def against_one(name: str, sizes: Sequence[int], d: int, eta: float, rounds: int, loss: Loss = LOSS) -> float:
    """How many times a pass of the one agent a pass of all costs."""
    runs = {
        "one": partial(yardstick, sum(sizes), d, eta, rounds, loss),
        "many": partial(solved, sizes, d, eta, rounds, loss=loss),
    }
    found = least(runs, 2)
    one, many = found["one"], found["many"]
    ratio = float(many.seconds / (many.passes / len(sizes)) / (one.seconds / one.passes))
    print(f"{name:34} {many}; a pass {ratio:.2f} times one agent's, ", end="")
    print(f"all rounds {many.seconds / one.seconds:.2f} ({one.passes / rounds:.2f} passes)", flush=True)
    assert many.passes <= 12 * many.solves
    return ratio


def the_number_of_agents_makes_no_difference() -> None:
    spent = {}
    for agents, repeats in ((100, 20), (1000, 4), (10_000, 1)):
        runs = [solved([100] * agents, 100, 0.0125, 4) for _ in range(repeats)]
        work = Work(*(sum(column) for column in zip(*runs, strict=True)))
        spent[agents] = work.seconds / work.solves
        print(f"{agents:6} agents in blocks of {min(agents, BLOCK)}: {work}", flush=True)
    assert max(spent.values()) <= 1.5 * min(spent.values())


def block_sizes() -> None:
    runs = {
        f"blocks of {block:3}, n = d = 100": partial(solved, [100] * 256, 100, 0.0125, 5, block)
        for block in (1, 32, 64, 128, 256)
    }
    for name, work in least(runs, 2).items():
        print(f"{name:34} {work}", flush=True)


def other_shapes_and_losses() -> None:
    rng = np.random.default_rng(4)
    uneven = np.clip(rng.dirichlet(np.full(200, 0.5)) * 40_000, 5, 2000).astype(int).tolist()
    cases: list[tuple[str, list[int], int, Loss]] = [
        ("30 or 31 records, d = 105", [30, 31] * 128, 105, LOSS),
        ("30 or 31 records, d = 6", [30, 31] * 128, 6, LOSS),
        ("100 records, d = 500", [100] * 128, 500, LOSS),
        ("1 record, d = 100", [1] * 256, 100, LOSS),
        ("5 to 2000 records, d = 105", uneven, 105, LOSS),
        ("100 records, d = 100, hinge", [100] * 256, 100, SmoothedHinge()),
        ("100 records, d = 100, hinge 0.05", [100] * 256, 100, SmoothedHinge(0.05)),
        ("100 records, d = 100, huber 0.1", [100] * 256, 100, Huber(0.1)),
    ]
    for name, sizes, d, loss in cases:
        against_one(name, sizes, d, 0.0125, 10, loss)


def memory_is_the_records_and_little_more() -> None:
    for eta, cache in ((0.0125, 0.0), (0.000125, 0.5)):  # without and with curvature in memory
        peak = peak_memory(partial(solved, [100] * 512, 100, eta, 5, 64)) / (8 * 100 * 100 * 512)
        print(f"memory at eta = {eta}: peak {peak:.2f} times the records")
        assert peak <= 1.5 + cache


def sparse_file() -> None:
    """A whole command, and the memory beyond that of the imports."""
    words = ["--algorithm", "pp-admm", "--agents", "5", "--seed", "1", "--quiet"]
    with tempfile.TemporaryDirectory() as place:
        file = write_wide(Path(place) / "wide.libsvm", ROWS, WIDTH, FILLED)
        size = Path(file).stat().st_size / 1e6
        found = []
        for command in (["--version"], ["run", "--data", file, *words, "--out", f"{place}/run"]):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-m", "admmnet", *command], check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - begin
            found.append((seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))
    seconds, beyond = found[1][0], found[1][1] - found[0][1]
    print(f"sparse file of {size:.1f} MB, {ROWS:,} x {WIDTH:,}, pp-admm: {seconds:.1f} s, {beyond:.0f} MiB over import")
    assert seconds < 10.0
    assert beyond < 200.0


def wide_solves(n: int, d: int, *, sparse: bool) -> None:
    """Six rounds of solves; the two kinds of solver take turns."""
    X, y = unit_rows(np.random.default_rng(5), n, d)
    if sparse:
        X *= np.random.default_rng(6).random(X.shape) < FILLED / d
    rows = {"wide": csr_array(X) if sparse else X, "dense": X}

    def seconds(name: str) -> float:
        solver = (WideSolver if name == "wide" else LocalSolver)(rows[name], y, LOSS)
        begin = time.perf_counter()
        for t in range(6):
            solver.solve(np.random.default_rng(t).standard_normal(d) * 0.02 / d**0.5, 0.005, 1e-8)
        return time.perf_counter() - begin

    took = least({name: partial(seconds, name) for name in rows}, 2)
    form = "CSR" if sparse else "dense"
    print(f"{n:,} x {d:,}, {form}: {took['dense'] / took['wide']:6.1f} times as fast as with (d, d) matrices")
    assert took["wide"] < took["dense"]


if __name__ == "__main__":
    with threadpool_limits(1):
        for eta in (0.00125, 0.0125, 0.125):
            name = f"1,000 x 100, d = 100, m = {REGULARISATION + 8 * eta:.4f}"
            assert against_one(name, [100] * 1000, 100, eta, ROUNDS) <= 3.0
        the_number_of_agents_makes_no_difference()
        block_sizes()
        other_shapes_and_losses()
        memory_is_the_records_and_little_more()
    sparse_file()
    for (n, d), sparse in product(((100, 300), (400, 1_000), (1_400, 1_500), (400, 3_000)), (False, True)):
        wide_solves(n, d, sparse=sparse)
