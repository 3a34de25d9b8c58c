"""Many agents in one process: time an agent-round, memory, and solves together.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.scale PART [--agents N,N] [--rounds 30]

- runs: whole runs of agents with ``--records`` of ``--features`` on a random 4-regular graph, pp-admm, seeded. The
  yardstick is as many passes over all records as the agents take on average (solves, and one for the training losses)
  in a whole run of two agents that hold all records, which has its Hessians, too.
- blocks: agents that are solved together, over one that holds all records.
"""

from __future__ import annotations

import resource
import time
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np

from admmnet.data import Records
from admmnet.solvers.blocks.group import Group, solvers_of
from admmnet.solvers.certificate import Solution, solve_all
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector

from .common import least, made, main, summary_of, unit_rows
from .speed import LOSS, Asked, Work, consensus


def records(agents: int, size: int, width: int) -> Records:
    rng = np.random.default_rng(0)
    shards = {i: unit_rows(rng, size, width) for i in range(agents)}
    return made(shards, agents, size, (shards[0][0][:100].copy(), shards[0][1][:100].copy()))


def whole(agents: int, size: int, width: int, topology: str, rounds: int) -> tuple[float, float]:
    """Seconds of the rounds of a run, and passes of a round."""
    passes, ends = list[int](), list[float]()
    solver: Any = Group if agents > 64 else LocalSolver  # as `--block auto` chooses
    solve = solver.solve

    def counted(self: Any, *asked: Any) -> Any:
        found = solve(self, *asked)
        passes.extend(answer.passes for answer in ([found] if isinstance(found, Solution) else found.values()))
        return found

    words = {"algorithm": "pp-admm", "seed": 0, "rounds": rounds, "epsilon": 5.0, "topology": topology}
    with patch.object(solver, "solve", counted):
        # the records are kept by nobody but the run
        summary_of(lambda *_: records(agents, size, width), None, lambda *_: ends.append(time.process_time()), **words)
    return (ends[-1] - ends[0]) * rounds / (rounds - 1), sum(passes) / len(passes) + 1.0


def one_size(agents: int, asked: Asked) -> None:
    """Measure a size in a process of its own, so that its memory is its own."""

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0

    rounds, size, width = asked.rounds, asked.records, asked.features
    whole(100, 10, 10, "ring:100", 2)  # what a run imports counts as no agent's memory
    before = peak()
    seconds, passes = whole(agents, size, width, f"regular:{agents}:4", rounds)
    memory, some = peak() - before, min(agents, 1000)  # of very many a part, scaled
    theirs, own = whole(2, some * size // 2, width, "path:2", rounds)
    print(
        f"{agents:6d} agents: {seconds:7.2f} s, {seconds / agents / rounds * 1e6:6.1f} us an agent-round of "
        f"{passes:.2f} passes; {seconds / (agents / some) / (theirs / own * passes):.2f} x the run of two agents with "
        f"all records; memory {memory:.0f} MB, {memory / (agents * size * width * 8e-6):.2f} x the records",
        flush=True,
    )


def runs(asked: Asked) -> None:
    for agents in map(int, asked.agents.split(",")):
        child = get_context("spawn").Process(target=one_size, args=(agents, asked))
        child.start()
        child.join(1800)
        if child.exitcode != 0:
            child.kill()
            raise SystemExit(f"{agents} agents: no figures")


def together_work(sizes: list[int], d: int, eta: float, block: int = 128) -> Work:
    """Work of agents with these numbers of records, drawn and stacked block by block."""
    rng, agents = np.random.default_rng(1), len(sizes)
    parts = [slice(*ends) for ends in pairwise([*range(0, agents, block), agents])]
    blocks = [(part, solvers_of([unit_rows(rng, n, d) for n in sizes[part]], LOSS)) for part in parts]

    def solve(g: Matrix, m: Vector) -> list[Any]:  # an error in place of a Solution has no theta: it raises
        return [answer for part, one in blocks for answer in solve_all(one, g[part], list(m[part]), [1e-6] * len(one))]

    weights = nx.to_scipy_sparse_array(nx.random_regular_graph(4, agents, seed=1), nodelist=range(agents))
    return consensus(solve, weights, d, eta, 1e-4, (1e-3, 1e-3))


def alone_work(records: int, d: int, eta: float) -> Work:
    """Work of one agent with all the records whose neighbours say what it says."""
    solver = LocalSolver(*unit_rows(np.random.default_rng(1), records, d), LOSS)
    one = np.array([[4.0]])
    return consensus(lambda g, m: [solver.solve(g[0], float(m[0]), 1e-6)], one, d, eta, 1e-4, (1e-3, 1e-3))


def blocks(asked: Asked) -> None:
    """At most 3 times a pass of the one agent, 12 passes a solve, 1.5 times the time at another number of agents."""
    for eta in (0.00125, 0.0125, 0.125):
        runs = {"one": partial(alone_work, 100_000, 100, eta), "many": partial(together_work, [100] * 1000, 100, eta)}
        one, many = least(runs, 2).values()
        ratio = many.seconds / many.passes * 1000 / (one.seconds / one.passes)
        print(f"1,000 x 100, d = 100, eta = {eta}: {many}; {ratio:.2f} times a pass of one agent with all", flush=True)
        assert ratio <= 3.0
        assert many.passes <= 12 * many.solves
    found = {agents: together_work([100] * agents, 100, 0.0125) for agents in (100, 1000, 10_000)}
    for agents, work in found.items():
        print(f"{agents:6} agents in blocks of {min(agents, 128)}: {work}", flush=True)
    spent = [work.seconds / work.solves for work in found.values()]
    assert max(spent) <= 1.5 * min(spent)


if __name__ == "__main__":
    main(__doc__, {"runs": runs, "blocks": blocks}, agents="100,1000,10000", rounds=30, records=100, features=100)
