"""Whole runs of many agents in one process: time an agent-round, against one holder of all records, and memory.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_scale [--agents N,N] [--rounds 30] [--ring | --ledgers]

Every agent has 100 records of 100 features on a random 4-regular graph; pp-admm, seeded; a round is timed whole.
The yardstick is the CPU time, in the same process, of as many passes over all records as the agents take on average
(solves, and one for the training losses of a seeded round): in a whole run of two agents that hold all records, which
has its Hessians, too; and of bare gradients. With `--ring` the agents have 10 records of 20 features, read from a file;
it prints what set-up, a round and the end take (`--ring --agents 100000 --rounds 12` some minutes) and no yardstick.
With `--ledgers` it is `admmnet ledger verify` that is measured, on ledgers as a simulation writes them: two events a
round, a file a block of 128 agents.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from admmnet.data import Records
from admmnet.privacy.events import Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger.file import Ledger, LedgerFile
from admmnet.privacy.ledger.form import Header
from admmnet.record.folder import ledger_path
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.certificate import Solution, gradient
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from tests.people_runs import write_people
from tests.planned import contract_for

from .common import made, summary_of, unit_rows

RECORDS, FEATURES = 100, 100
FEW, NARROW = 10, 20
"""Records of an agent on the ring, and their features, to which the intercept comes."""


def records(agents: int, size: int = RECORDS) -> Records:
    rng = np.random.default_rng(0)
    shards = {i: unit_rows(rng, size, FEATURES) for i in range(agents)}
    X, y = shards[0]
    return made(shards, agents, size, (X[:100].copy(), y[:100].copy()))


def peak() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0


def whole(agents: int, size: int, topology: str, rounds: int) -> tuple[float, float]:
    """CPU seconds of the rounds of a run, and passes of a round."""
    passes: list[int] = []
    ends: list[float] = []
    solver: Any = BlockSolver if agents > 64 else LocalSolver  # as `--block auto` chooses
    solve = solver.solve

    def counted(self: Any, *asked: Any) -> Any:
        found = solve(self, *asked)
        passes.extend(answer.passes for answer in ([found] if isinstance(found, Solution) else found))
        return found

    with patch.object(solver, "solve", counted):
        summary_of(
            loader=lambda *_: records(agents, size),  # kept by nobody but the run
            on_round=lambda *_: ends.append(time.process_time()),
            algorithm="pp-admm",
            seed=0,
            rounds=rounds,
            epsilon=5.0,
            topology=topology,
        )
    return (ends[-1] - ends[0]) * rounds / (rounds - 1), sum(passes) / len(passes) + 1.0


def measure(agents: int, rounds: int) -> None:
    """Print one line."""
    whole(100, FEW, "ring:100", 2)  # what a run imports counts as no agent's memory
    before = peak()
    cpu, passes = whole(agents, RECORDS, f"regular:{agents}:4", rounds)
    size = agents * RECORDS * FEATURES * 8 / 1e6
    memory = peak() - before
    some = min(agents, 1000)  # of very many a part, scaled
    theirs, own = whole(2, some * RECORDS // 2, "path:2", rounds)
    one_run = theirs / own * passes * agents / some
    X, y = records(2, some * RECORDS // 2).shards[0]
    theta, loss, times = np.full(FEATURES, 0.1), get_loss("logistic"), []
    for _ in range(7):
        start = time.process_time()
        gradient(X, y, theta, loss)
        times.append(time.process_time() - start)
    bare = float(np.median(times)) * 2 * agents / some * passes * rounds
    print(
        f"{agents:6d} agents: {cpu:7.2f} s CPU, {cpu / agents / rounds * 1e6:6.1f} us an agent-round of {passes:.2f} "
        f"passes; {cpu / one_run:.2f} x the run of two agents with all records, {cpu / bare:.2f} x bare gradients; "
        f"memory {memory:.0f} MB, {memory / size:.2f} x the records",
        flush=True,
    )


def ring(agents: int, rounds: int, file: str) -> None:
    """Print one line of a run on a ring, from the file to the folder."""
    start = time.process_time()
    ends: list[float] = []
    peaks: list[float] = []

    def ended(*_: Any) -> None:
        ends.append(time.process_time() - start)
        peaks.append(peak())

    summary_of(
        on_round=ended,
        data=file,
        agents=agents,
        topology=f"ring:{agents}",
        algorithm="pp-admm",
        seed=0,
        rounds=rounds,
        epsilon=5.0,
        test_fraction=0.001,
    )
    size, a_round = agents * FEW * (NARROW + 1) * 8 / 1e6, (ends[-1] - ends[0]) / (rounds - 1)
    print(
        f"{agents:6d} agents on a ring: set-up {ends[0] - a_round:.2f} s CPU, a round {a_round:.2f} s, the end "
        f"{time.process_time() - start - ends[-1]:.2f} s; memory {peaks[0]:.0f} MB by the first round, "
        f"{peaks[-1]:.0f} MB by the last, {peak():.0f} MB in all, {peak() / size:.2f} x the records of {size:.0f} MB",
        flush=True,
    )


EVENTS = (ObjectivePerturbation(2.0 / RECORDS, 1.0, 1.0, 0.25, 1.05, RECORDS, logistic=True), Gaussian(6e-4, 0.22))


def write_ledgers(folder: Path, agents: int, rounds: int) -> None:
    """Ledgers of agents on a ring of a run that has not finished."""
    (folder / "ledger").mkdir(parents=True)
    contract = contract_for(1e6, 1e-5, tuple((event, rounds) for event in EVENTS))
    (folder / "config.toml").write_text(f"[network]\nagents = {agents}\n")
    for i in range(agents):
        around = tuple(sorted(((i - 1) % agents, (i + 1) % agents)))
        words = ("pp-admm", "seeded", "public-bounds", "0.1.0")
        header = Header(i, around, RECORDS, contract, *words, mode="simulation")
        ledger = Ledger(LedgerFile(ledger_path(folder, i, agents), durable=False, kept=False), header)
        for round_ in range(rounds):
            ledger.charge(round_, *EVENTS)
        ledger.end()
        ledger.close()


def verify(agents: int, rounds: int) -> None:
    """Print what `admmnet ledger verify` takes: processor time of all its processes, memory of the largest."""
    with tempfile.TemporaryDirectory() as place:
        write_ledgers(Path(place) / "run", agents, rounds)
        command = [sys.executable, "-m", "admmnet", "ledger", "verify", f"{place}/run"]
        subprocess.run(command, check=True, timeout=1800)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.1f} s of processor time, largest process {used.ru_maxrss / 1000:.0f} MB")


def main() -> None:
    """Measure every size in a process of its own, so that its memory is its own."""
    parser = argparse.ArgumentParser(description="Whole runs of many agents in one process.")
    parser.add_argument("--agents", default="100,1000,10000")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--ring", action="store_true")
    parser.add_argument("--ledgers", action="store_true")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for agents in map(int, words.agents.split(",")):
            asked: tuple[Any, ...] = (agents, words.rounds)
            if words.ring:
                asked = *asked, f"{folder}/{agents}.npz"
                write_people(Path(asked[-1]), agents * FEW, width=NARROW)
            work: Any = verify if words.ledgers else ring if words.ring else measure
            child = get_context("spawn").Process(target=work, args=asked)
            child.start()
            child.join(1800)
            if child.exitcode != 0:
                child.kill()
                raise SystemExit(f"{agents} agents: no figures")


if __name__ == "__main__":
    main()
