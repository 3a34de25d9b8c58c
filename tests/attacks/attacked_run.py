"""The command line with one dishonest process or broken reader, for every process of a run.

ADMMNET_ATTACK names the attack, if there is one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from admmnet.cli import run_command_line
from admmnet.data import sources
from admmnet.running import spawn
from admmnet.transport import World

LIAR = 2
"""Process, and its one agent."""
MANY = 10**9
SECRET = "HIV-positive"


def lie(claim: Callable[[int, int], list[list[Any]]]) -> None:
    """Let process LIAR claim other numbers of records, in the first facts that it tells of its agents."""

    def armed(gather: Callable[[World, Any, str], list[Any]]) -> Callable[[World, Any, str], list[Any]]:
        told: list[bool] = []

        def gathering(self: World, value: Any, topic: str = "ready") -> list[Any]:
            if self.rank == LIAR and isinstance(value, dict) and "counts" in value and not told:
                told.append(True)
                ((agent, count),) = value["counts"]
                value = value | {"counts": claim(agent, count)}
            return gather(self, value, topic)

        return gathering

    for module, name in (("admmnet.transport.mpi", "MPIWorld"), ("admmnet.transport.zmq.transport", "ZmqWorld")):
        world = getattr(import_module(module), name)
        world.gather = armed(world.gather)


def broken(*arguments: object, **settings: object) -> None:
    """Stand in for a reader with a bug: NumPy and Python quote what they cannot convert."""
    float(SECRET)


def attack(name: str) -> None:
    claims: dict[str, Callable[[int, int], list[list[Any]]]] = {
        "counts of others": lambda agent, count: [[i, MANY] for i in range(LIAR)] + [[agent, count]],
        "counts of its own": lambda agent, count: [[agent, MANY]],
    }
    if name in claims:
        lie(claims[name])
    if name == "bug":
        sources.read_npz = broken  # type: ignore[assignment, attr-defined]


if __name__ == "__main__":
    spawn.MODULE = "tests.attacks.attacked_run"
    attack(os.environ["ADMMNET_ATTACK"])
    sys.exit(run_command_line(sys.argv[1:]))
