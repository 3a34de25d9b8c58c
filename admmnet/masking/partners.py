"""The graph of masks: who shares one with whom."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise

from admmnet.errors import RequestError


@lru_cache(maxsize=64)
def check_participants(participants: tuple[int, ...], colluders: int) -> None:
    """Refuse participants of which two might not be left once the colluders are out; RequestError names the numbers."""
    if not 0 <= colluders <= len(participants) - 2:
        raise RequestError(
            f"masked sums with colluders = {colluders} need at least {colluders + 2} agents that take part, and these "
            f"are {len(participants)}: lower --colluders, or take --trust local"
        )
    if any(i >= j for i, j in pairwise(participants)):
        raise RequestError("the participants of a masked sum must be different agents in ascending order")


def partners_of(agent: int, participants: tuple[int, ...], colluders: int) -> tuple[int, ...]:
    """Agents with whom one shares a mask: its neighbours in the Harary graph H_(K+1) over the participants.

    It is (K+1)-connected, so it stays connected without any K agents, and has the fewest edges that such a graph can
    have (Harary 1962). With K = 0 it is a path. RequestError if fewer than K + 2 agents take part, or the agent is none
    of them.
    """
    check_participants(participants, colluders)
    place = bisect_left(participants, agent)
    if place == len(participants) or participants[place] != agent:
        raise RequestError(f"agent {agent} takes no part in this masked sum")
    return tuple(participants[other] for other in _harary(len(participants), colluders)[place])


@lru_cache(maxsize=16)
def _harary(size: int, colluders: int) -> tuple[tuple[int, ...], ...]:
    """Neighbours of every place."""
    import networkx as nx

    graph = nx.hkn_harary_graph(colluders + 1, size)
    return tuple(tuple(sorted(graph[place])) for place in range(size))
