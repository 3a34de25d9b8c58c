"""`admmnet ledger verify` on the ledgers of many agents: processor time of all its processes, memory of the largest.

    python -m tests.benchmarks.bench_verify [--agents 10000] [--rounds 100]

The ledgers are written as a simulation of pp-admm writes them: two events a round, a file a block of 128 agents.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from admmnet.auditing.canary import contract_for
from admmnet.privacy.events import Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger.file import Ledger
from admmnet.privacy.ledger.form import Header
from admmnet.privacy.ledger.segments import Segment

BLOCK, RECORDS = 128, 100
EVENTS = (ObjectivePerturbation(2.0 / RECORDS, 1.0, 1.0, 0.25, 1.05, RECORDS, logistic=True), Gaussian(6e-4, 0.22))


def write(folder: Path, agents: int, rounds: int) -> None:
    """Ledgers of agents on a ring of a run that has not finished."""
    (folder / "ledger").mkdir(parents=True)
    contract = contract_for(1e6, 1e-5, tuple((event, rounds) for event in EVENTS))
    (folder / "config.toml").write_text(f"[network]\nagents = {agents}\n")
    for start in range(0, agents, BLOCK):
        path, block = (
            folder / "ledger" / f"block-{start:0{len(str(agents - 1))}d}.jsonl",
            range(agents)[start:][:BLOCK],
        )
        file, ledgers = Segment(path, len(block), kept=False), []
        for i in block:
            around = tuple(sorted(((i - 1) % agents, (i + 1) % agents)))
            words = ("pp-admm", "seeded", "public-bounds", "0.1.0")
            header = Header(i, around, RECORDS, contract, *words, mode="simulation")
            ledgers.append(Ledger(file, header, durable=False))
        for round_ in range(rounds):
            for ledger in ledgers:
                ledger.charge(round_, *EVENTS)
            ledgers[0].commit()
        for ledger in ledgers:
            ledger.end()
        for ledger in ledgers:
            ledger.close()


def main() -> None:
    """Write, verify, tell."""
    parser = argparse.ArgumentParser(description="Verify the ledgers of many agents.")
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=100)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        write(folder, words.agents, words.rounds)
        command = [sys.executable, "-m", "admmnet", "ledger", "verify", str(folder)]
        subprocess.run(command, check=True, timeout=1800)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.1f} s of processor time, largest process {used.ru_maxrss / 1000:.0f} MB")


if __name__ == "__main__":
    main()
