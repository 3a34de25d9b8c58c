"""The command line with one dishonest process or broken reader, for every process of a run.

ADMMNET_ATTACK names the attack, if there is one; ADMMNET_DEFENCE = off puts back what the product did before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from admmnet.cli import run_command_line
from admmnet.data import sources
from admmnet.holder import door
from admmnet.holder.known import Known
from admmnet.running import loop, spawn, told
from admmnet.transport import World
from admmnet.transport.collective import end_all_on_error
from tests.attacks.launched import records_of

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


def merged(
    world: object, answers: Sequence[Any], owners: object, mine: object, valid: object, what: str, **more: object
) -> dict[int, int]:
    """What planning did before: everybody is believed of everybody, the last one most."""
    known: dict[int, int] = {}
    for answer in answers:
        known |= dict(answer)
    return known


def believing(records: int, *facts: Any, **more: Any) -> Known:
    """A door that counts no records, but believes what was said of them."""
    return Known(records if records == records_of(LIAR) else MANY, *facts, **more)


def broken(*arguments: object, **settings: object) -> None:
    """Stand in for a reader with a bug: NumPy and Python quote what they cannot convert."""
    float(SECRET)


def quoting(world: World, *, debug: bool, withhold: bool) -> AbstractContextManager[None]:
    """Errors of a private run quote what they quote in a simulation."""
    return end_all_on_error(world, debug=debug)


def attack(name: str, *, defended: bool) -> None:
    if name.startswith("counts"):
        claims: dict[str, Callable[[int, int], list[list[Any]]]] = {
            "counts of others": lambda agent, count: [[i, MANY] for i in range(LIAR)] + [[agent, count]],
            "counts of its own": lambda agent, count: [[agent, MANY]],
        }
        lie(claims[name])
        if not defended:
            told.owned = merged  # type: ignore[assignment, attr-defined]
            door.Known = believing  # type: ignore[assignment, attr-defined]
    if name == "bug":
        sources.read_npz = broken  # type: ignore[assignment, attr-defined]
        if not defended:
            loop.end_all_on_error = quoting  # type: ignore[assignment, attr-defined]


if __name__ == "__main__":
    spawn.MODULE = "tests.attacks.attacked_run"
    attack(os.environ["ADMMNET_ATTACK"], defended=os.environ["ADMMNET_DEFENCE"] == "on")
    sys.exit(run_command_line(sys.argv[1:]))
