"""Local problems of a block of agents solved together; those with similar numbers of records share a stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admmnet.errors import RunError
from admmnet.solvers.blocks.group import Group, attempt
from admmnet.solvers.blocks.records import LARGE, Indices, Stack, StackRows, groups
from admmnet.solvers.certificate import AnySolver, Solution
from admmnet.solvers.kernel import Kernel
from admmnet.solvers.losses import Loss
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector


class BlockMember(AnySolver):
    """One agent's part of a block: what `LocalSolver` is to its agent; X and y are views."""

    def __init__(self, block: BlockSolver, index: int, X: Matrix, y: Vector, row_norm: float, kernel: Kernel) -> None:
        super().__init__(X, y, block.loss, row_norm, kernel)
        self.block, self.index = block, index

    def solve(self, g: Vector, m: float, beta: float) -> Solution:
        """Minimise, or raise ``RunError``, as `LocalSolver.solve` does, alone."""
        block: BlockSolver = self.block
        (answer,) = block.solve([self.index], g[None, :], np.array([m]), np.array([beta]))
        if isinstance(answer, RunError):
            raise answer
        return answer

    def fresh(self) -> LocalSolver:
        """Solver of the same agent by itself, over the same records, that has learnt nothing."""
        return LocalSolver(self.X, self.y, self.loss, self.kernel)


class BlockSolver:
    """Solver of the local problems of a block of agents.

    An answer depends on the member's records, its history and the padded shape of its stack; not, in a bit, on
    the other members, nor on which are solved together. The same calls in the same order give the same bits.

    Memory: the records once, padded by an eighth at most where numbers of records differ; 4 min(n, d)^2 bytes an
    agent for curvature once it pays, half of the records' 8 n d at most; and for every agent 2 vectors of d and up
    to 8 half ones.

    Parameters
    ----------
    shards : sequence of (X, y)
        Records of every agent, X (n_i, d) and y (n_i,), float64. Copied into stacks, except those of more than
        100,000 numbers: each of these has a `LocalSolver` to itself.
    loss, kernel
        As of `LocalSolver`.

    Attributes
    ----------
    members : tuple of BlockMember
        In the order of the shards.
    """

    def __init__(self, shards: Sequence[tuple[Matrix, Vector]], loss: Loss, kernel: Kernel = "numpy") -> None:
        self.loss = loss
        self._groups: list[Group] = []
        self._places: list[Indices] = []  # members of every group
        self._alone: dict[int, LocalSolver] = {}
        self._home: dict[int, tuple[int, int]] = {}  # member -> group and place there
        members: dict[int, BlockMember] = {}
        for group in groups([X.shape for X, _ in shards]):
            if shards[group[0]][0].size > LARGE:
                X, y = shards[group[0]]  # a view would keep alive what it is a part of
                part = LocalSolver(X if X.base is None else X.copy(), y.copy(), loss, kernel)
                self._alone[group[0]] = part
                members[group[0]] = BlockMember(self, group[0], part.X, part.y, part.row_norm, part.kernel)
                continue
            stack = Stack([shards[i] for i in group], loss, kernel)
            for place, i in enumerate(group):
                n, R = int(stack.counts[place]), float(stack.row_norm[place])
                self._home[i] = len(self._groups), place
                members[i] = BlockMember(self, i, stack.X[place, :n], stack.y[place, :n], R, stack.kernel)
            self._groups.append(Group(stack))
            self._places.append(np.array(group, dtype=np.intp))
        self.members = tuple(members[i] for i in sorted(members))

    @np.errstate(all="ignore")  # as in LocalSolver.solve
    def solve(self, indices: Sequence[int], G: Matrix, m: Vector, beta: Vector) -> list[Solution | RunError]:
        """Solve the problems of some members, each once, as `LocalSolver.solve` does.

        Linear terms G are of shape (k, d), coefficients m and gradient norms beta of shape (k,). Answers are in the
        order of `indices`: what `LocalSolver.solve` would raise takes the place of a solution, and a member without one
        starts its next solve where it started this one.
        """
        found: dict[int, Solution | RunError] = {}
        tasks: dict[int, list[tuple[int, int]]] = {}  # group -> member of the stack, place in the call
        for place, i in enumerate(indices):
            if i in self._alone:
                found[place] = attempt(self._alone[i], G[place], float(m[place]), float(beta[place]))
            else:
                at, row = self._home[i]
                tasks.setdefault(at, []).append((row, place))
        for at, pairs in sorted(tasks.items()):
            order = np.array(sorted(pairs), dtype=np.intp)
            places = order[:, 1]
            found |= self._groups[at].solve(order[:, 0], places, G[places], m[places], beta[places])
        return [found[place] for place in range(len(indices))]

    def mean_losses(self, theta: Matrix) -> Vector:
        """Mean loss of every member, shape (B,), at theta (B, d) or at one theta (d,)."""
        points = np.broadcast_to(theta, (len(self.members), theta.shape[-1]))
        found = np.empty(len(self.members))
        for i, solver in self._alone.items():
            (found[i],) = solver.mean_losses(points[i])
        for places, group in zip(self._places, self._groups, strict=True):
            found[places] = group.stack.mean_losses(StackRows.of(np.arange(len(places))), points[places])
        return found
