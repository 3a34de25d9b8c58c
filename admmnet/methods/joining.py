"""Who speaks where agents join a core, and which vectors lie between: docs/methods.md, eqs. (80), (81), (84)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from admmnet.graph.simple import Graph, parts_of
from admmnet.methods.agents import Mask
from admmnet.types import Integers

SLACK, LEAST_CORE = 0.95, 3
"""Share of the best signal-to-noise that the core keeps, and its fewest agents: eq. (80)."""
ASKED_IN = (1, 4, 8)
"""Rounds in which a listener is asked, until its yes; the first round is 0."""
TAU = 4.0
"""Threshold over the noise of the agent's own releases, eq. (84)."""


def core_of(counts: Mapping[int, int]) -> frozenset[int]:
    """Agents that speak from the first round on, eq. (80): the longest prefix by size near the best signal-to-noise."""
    order = sorted(counts, key=lambda i: (-counts[i], i))
    records, ratios = 0, []
    for size, i in enumerate(order, 1):
        records += counts[i]
        ratios.append(records / math.sqrt(size))
    enough = SLACK * max(ratios)
    longest = max(size for size, ratio in enumerate(ratios, 1) if ratio >= enough)
    return frozenset(order[: max(longest, LEAST_CORE)])


def relays_of(graph: Graph, core: frozenset[int]) -> frozenset[int]:
    """Agents on short paths between the parts of the core, eq. (81), as Mehlhorn (1988) finds a Steiner tree."""
    parts = {i: part for part, own in enumerate(parts_of(graph, core)) for i in own}
    hops, before, waiting = dict.fromkeys(sorted(core), 0), dict[int, int](), deque(sorted(core))
    while waiting:
        i = waiting.popleft()
        for j in sorted(graph[i]):
            if j not in hops:
                hops[j], before[j], parts[j] = hops[i] + 1, i, parts[i]
                waiting.append(j)
    joined, relays = {part: part for part in parts.values()}, set[int]()
    bridges = sorted((hops[i] + hops[j], min(i, j), max(i, j)) for i, j in graph.edges if parts[i] != parts[j])
    for _, *ends in bridges:
        one, other = (joined[parts[i]] for i in ends)
        if one != other:
            joined = {part: one if now == other else now for part, now in joined.items()}
            for i in ends:
                while i in before:
                    relays.add(i)
                    i = before[i]
    return frozenset(relays)


def reaching(graph: Graph, first: frozenset[int], asked: Sequence[int]) -> frozenset[int]:
    """First speakers, and whoever lies between them and the agents that are asked, one after the other, eq. (81)."""
    speakers = set(first)
    for i in asked:
        before, waiting = {i: i}, deque([i])
        while (j := waiting.popleft()) not in speakers:
            for k in sorted(graph[j]):
                if k not in before:
                    before[k] = j
                    waiting.append(k)
        while (j := before[j]) != i:
            speakers.add(j)
    return frozenset(speakers)


@dataclass(slots=True)
class Joining:
    """State of agents where not all speak from the first round; both ends of an edge know what they say of it."""

    joined: Integers
    """Shape (B,). Round of an agent's yes, -1 before."""
    met: Mask
    acquainted: Mask
    """Shape (E,). Whether the neighbour is known to speak, and knows that this agent does."""
