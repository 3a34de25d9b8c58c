"""Time and memory of blocks of small agents against one agent with all the records.

Agents hold unit rows and labels of one noisy hyperplane; 30 rounds of decentralised ADMM on a random 4-regular
graph, fresh noise in every linear term and every broadcast (Ding et al. 2020, eqs. (3)-(7)). The yardstick is one
`LocalSolver` over all records in rounds of the same kind; a ratio is our time for a pass over all records, solves
complete, by its. Times are CPU seconds of one process with one BLAS thread, least of interleaved repeats.

    OPENBLAS_NUM_THREADS=1 python tests/benchmarks/bench_blocks.py
    OPENBLAS_NUM_THREADS=1 pytest -s tests/benchmarks/bench_blocks.py
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver, Solution
from admmnet.types import Matrix, Vector

LOSS = Logistic()
DEGREE, REGULARISATION, NOISE, BETA = 4, 1e-4, 1e-3, 1e-6
BLOCK = 128


class Work(NamedTuple):
    """What a run took; seconds are of the solves alone."""

    seconds: float
    passes: float  # over an agent's records, sums over agents
    refreshes: float
    solves: int


def shard(rng: np.random.Generator, n: int, d: int) -> tuple[Matrix, Vector]:
    """Draw n records of one agent."""
    normal = np.random.default_rng(7).standard_normal(d)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X @ normal + 0.5 * rng.standard_normal(n) >= 0, 1.0, -1.0)


def make_blocks(sizes: Sequence[int], d: int, block: int, loss: Loss = LOSS) -> list[BlockSolver]:
    """Blocks of agents with these numbers of records, drawn and stacked block by block."""
    rng = np.random.default_rng(1)
    return [
        BlockSolver([shard(rng, n, d) for n in sizes[start : start + block]], loss)
        for start in range(0, len(sizes), block)
    ]


def consensus(blocks: Sequence[BlockSolver], eta: float, rounds: int = 30) -> Work:
    """Run the rounds of all agents."""
    counts = [len(block.members) for block in blocks]
    starts = np.cumsum([0, *counts]).tolist()
    n, d = starts[-1], blocks[0].members[0].X.shape[1]
    graph = nx.random_regular_graph(DEGREE, n, seed=1) if n > DEGREE else nx.cycle_graph(n)
    near = np.array([sorted(graph[i]) for i in range(n)])
    degree, rng = near.shape[1], np.random.default_rng(2)
    theta, dual = np.zeros((n, d)), np.zeros((n, d))
    m, spent, passes, refreshes = REGULARISATION + 2 * eta * degree, 0.0, 0, 0
    for _ in range(rounds):
        g = 2 * dual - eta * (degree * theta + theta[near].sum(axis=1)) + NOISE * rng.standard_normal((n, d))
        after = np.empty_like(theta)
        for block, count, start in zip(blocks, counts, starts, strict=False):
            begin = time.process_time()
            found = block.solve(
                range(count), g[start : start + count], np.full(count, m), np.full(count, BETA)
            )
            spent += time.process_time() - begin
            for i, answer in enumerate(found):
                assert isinstance(answer, Solution)
                after[start + i] = answer.theta
                passes, refreshes = passes + answer.passes, refreshes + answer.refreshes
        theta = after + NOISE * rng.standard_normal((n, d))
        dual += 0.5 * eta * (degree * theta - theta[near].sum(axis=1))
    return Work(spent, passes, refreshes, n * rounds)


def yardstick(records: int, d: int, eta: float, rounds: int = 30, loss: Loss = LOSS) -> Work:
    """One LocalSolver with all the records, in rounds of a lone agent; passes counted over all records."""
    rng = np.random.default_rng(1)
    solver, theta = LocalSolver(*shard(rng, records, d), loss), np.zeros(d)
    m, spent, passes, refreshes = REGULARISATION + 2 * eta * DEGREE, 0.0, 0, 0
    for _ in range(rounds):
        g = -2 * DEGREE * eta * theta + NOISE * rng.standard_normal(d)
        begin = time.process_time()
        found = solver.solve(g, m, BETA)
        spent += time.process_time() - begin
        theta = found.theta + NOISE * rng.standard_normal(d)
        passes, refreshes = passes + found.passes, refreshes + found.refreshes
    return Work(spent, passes, refreshes, rounds)


def least(run: Callable[[], Work], repeats: int) -> Work:
    """The fastest of several runs."""
    return min((run() for _ in range(repeats)), key=lambda work: work.seconds)


def told(work: Work) -> str:
    """Time and work of one agent."""
    return (
        f"{1e6 * work.seconds / work.solves:6.1f} us an agent-round, {work.passes / work.solves:5.2f} passes a solve "
        f"({1e6 * work.seconds / max(1, work.passes):5.1f} us each), "
        f"{work.refreshes / work.solves * 30:5.2f} Hessians in 30"
    )


def test_a_thousand_agents_against_one() -> None:
    agents, n, d, bound = 1000, 100, 100, 3.0
    print()
    with threadpool_limits(1):
        for eta in (0.00125, 0.0125, 0.125):
            one, ours = [], []
            for _ in range(2):
                one.append(yardstick(agents * n, d, eta))
                ours.append(consensus(make_blocks([n] * agents, d, BLOCK), eta))
            best, other = (min(works, key=lambda work: work.seconds) for works in (ours, one))
            ratio = best.seconds / (best.passes / agents) / (other.seconds / other.passes)
            print(
                f"1,000 x 100, d = 100, m = {REGULARISATION + 8 * eta:.4f}: {told(best)}; a pass takes {ratio:.2f} "
                f"times one agent's, all rounds {best.seconds / other.seconds:.2f} ({other.passes / 30:.2f} passes)"
            )
            assert ratio <= bound


def test_the_number_of_agents_makes_no_difference() -> None:
    n = d = 100
    print()
    spent = {}
    with threadpool_limits(1):
        for agents, repeats in ((100, 20), (1000, 4), (10_000, 1)):
            runs = [consensus(make_blocks([n] * agents, d, BLOCK), 0.0125, 4) for _ in range(repeats)]
            work = Work(*(sum(column) for column in zip(*runs, strict=True)))
            spent[agents] = work.seconds / work.solves
            print(f"{agents:6} agents in blocks of {min(agents, BLOCK)}: {told(work)}")
    assert max(spent.values()) <= 1.5 * min(spent.values())


def test_block_sizes() -> None:
    print()
    with threadpool_limits(1):
        for block in (1, 32, 64, 128, 256):
            work = least(partial(consensus, make_blocks([100] * 256, 100, block), 0.0125, 5), 2)
            print(f"blocks of {block:3}, n = d = 100: {told(work)}")


def test_other_shapes_and_losses() -> None:
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
    print()
    with threadpool_limits(1):
        for name, sizes, d, loss in cases:
            work = consensus(make_blocks(sizes, d, BLOCK, loss), 0.0125, 10)
            other = yardstick(sum(sizes), d, 0.0125, 10, loss)
            ratio = work.seconds / (work.passes / len(sizes)) / (other.seconds / other.passes)
            print(f"{name:34} {told(work)}; a pass {ratio:.2f} times one agent's")
            assert work.passes <= 12 * work.solves


def test_memory_is_the_records_and_little_more() -> None:
    n = d = 100
    agents = 512
    size = 8 * n * d * agents
    print()
    for eta, cache in ((0.0125, 0.0), (0.000125, 0.5)):  # without and with curvature in memory
        tracemalloc.start()
        try:
            blocks = make_blocks([n] * agents, d, 64)
            consensus(blocks, eta, 5)
            held, peak = (figure / size for figure in tracemalloc.get_traced_memory())
        finally:
            tracemalloc.stop()
        print(f"memory at eta = {eta}: held {held:.2f}, peak {peak:.2f} times the records")
        assert peak <= 1.5 + cache


if __name__ == "__main__":
    test_a_thousand_agents_against_one()
    test_the_number_of_agents_makes_no_difference()
    test_block_sizes()
    test_other_shapes_and_losses()
    test_memory_is_the_records_and_little_more()
