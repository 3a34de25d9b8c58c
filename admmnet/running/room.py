"""The machines of a run: how many there are, and whether what a method needs fits into their memory."""

from __future__ import annotations

import platform

from admmnet.errors import RequestError
from admmnet.files import free_memory
from admmnet.methods.base import Method
from admmnet.transport import World
from admmnet.transport.collective import run_on_all


def require_room(world: World, method: Method, agents: int) -> int:
    """Refuse what does not fit into the memory that is free, and return the number of machines; collective.

    ``agents`` are those of this process; the processes of a machine share its memory.
    """
    names = [str(name) for name in world.gather(platform.node()) if name is not None]
    processes = names.count(platform.node())

    def check() -> None:
        needed, free = method.memory(agents) * processes, free_memory()
        if needed > free:
            raise RequestError(
                f"{method.name} needs {needed / 1e9:.1f} GB for moments of d = {method.facts.width:,} features, and "
                f"{free / 1e9:.1f} GB of memory are free: take --algorithm noisy-gd, which makes no (d, d) matrix, or "
                "--project D"
            )

    run_on_all(world, check)
    return len(set(names))
