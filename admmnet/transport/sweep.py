"""How a sum runs along a tree of agents between processes: up to the root and down again (docs/protocol.md, "Sums").

The agents of one process fall into pieces that the tree joins without leaving the process. A piece sends one message
up, from its top agent; down, a process needs the total once, from the process above its shallowest piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from admmnet.errors import RunError
from admmnet.graph.tree import Tree
from admmnet.types import Integers, Total


class Piece(Struct, frozen=True):
    """Agents of one process that the tree joins.

    Attributes
    ----------
    top : int
        The one next to the root.
    above : int or None
        Process of the top's parent, None at the root.
    agents : tuple of int
    below : tuple of (int, int)
        Process and top of every piece elsewhere that sends to this one, by ascending top.
    """

    top: int
    above: int | None
    agents: tuple[int, ...]
    below: tuple[tuple[int, int], ...]


class Sweep(Struct, frozen=True):
    """One process's part of a sum.

    Attributes
    ----------
    tree : Tree
    pieces : tuple of Piece
        Deepest top first: what a piece waits for is deeper, so nobody waits in a circle.
    giver : int or None
        Process from which this one has the total, None at the root's.
    takers : tuple of (int, int)
        Processes that have it from this one, and their shallowest tops.
    """

    tree: Tree
    pieces: tuple[Piece, ...]
    giver: int | None
    takers: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, tree: Tree, owners: Sequence[Sequence[int]], rank: int) -> Sweep:
        """Part of process ``rank``, where ``owners`` has the agents of every process."""
        owner = np.empty(len(tree.parent), dtype=np.int64)
        for process, own in enumerate(owners):
            owner[list(own)] = process
        inside = np.flatnonzero(tree.depth >= 0)
        root = tree.root
        tops = inside[(inside == root) | (owner[tree.parent[inside]] != owner[inside])]
        above = {int(i): None if i == root else int(owner[tree.parent[i]]) for i in tops}
        mine = sorted((i for i in owners[rank] if tree.depth[i] >= 0), key=lambda i: (tree.depth[i], i))
        piece: dict[int, int] = {}
        agents: dict[int, list[int]] = {}
        for i in mine:
            piece[i] = i if i in above else piece[int(tree.parent[i])]
            agents.setdefault(piece[i], []).append(i)
        below: dict[int, list[tuple[int, int]]] = {top: [] for top in agents}
        for i, over in above.items():
            if over == rank:
                below[piece[int(tree.parent[i])]].append((int(owner[i]), i))
        shallowest: dict[int, int] = {}
        for i in tops[np.lexsort((tops, tree.depth[tops]))]:
            shallowest.setdefault(int(owner[i]), int(i))
        giver = above[shallowest[rank]] if rank in shallowest else None
        takers = tuple(sorted((q, top) for q, top in shallowest.items() if above[top] == rank))
        order = sorted(agents, key=lambda top: (-tree.depth[top], -top))
        pieces = tuple(
            Piece(top, above[top], tuple(sorted(agents[top])), tuple(sorted(below[top], key=lambda b: b[1])))
            for top in order
        )
        return cls(tree, pieces, giver, takers)


class Unfit(ValueError):
    """What another process has sent is no part of this sum; the text says why."""


class Partial(Struct):
    """Sum over a part of a tree: of vectors of one length, modulo 2^64, and who said nothing."""

    value: Integers | None = None
    silent: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, agents: Iterable[int], outgoing: Mapping[int, Integers | None]) -> Partial:
        """Sum over some agents of this process, of vectors that passed ``check``."""
        found = cls()
        for i in agents:
            vector = outgoing.get(i)
            if vector is None:
                found.silent.append(i)
            else:
                found.add(vector)
        return found

    def add(self, vector: Integers) -> None:
        """Take in a vector."""
        if self.value is None:
            self.value = vector.astype(np.int64, copy=True)
        else:
            self.value += vector  # arrays of integers wrap around

    def join(self, other: Partial) -> None:
        """Take in the sum over another part."""
        self.silent += other.silent
        if other.value is not None:
            self.add(other.value)

    @property
    def words(self) -> Integers:
        """As a message: how many are silent, who, and the numbers, which nobody sends where all are."""
        silent = np.array([len(self.silent), *sorted(self.silent)], dtype=np.int64)
        return silent if self.value is None else np.concatenate([silent, self.value])

    @classmethod
    def read(cls, words: Integers, size: int, agents: Integers) -> Partial:
        """Undo ``words`` of a sum of vectors of one length over some agents; Unfit if they are no such message.

        What passes here passes at every process that it is handed on to, so nobody is blamed for another's words.
        """
        count = int(words[0]) if words.size else -1
        silent = words[1 : 1 + count] if 0 <= count < words.size else None
        if silent is None or (np.diff(silent) <= 0).any() or not np.isin(silent, agents).all():
            raise Unfit("a sum with an impossible list of silent agents")
        value, nobody = words[1 + count :], count == len(agents)
        if nobody and value.size:
            raise Unfit("a sum of no agents, with numbers")
        if not nobody and value.size != size:
            raise Unfit(lengths(value.size, size))
        return cls(None if nobody else value.copy(), silent.tolist())

    def whole(self, tree: Tree) -> Partial:
        """Return the total as it goes down: with all who are not in it, also those outside the tree."""
        absent = set(self.silent) | set(range(len(tree.parent))).difference(tree.agents)
        return Partial(self.value, sorted(absent))

    def total(self, agents: int) -> Total | None:
        """Return what a ``whole`` means to a network of so many agents; None if nobody is in it."""
        if self.value is None:
            return None
        absent = set(self.silent)
        return Total(self.value, tuple(i for i in range(agents) if i not in absent))


def check(outgoing: Mapping[int, Integers | None], size: int) -> None:
    """Refuse vectors of this process that have another length; RunError."""
    for i, vector in outgoing.items():
        if vector is not None and vector.size != size:
            raise RunError(f"agent {i} gives {lengths(vector.size, size)}")


def lengths(found: int, expected: int) -> str:
    """What to say of a vector of another length."""
    return (
        f"{found} numbers in place of {expected}: it does not run the same model; start all agents with the same data "
        "schema and settings"
    )
