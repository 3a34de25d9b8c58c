"""The model at the end of a run, from released vectors alone: post-processing, it costs nothing."""

from collections.abc import Collection
from functools import cache, partial

import numpy as np

from admmnet.errors import RequestError
from admmnet.graph.simple import Graph
from admmnet.graph.tree import spanning_tree
from admmnet.running.party import Party
from admmnet.solvers.radius import MOST, clip_rows
from admmnet.transport import Transport
from admmnet.types import Integers, Matrix, Vector

GRID = 2.0**-40
"""Grid to which a number is rounded before it is averaged along a tree."""
AT_ONCE = 4096
"""Agents whose vectors are rounded together."""
MOST_AVERAGED = 2**21
"""Most agents of an average: their numbers, of 2^40 at most, cannot leave the integers."""


class TailAverage:
    """Running mean of released vectors of this process's agents over the last half of the rounds.

    Where agents are away it has what was heard of all, too: since a resumed run went on.
    """

    def __init__(self, rounds: int) -> None:
        self._first = rounds // 2
        self.count = 0
        self.sum: Matrix | None = None
        self._heard: Matrix | None = None
        self._times = 0

    def add(self, round: int, theta: Matrix, heard: Matrix | None = None) -> None:
        """Take in a round's vectors, shape (local agents, d), and all agents' where some are away, shape (N, d)."""
        if round >= self._first:
            self.sum = theta if self.sum is None else self.sum + theta
            self.count += 1
            if heard is not None:
                self._heard = heard if self._heard is None else self._heard + heard
                self._times += 1

    def mean(self) -> Matrix:
        """Return the mean, shape (local agents, d)."""
        assert self.sum is not None
        return self.sum / self.count

    def heard(self, last: Matrix) -> Matrix:
        """Return the mean of what was heard of all agents, shape (N, d); their ``last`` vectors where nothing was."""
        return last if self._heard is None else self._heard / self._times


def average(
    transport: Transport, graph: Graph, party: Party, round: int, away: Collection[int] = ()
) -> tuple[Vector | None, Integers]:
    """Average the agents' released vectors by one sum along a tree, eqs. (93), (94): the same bits everywhere.

    Agents that are no members or ``away``, and those whose method leaves them out, are not in it. Return the average,
    of shape (d,), None where no agent has a vector, and how many numbers each agent has sent, (N,).
    """
    counted = np.flatnonzero(party.in_average() & ~np.isin(party.ids, list(away)))
    models, step = party.models(), party.method.lattice
    size = (2 if step is None else 1) * party.method.size
    rows = np.empty((len(counted), size), dtype=np.int64)
    for some in (slice(start, start + AT_ONCE) for start in range(0, len(counted), AT_ONCE)):
        rows[some] = _parts(models[counted[some]], step)
    parts = dict.fromkeys(party.ids) | {party.ids[row]: own for row, own in zip(counted.tolist(), rows, strict=True)}
    trees = cache(partial(spanning_tree, graph))
    total = transport.reduce(parts, trees, round, size)
    tree = trees(frozenset(transport.away))
    numbers = np.zeros(len(graph), dtype=np.int64)
    if total is None or tree is None:
        return None, numbers
    numbers += tree.messages(total.agents) * total.value.size
    if step is not None:
        return np.asarray(total.value * (step / len(total.agents)), dtype=np.float64), numbers
    return _from_fixed_point(total.value, len(total.agents)), numbers


def _parts(theta: Matrix, step: float | None) -> Integers:
    """What each agent adds to the sum, a row each: whole steps of a method's own grid, or the two integers of (93)."""
    if step is None:
        return _fixed_point(clip_rows(theta, MOST))
    return whole_steps(theta, step)


def whole_steps(theta: Matrix | Vector, step: float) -> Integers:
    """Nearest whole steps, halves rounded up: a vector that is moved by whole steps is rounded alike, as N2 needs."""
    return np.floor(theta / step + 0.5).astype(np.int64)


def _fixed_point(rows: Matrix) -> Integers:
    """Two integers a coordinate, shape (k, 2 d): it to the nearest, and the rest on the grid, both exactly."""
    whole = np.rint(rows)
    return np.hstack([whole, np.rint((rows - whole) / GRID)]).astype(np.int64)


def _from_fixed_point(total: Integers, count: int) -> Vector:
    """Mean of so many vectors from their sum, rounded once."""
    scale = int(1.0 / GRID)
    pairs = zip(*np.split(total, 2), strict=True)
    return np.array([(int(whole) * scale + int(rest)) / (count * scale) for whole, rest in pairs])


def check_answer(answer: str, graph: Graph) -> None:
    """Refuse before the run what its graph is too large for; RequestError names the bound and the remedy."""
    if answer == "average" and len(graph) > MOST_AVERAGED:
        raise RequestError(
            f"answer = 'average' adds up at most {MOST_AVERAGED} agents exactly, this graph has {len(graph)}: take "
            "answer = 'last'"
        )
