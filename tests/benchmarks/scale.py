"""Many agents in one process: time an agent-round, memory, and what is done together.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.scale PART [--agents N,N] [--rounds 30]

- runs: whole runs of agents with 100 records of 100 features on a random 4-regular graph, pp-admm, seeded. The
  yardstick is as many passes over all records as the agents take on average (solves, and one for the training losses):
  in a whole run of two agents that hold all records, which has its Hessians, too; and of bare gradients.
- ring: runs of agents with 10 records of 20 features on a ring, from a file: set-up, a round, the end, and memory.
- ledgers: `admmnet ledger verify` of ledgers as a simulation writes them: two events a round, a file a block.
- blocks: agents that are solved together, over one that holds all records; wide records, over (d, d) matrices.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
from scipy.sparse import csr_array

from admmnet.data import Records
from admmnet.privacy.events import Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger.file import Ledger, LedgerFile
from admmnet.privacy.ledger.form import Header
from admmnet.record.folder import ledger_path
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.certificate import Solution, gradient
from admmnet.solvers.newton import LocalSolver, WideSolver
from admmnet.types import Matrix, Vector
from tests.people_runs import write_people
from tests.planned import contract_for

from .common import least, made, main, seconds_of, summary_of, unit_rows
from .speed import LOSS, Work, consensus

RECORDS, FEATURES = 100, 100
EVENTS = (ObjectivePerturbation(2.0 / RECORDS, 1.0, 1.0, 0.25, 1.05, RECORDS, logistic=True), Gaussian(6e-4, 0.22))
Asked = argparse.Namespace


def records(agents: int, size: int = RECORDS, width: int = FEATURES) -> Records:
    rng = np.random.default_rng(0)
    shards = {i: unit_rows(rng, size, width) for i in range(agents)}
    return made(shards, agents, size, (shards[0][0][:100].copy(), shards[0][1][:100].copy()))


def peak() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0


def whole(agents: int, size: int, topology: str, rounds: int) -> tuple[float, float]:
    """Seconds of the rounds of a run, and passes of a round."""
    passes, ends = list[int](), list[float]()
    solver: Any = BlockSolver if agents > 64 else LocalSolver  # as `--block auto` chooses
    solve = solver.solve

    def counted(self: Any, *asked: Any) -> Any:
        found = solve(self, *asked)
        passes.extend(answer.passes for answer in ([found] if isinstance(found, Solution) else found))
        return found

    words = {"algorithm": "pp-admm", "seed": 0, "rounds": rounds, "epsilon": 5.0, "topology": topology}
    with patch.object(solver, "solve", counted):
        # the records are kept by nobody but the run
        summary_of(lambda *_: records(agents, size), None, lambda *_: ends.append(time.process_time()), **words)
    return (ends[-1] - ends[0]) * rounds / (rounds - 1), sum(passes) / len(passes) + 1.0


def one_size(agents: int, rounds: int) -> None:
    whole(100, 10, "ring:100", 2)  # what a run imports counts as no agent's memory
    before = peak()
    seconds, passes = whole(agents, RECORDS, f"regular:{agents}:4", rounds)
    memory = peak() - before
    some = min(agents, 1000)  # of very many a part, scaled
    theirs, own = whole(2, some * RECORDS // 2, "path:2", rounds)
    (X, y), theta = records(1, some * RECORDS).shards[0], np.full(FEATURES, 0.1)
    bare = np.median([seconds_of(lambda: gradient(X, y, theta, LOSS))() for _ in range(7)]) * passes * rounds
    over = seconds / (agents / some)
    print(
        f"{agents:6d} agents: {seconds:7.2f} s, {seconds / agents / rounds * 1e6:6.1f} us an agent-round of "
        f"{passes:.2f} passes; {over / (theirs / own * passes):.2f} x the run of two agents with all records, "
        f"{over / bare:.2f} x bare gradients; memory {memory:.0f} MB, "
        f"{memory / (agents * RECORDS * FEATURES * 8e-6):.2f} x the records",
        flush=True,
    )


def one_ring(agents: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = write_people(Path(folder) / "people.npz", agents * 10, width=20)
        start, ends, peaks = time.process_time(), list[float](), list[float]()

        def ended(*_: Any) -> None:
            ends.append(time.process_time() - start)
            peaks.append(peak())

        words: dict[str, Any] = {"agents": agents, "topology": f"ring:{agents}", "algorithm": "pp-admm", "seed": 0}
        summary_of(on_round=ended, data=file, rounds=rounds, epsilon=5.0, test_fraction=0.001, **words)
    a_round, size = (ends[-1] - ends[0]) / (rounds - 1), agents * 10 * 21 * 8e-6
    print(
        f"{agents:6d} agents on a ring: set-up {ends[0] - a_round:.2f} s, a round {a_round:.2f} s, the end "
        f"{time.process_time() - start - ends[-1]:.2f} s; memory {peaks[0]:.0f} MB by the first round, "
        f"{peaks[-1]:.0f} MB by the last, {peak():.0f} MB in all, {peak() / size:.2f} x the records of {size:.0f} MB",
        flush=True,
    )


def one_verified(agents: int, rounds: int) -> None:
    """Seconds of all processes of the command, memory of the largest; the run has not finished."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        (folder / "ledger").mkdir(parents=True)
        (folder / "config.toml").write_text(f"[network]\nagents = {agents}\n")
        contract = contract_for(1e6, 1e-5, tuple((event, rounds) for event in EVENTS))
        for i in range(agents):
            around = tuple(sorted(((i - 1) % agents, (i + 1) % agents)))
            words = ("pp-admm", "seeded", "public-bounds", "0.1.0", "simulation")
            file = LedgerFile(ledger_path(folder, i, agents), durable=False, kept=False)
            ledger = Ledger(file, Header(i, around, RECORDS, contract, *words))
            for round in range(rounds):
                ledger.charge(round, *EVENTS)
            ledger.end()
            ledger.close()
        command = [sys.executable, "-m", "admmnet", "ledger", "verify", str(folder)]
        subprocess.run(command, check=True, timeout=1800)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.1f} s, largest process {used.ru_maxrss / 1000:.0f} MB")


