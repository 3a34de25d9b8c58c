"""Time and memory of blocks of small agents against one agent with all the records.

Agents hold unit rows; 30 rounds on a random 4-regular graph, fresh noise in every linear term and every broadcast.
The yardstick is one `LocalSolver` over all records in rounds of the same kind; a ratio is our time for a pass over all
records, solves complete, by its.

    python -m tests.benchmarks.bench_blocks
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector

from .common import ROUNDS, Work, consensus, least, peak_memory, unit_rows

LOSS = Logistic()
DEGREE, REGULARISATION, NOISE, BETA = 4, 1e-4, (1e-3, 1e-3), 1e-6
BLOCK = 128


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


if __name__ == "__main__":
    with threadpool_limits(1):
        for eta in (0.00125, 0.0125, 0.125):
            name = f"1,000 x 100, d = 100, m = {REGULARISATION + 8 * eta:.4f}"
            assert against_one(name, [100] * 1000, 100, eta, ROUNDS) <= 3.0
        the_number_of_agents_makes_no_difference()
        block_sizes()
        other_shapes_and_losses()
        memory_is_the_records_and_little_more()
