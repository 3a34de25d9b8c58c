"""Sums of integers modulo 2^64 over agents: the same in any order, so every transport adds up as it likes.

A part has, of every agent, whether it is in the sum, and then the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from admmnet.errors import RunError
from admmnet.graph.tree import Tree
from admmnet.types import Integers, Total


def part_of(
    agents: Iterable[int], outgoing: Mapping[int, Integers | None], tree: Tree | None, count: int, size: int
) -> Integers:
    """Part of those of some agents of ``count`` that are in the round's tree; none are in a void round.

    RunError if an agent's vector has not ``size`` numbers.
    """
    part, inside = np.zeros(count + size, dtype=np.int64), set() if tree is None else set(tree.agents)
    for i in agents:
        vector = outgoing.get(i)
        if vector is not None and vector.size != size:
            raise RunError(
                f"agent {i} gives {vector.size} numbers in place of {size}: it does not run the same model; start all "
                "agents with the same data schema and settings"
            )
        if vector is not None and i in inside:
            part[i] = 1
            part[count:] += vector  # arrays of integers wrap around
    return part


def total_of(part: Integers, count: int) -> Total | None:
    """What the sum of all parts means; None if nobody is in it."""
    agents = tuple(np.flatnonzero(part[:count]).tolist())
    return Total(part[count:].copy(), agents) if agents else None