def each_size(work: Callable[[int, int], None]) -> Callable[[Asked], None]:
    """Measure every size in a process of its own, so that its memory is its own."""

    def part(asked: Asked) -> None:
        for agents in map(int, asked.agents.split(",")):
            child = get_context("spawn").Process(target=work, args=(agents, asked.rounds))
            child.start()
            child.join(1800)
            if child.exitcode != 0:
                child.kill()
                raise SystemExit(f"{agents} agents: no figures")

    return part


def together_work(sizes: list[int], d: int, eta: float, block: int = 128) -> Work:
    """Work of agents with these numbers of records, drawn and stacked block by block."""
    rng, agents = np.random.default_rng(1), len(sizes)
    parts = [slice(*ends) for ends in pairwise([*range(0, agents, block), agents])]
    blocks = [(part, BlockSolver([unit_rows(rng, n, d) for n in sizes[part]], LOSS)) for part in parts]

    def solve(g: Matrix, m: Vector) -> list[Any]:  # an error in place of a Solution has no theta: it raises
        sized = ((part, one, len(one.members)) for part, one in blocks)
        return [answer for part, one, k in sized for answer in one.solve(range(k), g[part], m[part], np.full(k, 1e-6))]

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
    for (n, d), sparse in product(((100, 300), (400, 3_000)), (False, True)):
        X, y = unit_rows(np.random.default_rng(5), n, d)
        X *= np.random.default_rng(6).random(X.shape) < (80 / d if sparse else 1.0)
        ways = {"wide": partial(WideSolver, csr_array(X) if sparse else X), "dense": partial(LocalSolver, X)}
        took = least({name: seconds_of(partial(_six, way, y, d)) for name, way in ways.items()}, 2)
        times = took["dense"] / took["wide"]
        print(f"{n} x {d:,}, {'CSR' if sparse else 'dense'}: {times:6.1f} times as fast as with (d, d) matrices")
        assert times > 1.0


def _six(kind: Any, y: Vector, d: int) -> None:
    """Six rounds of solves."""
    solver = kind(y, LOSS)
    for t in range(6):
        solver.solve(np.random.default_rng(t).standard_normal(d) * 0.02 / d**0.5, 0.005, 1e-8)


if __name__ == "__main__":
    sizes = {"runs": each_size(one_size), "ring": each_size(one_ring), "ledgers": each_size(one_verified)}
    main(__doc__, sizes | {"blocks": blocks}, agents="100,1000,10000", rounds=30)
