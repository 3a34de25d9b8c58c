"""The machines of a run: how many there are, and whether what a method needs fits into their memory."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from admmnet.errors import RequestError
from admmnet.files import free_memory
from admmnet.methods.base import Method


def require_room(machines: Sequence[str], method: Method, agents: int) -> None:
    """Refuse what does not fit into the memory that is free.

    ``machines`` are those of all processes, of which those of one share its memory; ``agents`` those of this process.
    """
    needed, free = method.memory(agents) * machines.count(platform.node()), free_memory()
    if needed > free:
        raise RequestError(
            f"{method.name} needs {needed / 1e9:.1f} GB for moments of d = {method.facts.width:,} features, and "
            f"{free / 1e9:.1f} GB of memory are free: take --algorithm noisy-gd, or "
            "--project D"
        )
