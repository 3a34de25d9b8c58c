"""The command line with one dishonest process or broken reader, for every process of a run.

ADMMNET_ATTACK names the attack, if there is one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from admmnet.cli import run_command_line
from admmnet.data import sources
from admmnet.running import spawn
from admmnet.transport.mpi import MPIWorld

LIAR = 2
"""Process, and its one agent."""
MANY = 10**9
SECRET = "HIV-positive"


CLAIMS: dict[str, Callable[[int, int], list[list[Any]]]] = {
    "counts of others": lambda agent, count: [[i, MANY] for i in range(LIAR)] + [[agent, count]],
    "counts of its own": lambda agent, count: [[agent, MANY]],
}


def lie(claim: Callable[[int, int], list[list[Any]]]) -> None:
    """Let process LIAR claim other numbers of records, in the first facts that it tells of its agents."""
    gather, told = MPIWorld.gather, list[bool]()

    def gathering(self: MPIWorld, value: Any, topic: str = "ready") -> list[Any]:
        if self.rank == LIAR and isinstance(value, dict) and "counts" in value and not told:
            told.append(True)
            ((agent, count),) = value["counts"]
            value = value | {"counts": claim(agent, count)}
        return gather(self, value, topic)

    MPIWorld.gather = gathering  # type: ignore[method-assign]


def broken(*arguments: object, **settings: object) -> None:
    """Stand in for a reader with a bug: NumPy and Python quote what they cannot convert."""
    float(SECRET)


if __name__ == "__main__":
    spawn.MODULE = "tests.attacks.attacked_run"
    attack = os.environ["ADMMNET_ATTACK"]
    if attack in CLAIMS:
        lie(CLAIMS[attack])
    if attack == "bug":
        sources.read_npz = broken  # type: ignore[assignment, attr-defined]
    sys.exit(run_command_line(sys.argv[1:]))
